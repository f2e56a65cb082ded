"""What the options of `gearshift plan` ask: changes of a request, and the speed question."""

from __future__ import annotations

from typing import Any

import click

from gearshift.advice.measured import Measured
from gearshift.advice.plan import SpeedQuestion
from gearshift.advice.plan_flags import foreign_flag
from gearshift.cli.plan_options import AUTO, PlanOptions
from gearshift.domain.variant import EngineKind
from gearshift.planner import Gpu

OF_THE_REQUEST = (
    "context", "kv_dtype", "kv_bytes", "speculation", "prefix_caching", "max_num_seqs", "max_num_batched_tokens",
    "parallel", "ubatch", "split",
)  # fmt: skip


def changes_of(given: PlanOptions, engine: EngineKind) -> dict[str, Any]:
    """Options that change the request. Raises UsageError for one of the other engine."""
    if foreign := foreign_flag(engine, given.by_flag()):
        msg = f"{engine} has no --{foreign.replace('_', '-')}"
        raise click.UsageError(msg)
    changes = {name: getattr(given, name) for name in OF_THE_REQUEST}
    return changes | ({"kv_bytes": None} if given.kv_bytes == AUTO else {})


def question_of(given: PlanOptions, gpu: Gpu | None) -> SpeedQuestion:
    """At which depth, batch and acceptance to ask for the ceiling, and which speed to hold against it."""
    depth, batch, acceptance, tok_s = given.depth, given.batch, given.acceptance, given.measured
    measured = None if tok_s is None else Measured(tok_s, depth, batch, acceptance)
    return SpeedQuestion(gpu, depth, batch, acceptance, measured)
