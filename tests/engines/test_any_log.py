"""What holds of every fold on any input."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.variant import EngineKind
from gearshift.engines import log_fold

KINDS: tuple[EngineKind, ...] = get_args(EngineKind)
FRAGMENTS = st.sampled_from(
    [
        "load_tensors:",
        "llama_kv_cache: CUDA0 KV buffer size = 1.00 MiB",
        "llama_context: constructing llama_context",
        "sched_reserve: CPU compute buffer size = 9999999999999999999999.99 MiB",
        "E ",
        "0.00.001.002 E ",
        "(EngineCore pid=1) ERROR 11-29 23:08:33 [core.py:1] ",
        "(Worker_TP12 pid=1) ",
        "ValueError: ",
        "Model loading took ",
        "GPU KV cache size: , tokens",
        "Available KV cache memory: -1.5 GiB",
        "Value error, ",
        "Loading safetensors checkpoint shards: 101% Completed",
        "init engine took . s",
        "\x1b[31m",
        "\r",
        "[1] ",
        "data: ",
        "2026-05-14 22:14:13.264 | ",
        "srv  llama_server: model loaded",
        "1.2.3 GiB",
        "\N{ARABIC-INDIC DIGIT THREE}",
    ]
)
LINES = st.lists(st.lists(st.one_of(FRAGMENTS, st.text(max_size=20)), max_size=6).map("".join), max_size=15)


@pytest.mark.parametrize("kind", KINDS)
@given(lines=LINES)
def test_no_input_makes_a_fold_raise_or_forget_its_failure(kind: EngineKind, lines: list[str]) -> None:
    state = log_fold(kind)
    for line in lines:
        before = state.report
        state = state.feed(line)
        assert not (before.ready and state.report.stage == "starting the engine")
        assert all(buffer.kind for buffer in state.report.figures.buffers)


@pytest.mark.parametrize("kind", KINDS)
@given(lines=LINES)
def test_a_state_never_changes_once_it_was_made(kind: EngineKind, lines: list[str]) -> None:
    state = log_fold(kind)
    states = [state]
    for line in lines:
        state = state.feed(line)
        states.append(state)
    again = log_fold(kind)
    for line, kept in zip(lines, states[1:], strict=True):
        again = again.feed(line)
        assert again.report == kept.report


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_that_says_nothing_costs_no_new_state(kind: EngineKind) -> None:
    state = log_fold(kind).feed("something first")
    assert state.feed("0.08.025.909 I srv          init: idle slots will be saved to prompt cache") is state
    assert state.feed("(APIServer pid=1) INFO 11-29 23:51:10 [launcher.py:46] Route: /docs, Methods: GET") is state
