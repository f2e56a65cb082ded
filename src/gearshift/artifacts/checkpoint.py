"""Which files of a model's folder hold weights, told by their names: none of them is opened."""

from __future__ import annotations

from pathlib import Path

_ENDINGS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_OF_TRAINING = frozenset({  # what trainers leave beside a checkpoint, and vLLM leaves out
    *("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt"),
})  # fmt: skip


def checkpoint_files(folder: Path) -> tuple[str, ...] | None:
    """Names of the files right in a Hugging Face folder that hold weights, sorted; None where it is no such folder.

    A link to nothing is no file. Blocking; a folder that cannot be listed is none.
    """
    try:
        if not (folder / "config.json").is_file():
            return None
        return tuple(sorted(path.name for path in folder.iterdir() if _holds_weights(path)))
    except OSError:
        return None


def _holds_weights(path: Path) -> bool:
    return path.suffix in _ENDINGS and path.name not in _OF_TRAINING and path.is_file()
