from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.gateway.meter import Figures, StreamMeter
from gearshift.gateway.routes import Shape


def data(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(**fields: object) -> bytes:
    return data({"choices": [{"index": 0, "delta": fields}]})


ROLE = delta(role="assistant", content="")
USAGE = data(
    {
        "choices": [],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
    }
)
DONE = b"data: [DONE]\n\n"


def meter(shape: Shape = "chat", *, withhold: bool = False, timings: bool = False) -> tuple[StreamMeter, Figures]:
    figures, ticks = Figures(), itertools.count(1)
    return StreamMeter(shape, figures, lambda: float(next(ticks)), withhold=withhold, timings=timings), figures


def run(
    chunks: Iterable[bytes], shape: Shape = "chat", *, withhold: bool = False, timings: bool = False
) -> tuple[bytes, Figures]:
    made, figures = meter(shape, withhold=withhold, timings=timings)
    return b"".join([*map(made.feed, chunks), made.rest()]), figures


@given(st.lists(st.integers(min_value=1, max_value=40), max_size=60), st.booleans())
def test_however_a_stream_is_split_only_the_asked_for_usage_chunk_is_missing(sizes: list[int], withhold: bool) -> None:  # noqa: FBT001 - hypothesis passes it by position
    stream = b": hello\n\n" + ROLE + delta(content='usage: "usage"') + delta(content="b\n\n") + USAGE + DONE
    chunks, position = [], 0
    for size in sizes:
        chunks.append(stream[position : position + size])
        position += size
    out, figures = run([*filter(None, chunks), *filter(None, [stream[position:]])], withhold=withhold)
    assert out == (stream.replace(USAGE, b"") if withhold else stream)
    assert (figures.tokens_in, figures.tokens_out, figures.cached) == (7, 3, 2)
    assert figures.first_token is not None


def test_events_go_on_as_they_come_and_whole() -> None:
    made, _ = meter()
    event = delta(content="a")
    assert made.feed(event) is event
    assert made.feed(event[:10]) == b""
    assert made.feed(event[10:] + event[:3]) == event
    assert made.rest() == event[:3]


@pytest.mark.parametrize(
    "token",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
    ],
)
def test_a_token_of_any_kind_is_the_first_token(token: dict[str, object]) -> None:
    made, figures = meter()
    made.feed(ROLE)
    made.feed(delta(role="assistant", content=None))
    assert figures.first_token is None
    made.feed(delta(**token))
    assert figures.first_token == 1.0


def test_the_finish_chunk_is_no_token() -> None:
    made, figures = meter()
    for event in (delta(content="a"), delta(content="b"), delta(), USAGE, DONE):
        made.feed(event)
    assert (figures.first_token, figures.last_token, figures.events) == (1.0, 2.0, 5)


def test_a_withheld_event_is_not_counted_as_forwarded() -> None:
    out, figures = run([delta(content="a"), delta() + USAGE, DONE], withhold=True)
    assert out == delta(content="a") + delta() + DONE
    assert figures.events == 3


def test_usage_beside_choices_is_read_and_never_withheld() -> None:
    last = data({"choices": [{"index": 0, "text": ""}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    out, figures = run([last, DONE], "completions", withhold=True)
    assert out == last + DONE
    assert figures.tokens_out == 2


def test_an_empty_choices_chunk_without_usage_stays() -> None:
    filters = data({"choices": [], "prompt_filter_results": [], "usage": None})
    assert run([filters, USAGE], withhold=True)[0] == filters


def test_llama_cpp_timings_give_the_counts_without_usage() -> None:
    timings = {"cache_n": 30, "prompt_n": 1, "predicted_n": 5, "draft_n": 4, "draft_n_accepted": 3}
    last = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "timings": timings})
    out, figures = run([last, DONE], timings=True)
    assert out == last + DONE
    assert (figures.tokens_in, figures.tokens_out, figures.cached) == (31, 5, 30)
    assert (figures.drafted, figures.accepted) == (4, 3)


def test_anthropic_usage_comes_in_two_events_and_counts_the_cache_in() -> None:
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 0}},
    }
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}
    end = {"type": "message_delta", "usage": {"output_tokens": 9}}
    _, figures = run(map(data, (start, text, end)), "messages")
    assert (figures.tokens_in, figures.cached, figures.tokens_out) == (10, 6, 9)
    assert figures.first_token is not None


def test_responses_usage_lies_inside_the_completed_response() -> None:
    usage = {"input_tokens": 4, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 1}}
    events = (
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.completed", "response": {"usage": usage}},
    )
    _, figures = run(map(data, events), "responses")
    assert (figures.tokens_in, figures.cached, figures.tokens_out) == (4, 1, 9)


def test_crlf_events_are_events() -> None:
    stream = (ROLE + delta(content="a") + USAGE + DONE).replace(b"\n", b"\r\n")
    out, figures = run([stream], withhold=True)
    assert out == (ROLE + delta(content="a") + DONE).replace(b"\n", b"\r\n")
    assert (figures.events, figures.tokens_out) == (3, 3)


def test_an_endless_event_is_let_through_in_bounded_memory() -> None:
    made, _ = meter()
    sent = [made.feed(b"x" * 65536) for _ in range(40)]
    assert sum(map(len, sent)) >= 65536 * 40 - 1024**2 - 65536


def test_usage_of_a_strange_type_is_no_error() -> None:
    out, figures = run([data({"choices": "x", "usage": "y"}), b'data: {"usage"\n\n'], withhold=True)
    assert out == data({"choices": "x", "usage": "y"}) + b'data: {"usage"\n\n'
    assert figures.tokens_out is None
