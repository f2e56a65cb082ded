"""`read_model`: a path to a model, whatever its format, to `ModelFacts`."""

from __future__ import annotations

from pathlib import Path

from gearshift.artifacts.damage import fail
from gearshift.artifacts.facts import ModelFacts
from gearshift.artifacts.gguf_facts import read_gguf_model
from gearshift.artifacts.hf_facts import read_config, read_hf_model


def read_model(path: Path) -> ModelFacts:
    """Headers only: a GGUF file (any part of a split one), a Hugging Face folder, or a lone config.json.

    Raises GearshiftError with what is wrong, in which file and at which byte.
    """
    if path.is_dir():
        return _read_folder(path)
    if path.exists() and not path.is_file():  # opening a pipe waits for a writer, reading a device may never end
        fail(path, "is neither a file nor a folder", hint="name a GGUF file or a folder with a Hugging Face model")
    if path.suffix == ".json":
        return read_config(path)
    if path.suffix == ".safetensors" and (path.parent / "config.json").exists():
        return read_hf_model(path.parent)
    return read_gguf_model(path)


def _read_folder(folder: Path) -> ModelFacts:
    if (folder / "config.json").exists():
        return read_hf_model(folder)
    parts = sorted(path for path in folder.glob("*.gguf") if not path.name.startswith("mmproj"))
    if not parts:
        fail(
            folder,
            "holds neither config.json nor a .gguf file",
            hint="name a GGUF file or a folder with a Hugging Face model",
        )
    firsts = [path for path in parts if "-of-" not in path.name or "-00001-of-" in path.name]
    if len(firsts) != 1:
        names = ", ".join(path.name for path in firsts[:5])
        fail(folder, f"holds several models: {names}", hint="name one of them")
    return read_gguf_model(firsts[0])
