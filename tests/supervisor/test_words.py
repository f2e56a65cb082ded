"""What a person reads when an engine died, and what keeper and handle tell each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.errors import Failure
from gearshift.domain.launch import HttpCall
from gearshift.supervisor.exits import cause_of_death, exit_words
from gearshift.supervisor.health import judge
from gearshift.supervisor.keeper import pack, unpack


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with status 0"),
        (137, "exited with status 137"),
        (-11, "was killed by SIGSEGV"),
        (-9, "was killed by SIGKILL (the kernel, when memory ran out, or a person)"),
        (-250, "was killed by signal 250"),
        (None, "ended in an unknown way"),
    ],
)
def test_exit_codes_are_told_in_words(code: int | None, words: str) -> None:
    assert exit_words(code) == words


def test_a_known_cause_goes_before_everything_else() -> None:
    known = Failure("out of memory", line="cudaMalloc failed")
    assert cause_of_death(known, -9, ["noise"]) is known


def test_without_a_known_cause_the_end_and_the_last_lines_are_told() -> None:
    failure = cause_of_death(None, 1, ["a", "b ", "c", "d"])
    assert failure == Failure("the engine exited with status 1; its last lines: b | c | d", line="d")
    assert cause_of_death(None, 1, []) == Failure("the engine exited with status 1")


def test_the_last_lines_before_a_sigkill_are_not_given_as_its_cause() -> None:
    failure = cause_of_death(None, -9, ["slot 3: new prompt"])
    assert failure.line is None
    assert "new prompt" not in failure.cause
    assert "memory ran out" in (failure.fix or "")


@pytest.mark.parametrize(
    ("status", "body", "expect", "problem"),
    [
        (200, b"{}", None, ""),
        (204, b"", None, ""),
        (200, b'{"choices": [{}]}', "choices", ""),
        (200, b'{"choices": []}', "choices", "/p answered without 'choices'"),
        (200, b"[]", "choices", "/p answered without 'choices'"),
        (200, b"<html>", "choices", "/p answered without 'choices': <html>"),
        (404, b"no such model", "choices", "/p answered 404: no such model"),
    ],
)
def test_a_good_answer_has_what_was_asked_for(status: int, body: bytes, expect: str | None, problem: str) -> None:
    answer = judge(HttpCall("GET", "/p"), status, body, expect)
    assert answer.ok == (problem == "")
    assert answer.problem.startswith(problem)


@pytest.mark.parametrize(("status", "retry"), [(503, True), (502, True), (500, False), (404, False)])
def test_only_not_yet_is_asked_again(status: int, retry: bool) -> None:  # noqa: FBT001 - a table
    assert judge(HttpCall("GET", "/p"), status, b"", None).retry is retry


messages = st.lists(st.dictionaries(st.text(), st.one_of(st.integers(), st.floats(allow_nan=False), st.text())))


@given(messages, st.data())
def test_messages_survive_any_cut_of_their_stream(sent: list[dict[str, object]], data: st.DataObject) -> None:
    stream = b"".join(pack(message) for message in sent)
    cut = data.draw(st.integers(0, len(stream)))
    first, rest = unpack(stream[:cut])
    second, left = unpack(rest + stream[cut:])
    assert [*first, *second] == sent
    assert left == b""
