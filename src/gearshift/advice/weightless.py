"""Whether vLLM would find weights among the files of a model's folder. Pure."""

from __future__ import annotations

from gearshift.domain.engine import FlagMap
from gearshift.domain.variant import Variant
from gearshift.engines.arguments import given_value

# By load-format, as vLLM's default loader looks for them; other formats are read in ways of their own.
_LOOKED_FOR = {
    "auto": (".safetensors", ".bin", ".pt"),
    "hf": (".safetensors", ".bin"),
    "safetensors": (".safetensors",),
    "pt": (".pt",),
}
_NAMED = 3  # files named before the rest is counted


def weightless(variant: Variant, flags: FlagMap, files: tuple[str, ...] | None) -> str | None:
    """What there is instead of weights that vLLM loads; None where it finds some, or nothing can be said.

    ``files`` are those of the folder that hold weights of any format (`checkpoint_files`), None for no such folder.
    """
    if variant.engine.kind != "vllm" or files is None:
        return None
    endings = _LOOKED_FOR.get(str(given_value(flags, variant.args, "load-format") or "auto"))
    if endings is None or any(name.endswith(endings) for name in files):
        return None
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    others = f", only {', '.join(files[:_NAMED])}{more}" if files else ""
    return f"beside config.json there is no {' or '.join(endings)} file with weights{others}"
