"""What `nvidia-smi` says about GPUs and NVML's binding here does not: peer access and compute capability. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ROW = re.compile(r"^\s*GPU(\d+)\s+(.*)$")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")  # the heading is underlined on a terminal and in a pipe alike
_GRANTED, _DENIED = {"OK"}, {"CNS", "GNS", "TNS", "NS", "DR"}


def peer_access(text: str) -> Mapping[tuple[int, int], bool]:
    """Pairs of GPU indices, lower first, from ``nvidia-smi topo -p2p r``. Pairs it calls unknown are left out."""
    found: dict[tuple[int, int], bool] = {}
    for line in _ANSI.sub("", text).splitlines():
        row = _ROW.match(line)
        words = row[2].split() if row else []
        if row is None or any(word.startswith("GPU") for word in words):
            continue  # the heading
        for column, word in enumerate(words):
            pair = (min(int(row[1]), column), max(int(row[1]), column))
            if pair[0] != pair[1] and word in _GRANTED | _DENIED:
                found[pair] = word in _GRANTED and found.get(pair, True)
    return found


def compute_capabilities(text: str) -> Mapping[str, float]:
    """Compute capability by UUID from ``nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader``."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        uuid, _, capability = (part.strip() for part in line.partition(","))
        if uuid.startswith("GPU-") and re.fullmatch(r"\d+\.\d+", capability):
            found[uuid] = float(capability)
    return found
