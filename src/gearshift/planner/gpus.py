"""Memory, bandwidth and compute of current cards, each row with its source; others are asked, measured or given."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gearshift.domain.device import Device
from gearshift.domain.units import GIB

_SERVCALC = "servcalc 0.1.0 (MIT): vendor data sheets, dense"
_AICONFIGURATOR = "aiconfigurator-core 0.12.0 (Apache-2.0)"
_SHEET = "vendor data sheet"
_NVML = "from NVML: largest memory clock over the bus"
_OTHER_CARDS = frozenset({"ti", "super", "laptop", "mobile", "d"})  # words that make another card of a known name


@dataclass(frozen=True, slots=True)
class MeasuredBandwidth:
    """What this box's memory was seen to do: bytes/s, by which method, and when (unix time)."""

    bytes_s: float
    method: str
    at: float

    @property
    def source(self) -> str:
        return f"measured here on {datetime.fromtimestamp(self.at, UTC).date()}: {self.method}"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card, or a host's memory: nominal GiB, peak bandwidth in GB/s, dense BF16 in TFLOPS (None = not known).

    ``measured`` is what this box's own one was seen to reach; its bandwidth is that where nothing else tells it.
    """

    name: str
    memory_gib: float
    bandwidth_gbs: float
    bf16_tflops: float | None
    source: str
    measured: MeasuredBandwidth | None = None

    @property
    def total_bytes(self) -> int:
        return int(self.memory_gib * GIB)

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bandwidth_gbs * 1e9

    @property
    def flops(self) -> float | None:
        return None if self.bf16_tflops is None else self.bf16_tflops * 1e12


GPUS: tuple[Gpu, ...] = (
    Gpu("RTX 3060", 12, 360, 25, _SERVCALC),
    Gpu("RTX 3080", 10, 760, 60, _SERVCALC),
    Gpu("RTX 3090", 24, 936, 71, _SERVCALC),
    Gpu("RTX 3090 Ti", 24, 1008, 80, _SERVCALC),
    Gpu("RTX 4060 Ti", 16, 288, 44, _SERVCALC),
    Gpu("RTX 4070 Ti SUPER", 16, 672, 88, _SERVCALC),
    Gpu("RTX 4080 SUPER", 16, 736, 104, _SERVCALC),
    Gpu("RTX 4090", 24, 1008, 165, _SERVCALC),
    Gpu("RTX 5060 Ti", 16, 448, None, _SHEET),
    Gpu("RTX 5070", 12, 672, 62, _SERVCALC),
    Gpu("RTX 5070 Ti", 16, 896, 88, _SERVCALC),
    Gpu("RTX 5080", 16, 960, 112, _SERVCALC),
    Gpu("RTX 5090", 32, 1792, 210, _SERVCALC),
    Gpu("RTX A6000", 48, 768, 155, _SERVCALC),
    Gpu("RTX 6000 Ada", 48, 960, 364, _SERVCALC),
    Gpu("RTX PRO 6000", 96, 1792, 467.8, _AICONFIGURATOR),
    Gpu("GB10", 119, 273, None, _SHEET),  # 128 GB shared with the CPU
    Gpu("A10", 24, 600, 125, _SERVCALC),
    Gpu("A30", 24, 933, 165, _AICONFIGURATOR),
    Gpu("A40", 48, 696, 150, _SERVCALC),
    Gpu("L4", 24, 300, 121, _SERVCALC),
    Gpu("L40S", 48, 864, 362, _SERVCALC),
    Gpu("A100 40GB", 40, 1555, 312, _SERVCALC),
    Gpu("A100 80GB", 80, 2039, 312, _AICONFIGURATOR),
    Gpu("H100 PCIe", 80, 2000, 756.5, _AICONFIGURATOR),
    Gpu("H100 80GB", 80, 3350, 989, _SERVCALC),
    Gpu("H200", 141, 4800, 989, _AICONFIGURATOR),
    Gpu("B200", 180, 8000, 2250, _SERVCALC),
)

_BY_HAND = re.compile(r"(?P<gib>\d+(?:\.\d+)?)\s*(?:GiB)?\s*:\s*(?P<gbs>\d+(?:\.\d+)?)\s*(?:GB/s)?", re.IGNORECASE)


def find_gpu(name: str) -> Gpu | None:
    """The card that a driver's or a person's name means: every word of the row occurs in it, most words win.

    "NVIDIA GeForce RTX 5090" is the RTX 5090; "RTX 3090 Ti" is not the RTX 3090.
    """
    words = _words(name)
    matching = [gpu for gpu in GPUS if _words(gpu.name) <= words]
    best = max(matching, key=lambda gpu: len(_words(gpu.name)), default=None)
    return best if best is not None and not _OTHER_CARDS & (words - _words(best.name)) else None


def card_of(device: Device, measured: MeasuredBandwidth | None = None) -> Gpu | None:
    """The table's row for a device of this box, else what its driver tells, else what was measured; None without any.

    Only the table says how fast a card computes: the others have no compute bound.
    """
    found = find_gpu(device.name) or _told(device)
    if found is not None:
        return replace(found, measured=measured)
    if measured is None:
        return None
    size, rate = device.total_bytes / GIB, measured.bytes_s / 1e9
    return Gpu(device.name, size, rate, None, measured.source, measured)


def _told(device: Device) -> Gpu | None:
    if device.bandwidth is None:
        return None
    return Gpu(device.name, device.total_bytes / GIB, device.bandwidth / 1e9, None, _NVML)


def parse_gpu(text: str) -> Gpu:
    """A card by name, or ``GiB:GB/s`` by hand (``32:1792``). Raises ValueError for neither."""
    by_hand = _BY_HAND.fullmatch(text.strip())
    if by_hand:
        return Gpu(text.strip(), float(by_hand["gib"]), float(by_hand["gbs"]), None, "given by hand")
    found = find_gpu(text) or _abbreviated(text)
    if found is None:
        known = ", ".join(gpu.name for gpu in GPUS)
        msg = f"{text!r} is no known card; write GiB:GB/s (for example 32:1792) or one of {known}"
        raise ValueError(msg)
    return found


def _abbreviated(text: str) -> Gpu | None:
    """The one card whose name begins or ends so: ``5090``, ``rtx5090``; None where several do."""
    typed = "".join(re.findall(r"[a-z0-9]+", text.lower()))
    named = {"".join(re.findall(r"[a-z0-9]+", gpu.name.lower())): gpu for gpu in GPUS}
    exact = [gpu for name, gpu in named.items() if name == typed or name.removeprefix("rtx") == typed]
    matching = exact or [gpu for name, gpu in named.items() if typed and name.startswith(typed)]
    return matching[0] if len(matching) == 1 else None


def _words(name: str) -> frozenset[str]:
    spaced = re.sub(r"(?<=\d)(?=(?:ti|super)\b)", " ", name.lower())  # "3090ti"
    return frozenset(re.findall(r"[a-z0-9]+", spaced))
