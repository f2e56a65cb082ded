"""What does the prefix cache save, and does it really work? One shared prefix, cold and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.reservation import reserved
from gearshift.stats.estimate import overlap


def plan(base: CellPlan, *, prefix: int, suffix: int, requests: int) -> ExperimentPlan:
    """Two cells of the same lengths: prefixes all different, and one prefix primed by the warm-up."""
    shape = replace(
        base, experiment="prefix", concurrency=1, depth=prefix + suffix, shared_prefix=prefix, requests=requests
    )
    cold = replace(shape, setting="cold", cache="cold")
    return ExperimentPlan("prefix", (cold, replace(shape, setting="cached", cache="warm")), whole=True)


def conclude(cells: Sequence[CellResult]) -> Outcome:
    """How much sooner the first token comes, and whether the cache was used at all."""
    found = {cell.plan.setting: cell for cell in cells}
    cold, cached = found.get("cold"), found.get("cached")
    if cold is None or cached is None or cold.ttft_s is None or cached.ttft_s is None:
        return Outcome()
    if invalid := next((cell for cell in (cached, cold) if not cell.valid), None):
        why = f"{invalid.plan.setting} is invalid: {invalid.flags[0].detail}"
        return Outcome(advice=(f"no saving to report, since {why}",))
    ratio = cold.ttft_s.median / cached.ttft_s.median
    words = f"first token after {cached.ttft_s.median:.3g} s cached, {cold.ttft_s.median:.3g} s cold"
    text = f"{words}: {_saving(ratio, apart=not overlap(cold.ttft_s, cached.ttft_s))}"
    return Outcome(advice=(reserved(text, (cold, cached)),), findings={"ttft_ratio": ratio})


def _saving(ratio: float, *, apart: bool) -> str:
    if not apart:
        return "no difference that the intervals can tell"
    return f"{ratio:.3g}x sooner" if ratio >= 1 else f"{1 / ratio:.3g}x later, so the cache costs more than it saves"
