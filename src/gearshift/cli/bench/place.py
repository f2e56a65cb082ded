"""A server ready to be measured, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gearshift.bench.rig import Rig
from gearshift.bench.runner import Conclude, NoSwitch, Switch


@dataclass(frozen=True, slots=True)
class Place:
    """A server ready to be measured. ``arms`` are the rigs of single settings, ``switch`` makes one current.

    ``told`` adds to a conclusion what this box knows beyond the measurement.
    """

    rig: Rig
    switch: Switch = field(default_factory=NoSwitch)
    arms: Mapping[str, Rig] = field(default_factory=dict)
    told: Callable[[Conclude], Conclude] = lambda conclude: conclude
