"""What one stream event says, whatever it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.fold import StreamFold
from gearshift.bench.sample import Sample
from gearshift.bench.wire import read_event


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ('{"error": {"message": "out of memory", "code": 500}}', "out of memory"),
        ('{"error": "gone"}', "gone"),
        ('{"type": "error", "message": "bad", "code": "x"}', "bad"),
        ('{"type": "response.failed", "response": {"status": "failed", "error": {"message": "no"}}}', "no"),
        ("[1, 2]", "unreadable event"),
        ("{broken", "unreadable event"),
    ],
)
def test_an_error_is_found_in_every_dialect(payload: str, words: str) -> None:
    error = read_event(payload.encode()).error
    assert error is not None
    assert words in error


@pytest.mark.parametrize(
    "payload",
    [
        '{"choices": [{"delta": {"role": "assistant", "content": ""}}]}',
        '{"choices": [{"delta": {"role": "assistant", "content": null}}]}',
        '{"choices": [{"text": "", "finish_reason": "length"}]}',
        '{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}',
        '{"type": "response.created", "response": {"status": "in_progress"}}',
    ],
)
def test_an_event_without_a_token_is_not_visible(payload: str) -> None:
    event = read_event(payload.encode())
    assert not event.visible
    assert event.error is None


def test_a_refusal_is_an_answer_and_old_function_calls_are_tools() -> None:
    assert read_event(b'{"choices": [{"delta": {"refusal": "no"}}]}').answer == "no"
    assert read_event(b'{"choices": [{"delta": {"function_call": {"arguments": "{"}}}]}').tool


def test_usage_in_an_event_that_has_choices_is_read() -> None:
    event = read_event(b'{"choices": [{"text": "x"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}')
    assert event.usage is not None
    assert (event.answer, event.usage.completion) == ("x", 4)


def test_usage_that_is_not_whole_is_no_usage() -> None:
    assert read_event(b'{"usage": {"prompt_tokens": 3}}').usage is None


@given(st.binary(max_size=80))
def test_any_bytes_are_an_event(payload: bytes) -> None:
    read_event(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "usage", "error", "type", "response"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["choices", "usage", "error", "type", "delta", "response"]), JSON))
def test_any_json_object_is_an_event(content: dict[str, object]) -> None:
    event = read_event(json.dumps(content).encode())
    assert event.visible in {True, False}


def finished(fold: StreamFold) -> Sample:
    return fold.sample(started_s=0.0, ended_s=1.0, status=200, headers_s=0.1, planned_s=None)


def test_a_stream_without_its_end_mark_is_not_whole() -> None:
    fold = StreamFold()
    fold.feed(0.1, b'data: {"choices": [{"text": "x"}]}\n\n')
    assert finished(fold).error == "the stream ended without its end mark"
    fold.feed(0.2, b"data: [DONE]\n\n")
    assert finished(fold).error == "the stream ended without its end mark"  # the first error stays


@pytest.mark.parametrize(
    "last",
    [
        b"data: [DONE]\n",  # no blank line behind the last event
        b"data: [DONE]",
        b'data: {"choices": [{"finish_reason": "stop"}]}\n\n',  # no [DONE]
        b'data: {"choices": [{"finish_reason": "stop"}]}',
    ],
)
def test_a_clean_end_in_other_words_is_whole(last: bytes) -> None:
    fold = StreamFold()
    fold.feed(0.1, b'data: {"choices": [{"text": "x"}]}\n\n')
    fold.feed(0.2, last)
    fold.end()
    assert finished(fold).error is None


def test_a_clean_end_without_any_word_of_it_is_not_whole() -> None:
    fold = StreamFold()
    fold.feed(0.1, b'data: {"choices": [{"text": "x"}]}\n\n')
    fold.end()
    assert finished(fold).error == "the stream ended without its end mark"


def test_an_error_event_in_the_stream_outlives_a_clean_end() -> None:
    fold = StreamFold()
    fold.feed(0.1, b'data: {"error": {"message": "engine died"}}\n\ndata: [DONE]\n\n')
    assert finished(fold).error == "engine died"
