"""What the memory's bandwidth allows at each cell of a variant, as findings beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gearshift.advice.bandwidths import Bandwidths, host_device, measured_now
from gearshift.advice.plan import SpeedQuestion, loadable, speed_of
from gearshift.artifacts import ModelFacts, read_model
from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.runner import Conclude
from gearshift.cli.box import known_card
from gearshift.cli.session import Session
from gearshift.config import load_config
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import Variant
from gearshift.hardware import open_memory
from gearshift.planner import Gpu, PlanRequest, planned_devices, request_for, settled


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
        bound: dict[str, Any] = {"tok_s": speed.bound.tok_s / plan.concurrency, "dominant": speed.bound.dominant}
        share = cell.decode_tok_s.median / bound["tok_s"] if cell.valid and cell.decode_tok_s else None
        return {**point, **bound, "share": share, "card": self.card.name, "bandwidth_from": self.card.source}


def teller(
    session: Session, row: Mapping[str, Any], config: str | None, card: Gpu | None, *, may_measure: bool = False
) -> Callable[[Conclude], Conclude]:
    """Adds ceilings to conclusions about the variant in ``row``; where none can be known, adds nothing.

    ``may_measure``: the box is ours and at rest, so that the host's bandwidth, where it decides and was never measured,
    is measured now. A card's is not: the variant is on it. Blocking.
    """
    try:
        found = _ceilings(session, row, config, card, may_measure=may_measure)
    except (GearshiftError, ValueError, OSError):  # measuring must not fail for want of a bound
        found = None
    return found.told if found else lambda conclude: conclude


def _ceilings(
    session: Session, row: Mapping[str, Any], config: str | None, card: Gpu | None, *, may_measure: bool
) -> Ceilings | None:
    variant = _variant(session, row["variant"], config)
    devices = open_memory(session.env).devices()
    if variant is None or variant.weights is None or variant.engine.kind == "command":
        return None
    facts = loadable(variant.engine.kind, read_model(Path(variant.weights)))
    places = planned_devices(variant, devices)
    request = request_for(variant, places, engine_version=row["engine_version"])
    card = card or known_card(session, places) or (_measured(session, request) if may_measure else None)
    if card is None:
        return None
    return Ceilings(settled(request, facts, automatic_pool=variant.kv_bytes == "auto"), facts, card)


def _measured(session: Session, request: PlanRequest) -> Gpu | None:
    """The host's memory, measured and kept; None where the variant is on cards, or the box was not at rest."""
    if request.device_kind != "cpu":
        return None
    try:
        seen = measured_now(host_device(), session.env)
    except GearshiftError as error:
        session.output.say(f"no ceiling: {error.message}{f' ({error.hint})' if error.hint else ''}")
        return None
    kept = Bandwidths(session.paths.bandwidths)
    kept.keep(host_device(), seen)
    session.output.say(f"this box's memory does {seen.bytes_s / 1e9:.1f} GB/s, {seen.source}: kept for ceilings")
    return kept.card(host_device())


def _variant(session: Session, name: str, config: str | None) -> Variant | None:
    if config is None or not Path(config).is_file():
        return None
    return load_config(Path(config), session.env).settings.variants().get(name)
