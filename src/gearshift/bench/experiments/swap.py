"""What does a swap cost? Every ordered pair of variants: drain, stop, memory back, load, first token, sleep, wake."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, fields
from itertools import permutations
from typing import Any, Protocol

from gearshift.bench.bodies import Ask
from gearshift.bench.client import Client, TargetError
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan
from gearshift.bench.records import identity
from gearshift.bench.target import Target
from gearshift.domain.records import SwapRecord
from gearshift.stats.estimate import Estimate, estimate_json, estimate_trials
from gearshift.store import CellRecord

_PROMPT = "Say ready."


class Swapper(Protocol):
    """The Gearshift behind the URL, through its admin interface."""

    async def load(self, variant: str) -> None:
        """Make it resident and return when it is ready."""
        ...

    async def unload(self, variant: str) -> None:
        """Stop it and return when it is stopped; nothing to do when it is not resident."""
        ...

    async def asleep(self, variant: str) -> bool:
        """Whether it sleeps at this moment."""
        ...

    def swap_of(self, variant: str) -> AbstractAsyncContextManager[Callable[[], Awaitable[SwapRecord | None]]]:
        """Follow the server's swaps from entering on.

        What it gives, once asked, is the record of this variant becoming resident since; None where none is kept.
        """
        ...


@dataclass(frozen=True, slots=True)
class SwapTrial:
    """One swap as its first client saw it, and as the server took it apart."""

    first_token_s: float  # from sending the request that caused the swap
    phases: SwapRecord | None


@dataclass(frozen=True, slots=True)
class SwapCell:
    """One ordered pair; ``woken``: the goal slept beforehand, where it was else stopped."""

    origin: str
    goal: str
    trials: tuple[SwapTrial, ...]
    woken: bool = False

    @property
    def setting(self) -> str:
        return f"{self.origin} > {self.goal}{', woken' if self.woken else ''}"

    @property
    def first_token_s(self) -> Estimate | None:
        return estimate_trials([trial.first_token_s for trial in self.trials])

    def phase(self, name: str) -> Estimate | None:
        """A phase of `SwapRecord`, such as ``load_s``; None where no trial had it."""
        had = [getattr(trial.phases, name) for trial in self.trials if trial.phases is not None]
        return estimate_trials([seconds for seconds in had if seconds is not None])

    @property
    def flags(self) -> tuple[str, ...]:
        """``nothing_stopped``: both fit beside each other, so this is a load and no swap.

        ``woke_cold``: it slept but had to be started anew.
        """
        found = ["single_run"] if len(self.trials) == 1 else []
        known = [trial.phases for trial in self.trials if trial.phases is not None]
        if any(self.origin not in phases.stopped for phases in known):
            found.append("nothing_stopped")
        if self.woken and any(phases.cold for phases in known):
            found.append("woke_cold")
        return tuple(found)

    def to_json(self) -> dict[str, object]:
        """The keys of every cell, null where a swap has nothing of the kind, and the phases."""
        figures = {name: estimate_json(self.phase(name)) for name in PHASES}
        return {
            **_NOT_MEASURED,
            "concurrency": 1,
            "ttft_s": estimate_json(self.first_token_s),
            "setting": self.setting,
            "from": self.origin,
            "to": self.goal,
            "woken": self.woken,
            "trials": len(self.trials),
            "first_token_s": estimate_json(self.first_token_s),
            **figures,
            "freed_bytes": estimate_json(self.phase("freed_bytes")),
            "cold": [trial.phases.cold for trial in self.trials if trial.phases is not None],  # False: woken from sleep
            "valid": bool(self.trials),
            "flags": list(self.flags),
        }


_NOT_MEASURED: Mapping[str, object] = {
    **dict.fromkeys(("depth", "tpot_s", "decode_tok_s", "prefill_tok_s", "output_tok_s", "acceptance")),
    **dict.fromkeys(("tokens_per_step", "cache_hit_share", "kv_use", "needle")),
    "tokens": {"usage": None, "client": None, "server": None},
    "client": {"loop_lag_s": None, "cpu": None},
}
PHASES = ("drain_s", "sleep_s", "stop_s", "memory_s", "load_s", "wake_s", "probe_s", "overhead_s", "total_s")


def pairs(variants: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Every ordered pair, so that each swap starts where the one before ended as often as can be.

    Raises:
        ValueError: fewer than two variants.
    """
    if len(variants) < 2:  # noqa: PLR2004 - a swap has two sides
        msg = "a swap needs two variants"
        raise ValueError(msg)
    left = list(permutations(variants, 2))
    ordered = [left.pop(0)]
    while left:
        follows = next((pair for pair in left if pair[0] == ordered[-1][1]), left[0])
        left.remove(follows)
        ordered.append(follows)
    return tuple(ordered)


def key(origin: Target, goal: Target, *, trials: int, way: Mapping[str, object], woken: bool = False) -> str:
    """A pair's content address: both variants as what they are, and the ``way`` that its requests took."""
    setting = SwapCell(origin.model, goal.model, (), woken=woken).setting
    plan = CellPlan("swap", output=1, requests=1, trials=trials, setting=setting, exact=False)
    return plan.key({"from": identity(origin), "to": identity(goal), **way})


def fits(budget_s: float | None, spent_s: float, took_s: Sequence[float]) -> bool:
    """Whether one more pair, as long as the longest measured so far, ends in time; the first always may.

    Nothing else tells what a swap costs before one was measured.
    """
    return budget_s is None or not took_s or spent_s + max(took_s) <= budget_s


def to_record(cell: SwapCell, address: str) -> CellRecord:
    """The cell as the store keeps it under its `key`; its raw times and phases are in the figures."""
    raw = {
        "first_token_times_s": [trial.first_token_s for trial in cell.trials],
        "swap_records": [asdict(trial.phases) if trial.phases else None for trial in cell.trials],
    }
    return CellRecord(
        key=address,
        setting=cell.setting,
        concurrency=None,
        depth=None,
        valid=bool(cell.trials),
        plan={"from": cell.origin, "to": cell.goal, "woken": cell.woken},
        figures=cell.to_json() | raw,
    )


def from_record(record: CellRecord) -> SwapCell:
    """The cell again, from its raw times and phases."""
    raw = zip(record.figures["first_token_times_s"], record.figures["swap_records"], strict=True)
    trials = tuple(SwapTrial(first_token_s, _phases(kept)) for first_token_s, kept in raw)
    return SwapCell(record.plan["from"], record.plan["to"], trials, woken=record.plan.get("woken", False))


async def measure(
    client: Client, swapper: Swapper, origin: str, goal: str, *, trials: int, sleeper: bool = True
) -> tuple[SwapCell, ...]:
    """Load ``origin``, then ask a stopped ``goal`` for one token, so many times; likewise a sleeping one, if it sleeps.

    Whether it falls asleep for ``origin`` shows in the second trial; after a single one it takes another load of
    ``origin``, which is left out where the goal is known to be no ``sleeper``.

    Raises:
        TargetError: a request that should have caused a swap failed.
    """
    cold: list[SwapTrial] = []
    woken: list[SwapTrial] = []
    while len(cold) < trials:
        await swapper.load(origin)
        if cold and await swapper.asleep(goal):
            woken.append(await _trial(client, swapper, origin, goal))
            await swapper.load(origin)
        await swapper.unload(goal)  # asleep, or where both fit still there from the trial before
        cold.append(await _trial(client, swapper, origin, goal))
    if woken or (trials == 1 and sleeper):
        await swapper.load(origin)
        if await swapper.asleep(goal):
            woken.append(await _trial(client, swapper, origin, goal))
    cells = [SwapCell(origin, goal, tuple(cold))]
    return (*cells, SwapCell(origin, goal, tuple(woken), woken=True)) if woken else tuple(cells)


async def _trial(client: Client, swapper: Swapper, origin: str, goal: str) -> SwapTrial:
    async with swapper.swap_of(goal) as record:
        sample = await client.send(Ask(goal, 1, exact=False).call(_PROMPT), epoch=time.perf_counter())
        if not sample.ok or sample.ttft_s is None:
            msg = f"swapping from {origin} to {goal} failed: {sample.error or 'no token came'}"
            raise TargetError(msg, hint="look at the variant's log")
        return SwapTrial(sample.ttft_s, await record())


def sleeps(cells: Sequence[SwapCell]) -> dict[str, dict[str, object] | None]:
    """By variant: how long it takes to fall asleep and to wake, and the bytes it frees; None = not measured."""
    variants = sorted({name for cell in cells for name in (cell.origin, cell.goal)})
    return {variant: _sleep_of(variant, cells) for variant in variants}


def _sleep_of(variant: str, cells: Sequence[SwapCell]) -> dict[str, object] | None:
    left = [found for cell in cells for trial in cell.trials if (found := trial.phases) and found.slept == (variant,)]
    came = [found for cell in cells for trial in cell.trials if (found := trial.phases) and found.variant == variant]
    figures: dict[str, list[float | None]] = {
        "sleep_s": [found.sleep_s for found in left],
        "wake_s": [found.wake_s for found in came],
        "freed_bytes": [found.freed_bytes for found in left],
    }
    known = {name: [value for value in values if value is not None] for name, values in figures.items()}
    if not any(known.values()):
        return None
    return {name: estimate_json(estimate_trials(values)) for name, values in known.items()}


def conclude(cells: Sequence[SwapCell]) -> Outcome:
    """The dearest swap and what it spends its time on; what sleeping saves, or that nothing slept."""
    found = sleeps(cells)
    stopped = {name for cell in cells for trial in cell.trials if trial.phases for name in trial.phases.stopped}
    advice = (*_slowest([cell for cell in cells if not cell.woken]), *_saved(cells), *_sleepless(found, stopped))
    return Outcome(advice=advice, findings={"sleep": found})


def _saved(cells: Sequence[SwapCell]) -> Iterator[str]:
    cold = {(cell.origin, cell.goal): cell.first_token_s for cell in cells if not cell.woken}
    for cell in cells:
        stopped, woken = cold.get((cell.origin, cell.goal)), cell.first_token_s
        if cell.woken and stopped is not None and woken is not None:
            words = f"{woken.median:.3g} s to the first token, {stopped.median:.3g} s where it was stopped"
            yield f"{cell.goal} woken for {cell.origin}: {words}"


def _sleepless(found: Mapping[str, object], stopped: Collection[str]) -> Iterator[str]:
    if names := [variant for variant, measured in found.items() if measured is None and variant in stopped]:
        yield f"sleep and wake not measured: {', '.join(names)} stopped instead (no sleep mode, or no room to sleep)"


def _slowest(cells: Sequence[SwapCell]) -> Iterator[str]:
    timed = [(estimate.median, cell) for cell in cells if (estimate := cell.first_token_s) is not None]
    if not timed:
        return
    slowest_s, cell = max(timed, key=lambda found: found[0])
    phases = {name: found.median for name in PHASES[:-1] if (found := cell.phase(name)) is not None}
    loaded = "nothing_stopped" in cell.flags
    change = f"load is {cell.goal} beside {cell.origin}" if loaded else f"swap is {cell.origin} to {cell.goal}"
    words = f"the slowest {change}: {slowest_s:.3g} s to the first token"
    if phases:
        name, seconds = max(phases.items(), key=lambda item: item[1])
        words += f", {seconds:.3g} s of it {name.removesuffix('_s')}"
    yield words


def _phases(kept: Mapping[str, Any] | None) -> SwapRecord | None:
    return None if kept is None else record_of(kept)


def record_of(told: Mapping[str, Any]) -> SwapRecord:
    """The record in a JSON object; what another version adds is passed over, what it lacks is unknown."""
    known = {field.name: told[field.name] for field in fields(SwapRecord) if field.name in told}
    return SwapRecord(**known | {"stopped": tuple(told["stopped"]), "slept": tuple(told.get("slept", ()))})
