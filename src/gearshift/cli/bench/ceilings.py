"""What the memory's bandwidth allows at each cell of a variant, as findings beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gearshift.advice.plan import SpeedQuestion, loadable, speed_of
from gearshift.artifacts.facts import ModelFacts
from gearshift.artifacts.model import read_model
from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.runner import Conclude
from gearshift.cli.session import Session
from gearshift.config import load_config
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import Variant
from gearshift.hardware import open_memory
from gearshift.planner.gpus import Gpu, card_of
from gearshift.planner.planning import settled
from gearshift.planner.request import PlanRequest
from gearshift.planner.variant_request import planned_devices, request_for


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The bounds of one variant on one kind of card."""

    request: PlanRequest
    facts: ModelFacts
    card: Gpu

    def told(self, conclude: Conclude) -> Conclude:
        """The conclusion with a ceiling for each cell that has one."""

        def concluded(cells: Sequence[CellResult]) -> Outcome:
            found = conclude(cells)
            rows = [row for cell in cells if (row := self.row(cell))]
            return replace(found, findings={**(found.findings or {}), **({"ceiling": rows} if rows else {})})

        return concluded

    def row(self, cell: CellResult) -> dict[str, object] | None:
        """One stream's bound, half-way through the answer; None where drafts were made and nothing says how many took.

        A drafter without counters by position, such as n-grams, has no bound: its drafts cost no memory traffic.
        """
        rates = cell.acceptance.per_position if cell.acceptance else None
        if len(rates or ()) != self.request.drafted:
            return None
        plan = cell.plan
        question = SpeedQuestion(self.card, plan.depth + plan.output // 2, plan.concurrency, rates)
        speed = speed_of(self.request, self.facts, question)
        if speed is None:
            return None
        point = {"setting": plan.setting, "concurrency": plan.concurrency, "depth": plan.depth}
        bound = {"tok_s": speed.bound.tok_s / plan.concurrency, "dominant": speed.bound.dominant}
        return {**point, **bound, "card": self.card.name, "bandwidth_from": self.card.source}


def teller(
    session: Session, row: Mapping[str, Any], config: str | None, card: Gpu | None
) -> Callable[[Conclude], Conclude]:
    """Adds ceilings to conclusions about the variant in ``row``; where none can be known, adds nothing."""
    try:
        found = _ceilings(session, row, config, card)
    except (GearshiftError, ValueError, OSError):  # measuring must not fail for want of a bound
        found = None
    return found.told if found else lambda conclude: conclude


def _ceilings(session: Session, row: Mapping[str, Any], config: str | None, card: Gpu | None) -> Ceilings | None:
    variant = _variant(session, row["variant"], config)
    devices = open_memory(session.env).devices()
    card = card or _card(devices)
    if variant is None or variant.weights is None or card is None or variant.engine.kind == "command":
        return None
    facts = loadable(variant.engine.kind, read_model(Path(variant.weights)))
    request = request_for(variant, planned_devices(variant, devices), engine_version=row["engine_version"])
    return Ceilings(settled(request, facts, automatic_pool=variant.kv_bytes == "auto"), facts, card)


def _variant(session: Session, name: str, config: str | None) -> Variant | None:
    if config is None or not Path(config).is_file():
        return None
    return load_config(Path(config), session.env).settings.variants().get(name)


def _card(devices: Sequence[Device]) -> Gpu | None:
    cards = [device for device in devices if device.id != CPU_DEVICE]
    return card_of(cards[0]) if cards else None
