"""Showing what a long step is doing, in the way the place it is printed to can bear."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_ADVANCE = re.compile(r" [0-9.]+( ?%)?$")  # "loading weights 40 %" is the phase "loading weights", "qwen:q8" is a name


class Progress(Protocol):
    """Told of each phase, as often as the caller likes; shows it."""

    def __call__(self, phase: str, fraction: float | None = None) -> None:
        """``phase`` in a few words; ``fraction`` 0..1 of it where known."""
        ...


class SilentProgress:
    """Shows nothing."""

    def __call__(self, phase: str, fraction: float | None = None) -> None:
        pass


class LineProgress:
    """One line per phase, for logs and pipes: a phase that only advances is not repeated."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last: str | None = None

    def __call__(self, phase: str, fraction: float | None = None) -> None:
        del fraction  # a pipe is told of phases, not of how far they are
        name = _ADVANCE.sub("", phase)
        if name != self._last:
            self._last = name
            self._say(name)


@contextmanager
def live_progress() -> Iterator[Progress]:
    """A spinner, a bar where the fraction is known and the time so far, in one line that goes away at the end."""
    from rich import progress as rich  # noqa: PLC0415 - 45 ms that only a terminal user pays
    from rich.console import Console  # noqa: PLC0415 - likewise

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(20),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)

        def show(phase: str, fraction: float | None = None) -> None:
            total = None if fraction is None else 1.0
            bars.update(task, description=phase, total=total, completed=fraction or 0)

        yield show
