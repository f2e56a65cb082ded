"""What most likely lies behind trials that differ: as much as the data itself knows of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.bench.trial import Trial
from gearshift.domain.units import format_bytes
from gearshift.stats import median

_ALIEN_BYTES = 256 * 2**20  # an engine's own use moves by less once it is warm


def of_outlier(trials: Sequence[Trial], index: int, *, foreign_cores: float) -> str:
    """Of one trial against the others: what was different in it."""
    others = [trial for place, trial in enumerate(trials) if place != index]
    return "; ".join(_unlike(trials[index], others, foreign_cores)) or _start(trials, index) or "nothing else shows why"


def of_drift(trials: Sequence[Trial], *, foreign_cores: float) -> str:
    """Of a move from the first trial to the last."""
    if any(gpu.throttle for trial in trials for gpu in trial.gpus):
        return "the GPU was slowed down"
    foreign = [trial.watch.foreign_cpu for trial in trials if trial.watch.foreign_cpu is not None]
    if len(foreign) == len(trials) and max(foreign) - min(foreign) > foreign_cores:
        return "other programs' use of the cores changed"
    held = [_held(trial) for trial in trials]
    if max(held) - min(held) > _ALIEN_BYTES:
        return f"{format_bytes(max(held) - min(held))} came onto the GPU or left it"
    return "heat, clocks or a growing cache"


def _unlike(trial: Trial, others: Sequence[Trial], foreign_cores: float) -> Iterator[str]:
    slowed = {reason for gpu in trial.gpus for reason in gpu.throttle}
    usual = {reason for other in others for gpu in other.gpus for reason in gpu.throttle}
    if new := slowed - usual:
        yield f"the GPU was slowed down in it ({', '.join(sorted(new))})"
    busy = trial.watch.foreign_cpu or 0.0
    if busy - median([other.watch.foreign_cpu or 0.0 for other in others]) > foreign_cores:
        yield f"other programs used {busy:.2f} cores during it"
    if (more := _held(trial) - max(_held(other) for other in others)) > _ALIEN_BYTES:
        yield f"{format_bytes(more)} more were on the GPU: somebody else's"


def _start(trials: Sequence[Trial], index: int) -> str | None:
    """A first run after a start is often slow: caches are cold and kernels are chosen."""
    if index and trials[index].boot == trials[index - 1].boot:
        return None
    return "it is the first after a start" if index else "it is the first"


def _held(trial: Trial) -> int:
    return sum(gpu.used_bytes or 0 for gpu in trial.gpus)
