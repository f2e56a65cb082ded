"""The llama.cpp plan against a real llama-server and llama-fit-params: on models the test writes, and on SmolLM2."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifacts import tiny_gguf
from artifacts.tiny_gguf import TinyModel
from gearshift.artifacts.facts import ModelFacts
from gearshift.artifacts.model import read_model
from gearshift.domain.device import Device
from gearshift.domain.paths import resolve_paths
from gearshift.domain.variant import EngineRef, Speculation, Variant
from gearshift.engines import log_fold
from gearshift.planner.ledger import Line, Plan, SlotKv
from gearshift.planner.planning import plan, plan_variant
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.toolchain import demo_gguf
from planner.llama_programs import buffers, fit_figures, start_up_log
from planner.models import GIB, MIB

pytestmark = pytest.mark.real

CONTEXT = 2048
REAL = resolve_paths({name: value for name, value in os.environ.items() if name != "GEARSHIFT_HOME"})
MODELS: dict[str, Callable[[], TinyModel]] = {
    "dense": tiny_gguf.dense,
    "mixture": tiny_gguf.mixture,
    "sliding": tiny_gguf.sliding,
    "hybrid": tiny_gguf.hybrid,
}


def request(
    *, parallel: int, unified: bool = False, kv: str | None = None, ubatch: int = 512, mtp: int = 0
) -> PlanRequest:
    return PlanRequest(
        engine="llama.cpp",
        devices=(PlannedDevice("cpu", None),),
        device_kind="cpu",
        context=CONTEXT,
        parallel=parallel,
        unified_kv=unified,
        kv_dtype=kv,
        ubatch=ubatch,
        speculation=Speculation("mtp", mtp) if mtp else None,
    )


def flags(wanted: PlanRequest) -> list[str]:
    chosen = ["-c", str(wanted.context), "-np", str(wanted.parallel), "-ub", str(wanted.ubatch)]
    chosen += ["-kvu"] if wanted.unified_kv else []
    chosen += ["-ctk", wanted.kv_dtype, "-ctv", wanted.kv_dtype] if wanted.kv_dtype else []
    if wanted.built_in_draft:
        chosen += ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(wanted.drafted)]
    return chosen


def line(planned: Plan, name: str) -> Line:
    return next((line for line in planned.ledger[0].lines if line.name == name), Line(name, 0))


def slots(planned: Plan) -> SlotKv:
    assert isinstance(planned.kv, SlotKv)
    return planned.kv


@pytest.fixture(params=[*MODELS, "SmolLM2-135M"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model in a folder of its own, beside which a log can be written."""
    file = tmp_path / f"{request.param}.gguf"
    if request.param in MODELS:
        return MODELS[request.param]().write(file)
    file.symlink_to(demo_gguf(REAL, lambda _: None))
    return file


@pytest.mark.parametrize(
    "wanted",
    [
        request(parallel=1),
        request(parallel=4, unified=True, kv="q8_0"),
        request(parallel=2, ubatch=256),
        request(parallel=3, kv="q4_0"),
    ],
)
def test_caches_are_exact_and_compute_is_within_its_error(model: Path, wanted: PlanRequest) -> None:
    facts: ModelFacts = read_model(model)
    planned, log = plan(wanted, facts), start_up_log(model, *flags(wanted))
    assert sum(buffers(log, "KV")) == pytest.approx(slots(planned).bytes / MIB, abs=0.011)
    assert sum(buffers(log, "RS")) == pytest.approx(slots(planned).state_bytes / MIB, abs=0.006)
    compute = line(planned, "compute")
    assert abs(buffers(log, "compute")[-1] - compute.bytes / MIB) <= compute.error_bytes / MIB
    assert buffers(log, "model")[-1] == pytest.approx(line(planned, "weights").bytes / MIB, abs=0.2)


@pytest.mark.parametrize("drafted", [1, 3])
@pytest.mark.parametrize("parallel", [1, 4])
def test_a_draft_head_adds_rollback_rows_and_a_context_of_its_own(tmp_path: Path, drafted: int, parallel: int) -> None:
    model = tiny_gguf.hybrid().write(tmp_path / "hybrid.gguf")
    wanted = request(parallel=parallel, unified=parallel > 1, kv="q8_0", mtp=drafted)
    planned, log = plan(wanted, read_model(model)), start_up_log(model, *flags(wanted))
    target, draft = buffers(log, "KV")
    assert target == pytest.approx(slots(planned).bytes / MIB, abs=0.006)
    assert draft == pytest.approx((slots(planned).draft_bytes or 0) / MIB, abs=0.006)
    assert buffers(log, "RS")[0] == pytest.approx(slots(planned).state_bytes / MIB, abs=0.006)
    computed = line(planned, "draft compute")
    assert abs(buffers(log, "compute")[-1] - computed.bytes / MIB) <= computed.error_bytes / MIB


def test_a_separate_draft_model_has_a_context_of_its_own(tmp_path: Path) -> None:
    model = tiny_gguf.dense().write(tmp_path / "target.gguf")
    draft = tiny_gguf.dense().write(tmp_path / "draft.gguf")
    wanted = replace(request(parallel=1), speculation=Speculation("draft", 2, str(draft)), draft=read_model(draft))
    log = start_up_log(model, *flags(request(parallel=1)), "--spec-type", "draft-simple", "-md", str(draft))
    planned = plan(wanted, read_model(model))
    _, cache = buffers(log, "KV")
    assert cache == pytest.approx(line(planned, "draft kv cache").bytes / MIB, abs=0.006)
    assert buffers(log, "model")[-1] == pytest.approx(line(planned, "draft weights").bytes / MIB, abs=0.2)
    computed = line(planned, "draft compute")
    assert abs(buffers(log, "compute")[-1] - computed.bytes / MIB) <= computed.error_bytes / MIB


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"rope-scaling": "yarn", "rope-scale": "2"},
        {"rope-scaling": "yarn", "rope-freq-scale": "0.125", "yarn-orig-ctx": "1024"},
        {"rope-scaling": "linear", "rope-scale": "2"},
        {"override-kv": "llama.context_length=int:8192"},
    ],
)
@pytest.mark.parametrize("own", [{}, {"type": "yarn", "factor": 2.0, "original_context_length": 2048}])
def test_a_slot_ends_where_the_plan_says(tmp_path: Path, args: dict[str, str], own: dict[str, Any]) -> None:
    tiny = tiny_gguf.dense()
    model = replace(tiny, keys={**tiny.keys, **{f"rope.scaling.{key}": value for key, value in own.items()}})
    file = model.write(tmp_path / "scaled.gguf")
    wanted = Variant("m", "a", EngineRef("llama.cpp"), str(file), context=16_384, args=dict(args), parallel=1)
    planned = plan_variant(wanted, read_model(file), (Device("cpu", None, "", GIB),), engine_version=None)
    words = (word for name, value in args.items() for word in (f"--{name}", value))
    log = start_up_log(file, "-c", "16384", "-np", "1", *words)
    assert f"n_ctx_slot = {slots(planned).slot_context}," in log


@pytest.mark.parametrize(("more", "drafts"), [(128, True), (129, False)])
def test_a_drafter_of_a_foreign_vocabulary_is_left_idle_and_planned_so(
    tmp_path: Path, more: int, *, drafts: bool
) -> None:
    model = tiny_gguf.dense().write(tmp_path / "target.gguf")
    draft = tiny_gguf.wider(tiny_gguf.dense(), more).write(tmp_path / "draft.gguf")
    wanted = replace(request(parallel=1), speculation=Speculation("draft", 2, str(draft)), draft=read_model(draft))
    planned = plan(wanted, read_model(model))
    log = start_up_log(model, *flags(request(parallel=1)), "--spec-type", "draft-simple", "-md", str(draft))
    state = log_fold("llama.cpp")
    for line in log.splitlines():
        state = state.feed(line)
    idle = [notice for notice in state.report.notices if "failed to initialize speculative decoding" in notice]
    assert (state.report.ready, state.report.failure) == (True, None)
    assert bool(idle) is not drafts
    assert any("draft nothing" in note for note in planned.notes) is not drafts


def test_the_engines_own_estimate_agrees(model: Path) -> None:
    """The tool reserves logits for a whole micro batch, in scratch that layers use too; a server takes a row a slot."""
    wanted, facts = request(parallel=1), read_model(model)
    planned = plan(wanted, facts)
    weights, context, compute = fit_figures(model, *flags(wanted))  # whole MiB
    assert abs(weights - line(planned, "weights").bytes / MIB) <= 1
    assert abs(context - (slots(planned).bytes + slots(planned).state_bytes) / MIB) <= 1
    modelled, logits = line(planned, "compute").bytes / MIB, wanted.ubatch * (facts.vocab or 0) * 4 / MIB
    assert max(modelled, logits) - 1 <= compute <= modelled + logits + 1
