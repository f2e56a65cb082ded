"""Events come out the same however the bytes were cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.sse import EventSplitter

PAYLOADS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1), max_size=8)


@given(PAYLOADS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=12))
def test_any_cut_gives_the_same_events(payloads: list[str], newline: str, cuts: list[int]) -> None:
    stream = "".join(f"event: x{newline}data: {text}{newline}{newline}: beat{newline}{newline}" for text in payloads)
    data = stream.encode()
    splitter = EventSplitter()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    pieces = [data[start:end] for start, end in pairwise(edges)]
    found = [event for piece in pieces for event in splitter.feed(piece)]

    assert found == [text.encode() for text in payloads]


def test_several_data_lines_are_one_event() -> None:
    assert EventSplitter().feed(b"data: a\ndata:b\n\n") == [b"a\nb"]


def test_an_event_is_not_given_before_its_blank_line() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: [DONE]\n") == []
    assert splitter.feed(b"\n") == [b"[DONE]"]


def test_a_lone_cr_gives_its_event_at_once_and_a_late_lf_is_no_line_of_its_own() -> None:
    """A line end is CR as soon as it came; whether an LF follows is not waited for."""
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\r") == [b"a"]
    assert splitter.feed(b"data: b\r") == []
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"data: c\r") == []
    assert splitter.feed(b"\n\r\n") == [b"b\nc"]


def test_a_byte_order_mark_hides_no_event() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"\xef\xbb") == []
    assert splitter.feed(b"\xbfdata: a\n\n") == [b"a"]


def test_the_last_event_may_lack_its_blank_line() -> None:
    for end in (b"", b"\n", b"\r", b"\r\n"):
        splitter = EventSplitter()
        assert splitter.feed(b"data: [DONE]" + end) == []
        assert splitter.end() == [b"[DONE]"]
