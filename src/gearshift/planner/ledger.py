"""What planning answers with: ledgers, cache figures, refusals. Bytes and tokens as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gearshift.artifacts.facts import ModelFacts

LineKind = Literal["exact", "modelled", "measured"]
OTHERS = "other processes"  # the one line that is not the planned variant's own


@dataclass(frozen=True, slots=True)
class Line:
    """One use of a device's memory. ``error_bytes`` bounds a modelled figure both ways; 0 for the other kinds."""

    name: str
    bytes: int
    kind: LineKind = "exact"
    error_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """All planned uses of one device; ``total_bytes`` is None where the device is not known."""

    device: str
    total_bytes: int | None
    lines: tuple[Line, ...]

    @property
    def planned_bytes(self) -> int:
        return sum(line.bytes for line in self.lines)

    @property
    def own_bytes(self) -> int:
        """What the planned variant itself will hold."""
        return sum(line.bytes for line in self.lines if line.name != OTHERS)

    @property
    def error_bytes(self) -> int:
        return sum(line.error_bytes for line in self.lines)

    @property
    def fits(self) -> bool | None:
        """True or False only where the errors cannot change the answer."""
        if self.total_bytes is None:
            return None
        spare = self.total_bytes - self.planned_bytes
        if spare >= self.error_bytes:
            return True
        return False if spare < -self.error_bytes else None


@dataclass(frozen=True, slots=True)
class PagedKv:
    """vLLM's block pool of one GPU. ``blocks``, ``tokens``, ``concurrency`` are None where the pool is not known.

    ``max_context`` and ``min_bytes`` are what that engine version computes; ``recommended_bytes`` holds one block
    more than a full-length request needs, which every version keeps back at run time.
    """

    block_size: int
    bytes_per_block: int
    blocks_per_request: int
    min_bytes: int
    recommended_bytes: int
    exact: bool
    blocks: int | None = None
    tokens: int | None = None
    concurrency: float | None = None
    max_context: int | None = None


@dataclass(frozen=True, slots=True)
class SlotKv:
    """llama.cpp's caches over all devices. ``bytes_per_token`` is what one more token of context costs the target."""

    cells: int  # per stream
    streams: int
    slot_context: int  # tokens one slot can hold
    bytes: int
    bytes_per_token: int
    draft_bytes: int | None  # None where a separate draft model's files are not here
    state_bytes: int
    state_rows: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. ``fits`` is None where something is unknown or the modelled part's error covers the answer.

    ``kv_bytes`` is the pool per device that the launch should pin (vLLM), or what the caches take (llama.cpp).
    """

    fits: bool | None
    refusals: tuple[str, ...] = ()  # why the engine would not start, with its own figures
    kv: PagedKv | SlotKv | None = None
    ledger: tuple[DeviceLedger, ...] = ()
    host: tuple[Line, ...] = ()  # host memory beside the devices, and what grows there as it serves
    kv_bytes: int | None = None
    context: int | None = None
    notes: tuple[str, ...] = ()
    complete: bool = True  # False: a part of unknown size is missing from the ledger

    @property
    def bytes_by_device(self) -> Mapping[str, int] | None:
        """This variant's bytes by device id, or None where a part is unknown: then it shares with nobody."""
        if not self.complete or not self.ledger:
            return None
        return {ledger.device: ledger.own_bytes for ledger in self.ledger}


def verdict(ledgers: Iterable[DeviceLedger], refusals: Iterable[str], *, complete: bool) -> bool | None:
    """One answer from all devices: a refusal or an overfull device decides, an unknown one leaves it open."""
    answers = [ledger.fits for ledger in ledgers]
    if any(refusals) or False in answers:
        return False
    return True if complete and answers and all(answers) else None


def missing_files_note(facts: ModelFacts) -> str:
    """Why a plan leaves the weights out although some of their files are here."""
    names = ", ".join(facts.missing_files[:3])
    more = f" and {len(facts.missing_files) - 3} more" if len(facts.missing_files) > 3 else ""  # noqa: PLR2004 - as many
    return f"files of the weights are not here ({names}{more}): the model is broken without them"


def with_others(plan: Plan, others: Mapping[str, int]) -> Plan:
    """The plan beside what other processes hold of each device, judged anew."""
    ledgers = tuple(
        replace(ledger, lines=(*ledger.lines, Line(OTHERS, others[ledger.device], "measured")))
        if others.get(ledger.device)
        else ledger
        for ledger in plan.ledger
    )
    return replace(plan, ledger=ledgers, fits=verdict(ledgers, plan.refusals, complete=plan.complete))


def calibrated(ledger: DeviceLedger, measured: Mapping[str, int]) -> DeviceLedger:
    """The ledger with measured bytes in place of modelled ones; lines it did not foresee are appended."""
    known = {line.name for line in ledger.lines}
    kept = tuple(
        Line(line.name, measured[line.name], "measured") if line.name in measured and line.kind != "exact" else line
        for line in ledger.lines
    )
    new = tuple(Line(name, size, "measured") for name, size in measured.items() if name not in known)
    return replace(ledger, lines=kept + new)
