"""`gearshift run` against a real HTTP endpoint with scripted streams."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from fakes.admin import FakeAdmin
from fakes.chat import FakeChat, chunk, ending
from fakes.serving import serving_in_thread
from gearshift.cli.client import reachable

Gearshift = Callable[..., Result]


@pytest.fixture
def chat(admin: FakeAdmin) -> Iterator[FakeChat]:
    """A chat endpoint that the admin server names as its own."""
    fake = FakeChat([chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo."), *ending()])
    with serving_in_thread(fake) as listener:
        admin.listen = f"http://0.0.0.0:{listener.getsockname()[1]}"
        yield fake


def timeless(text: str) -> str:
    return re.sub(r"[\d.]+ (ms|tok/s)", r"N \1", text)


def test_the_answer_is_on_stdout_and_the_figures_on_stderr(chat: FakeChat, gearshift: Gearshift) -> None:
    chat.headers = {"x-gearshift-variant": "qwen:q8", "x-gearshift-queue-ms": "12", "x-gearshift-load-ms": "2500"}
    result = gearshift("run", "qwen", "say hello")
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert timeless(result.stderr) == snapshot(
        "qwen:q8, 3 tokens, N tok/s, first token N ms, queued N ms, load 2.5 s\n"
    )


def test_the_request_is_a_plain_streamed_chat_completion(chat: FakeChat, gearshift: Gearshift) -> None:
    gearshift("run", "qwen:q8", "hi", "-s", "be brief", "--max-tokens", "9", "-t", "0.5", env={"GEARSHIFT_KEY": "k"})
    assert chat.asked == snapshot(
        [
            {
                "model": "qwen:q8",
                "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
                "stream": True,
                "stream_options": {"include_usage": True},
                "max_tokens": 9,
                "temperature": 0.5,
            }
        ]
    )
    assert chat.keys == ["Bearer k"]


def test_piped_text_follows_the_prompt(chat: FakeChat, gearshift: Gearshift) -> None:
    gearshift("run", "qwen", "summarise:", piped="a long text\n")
    assert chat.asked[0]["messages"][0]["content"] == "summarise:\n\na long text"


def test_nothing_to_ask_is_a_usage_error(chat: FakeChat, gearshift: Gearshift) -> None:
    result = gearshift("run", "qwen", piped=" \n")
    assert (result.exit_code, "there is nothing to ask" in result.stderr) == (2, True)
    assert chat.asked == []


def test_reasoning_and_waiting_are_on_stderr(chat: FakeChat, gearshift: Gearshift) -> None:
    facts = ": x-gearshift-variant=qwen:q8 x-gearshift-queue-ms=5 x-gearshift-load-ms=1500"
    waits = [": queued, 1 ahead", ": queued, 1 ahead", ": loading weights 40 %"]
    chat.lines = [*waits, facts, chunk(reasoning_content="Hmm."), chunk(content="Yes."), *ending("length", 2)]
    result = gearshift("run", "qwen", "really?")
    assert result.stdout == "Yes.\n"
    assert timeless(result.stderr) == snapshot("""\
queued, 1 ahead
loading weights 40 %
Hmm.
qwen:q8, 2 tokens, N tok/s, first token N ms, queued N ms, load 1.5 s, ended by length
""")


def test_as_json_it_is_one_document(chat: FakeChat, gearshift: Gearshift) -> None:
    chat.headers = {"x-gearshift-variant": "qwen:q8"}
    document = json.loads(gearshift("run", "qwen", "hi", "--json").stdout)
    assert document.pop("ttft_s") > 0
    assert document.pop("tokens_per_s") > 0
    assert document == snapshot(
        {
            "variant": "qwen:q8",
            "content": "Hello.",
            "reasoning": None,
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
            "queue_ms": None,
            "load_ms": None,
        }
    )


def test_an_answer_that_breaks_off_is_a_failure(chat: FakeChat, gearshift: Gearshift) -> None:
    chat.lines = [chunk(content="Hel")]
    result = gearshift("run", "qwen", "hi")
    assert (result.exit_code, result.stdout) == (1, "Hel")
    assert result.stderr == snapshot("""\
error: the answer broke off before its end
hint: why: gearshift ps, gearshift logs qwen
""")


@pytest.mark.parametrize("line", ["data: <html>", "data: 3"])
def test_an_event_that_is_no_object_is_a_failure_and_no_traceback(
    chat: FakeChat, gearshift: Gearshift, line: str
) -> None:
    chat.lines = [line]
    result = gearshift("run", "qwen", "hi")
    assert result.exit_code == 1
    assert result.stderr == f"error: the stream has an event that is no JSON object: {line[6:]!r}\n"


def test_an_answer_of_something_else_than_a_gearshift_is_told_as_that(chat: FakeChat, gearshift: Gearshift) -> None:
    chat.lines = ["<!doctype html>"]
    with serving_in_thread(chat) as listener:
        result = gearshift("--url", f"http://127.0.0.1:{listener.getsockname()[1]}", "ps")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "error: the answer is not from a Gearshift server: '<!doctype html>'"


def test_an_error_event_in_the_stream_is_shown(chat: FakeChat, gearshift: Gearshift) -> None:
    error = {"error": {"message": "the engine died", "type": "server_error", "code": "engine_died", "param": None}}
    chat.lines = [chunk(content="Hel"), "data: " + json.dumps(error)]
    result = gearshift("run", "qwen", "hi")
    assert (result.exit_code, result.stderr) == snapshot((1, "error: the engine died\n"))


def test_a_refusal_is_shown_in_the_servers_words(chat: FakeChat, gearshift: Gearshift) -> None:
    error = {"message": "no valid API key", "type": "authentication_error", "code": "invalid_api_key", "param": None}
    chat.refusal = (401, {"error": error, "src": "gearshift"})
    result = gearshift("run", "qwen", "hi")
    assert (result.exit_code, result.stderr) == snapshot(
        (
            1,
            """\
error: no valid API key
hint: set GEARSHIFT_KEY to one of the server's API keys
""",
        )
    )


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("http://0.0.0.0:8888", "http://127.0.0.1:8888"),
        ("http://[::]:8888", "http://[::1]:8888"),
        ("http://[fe80::1]:80", "http://[fe80::1]:80"),
        ("http://10.0.0.5:8888", "http://10.0.0.5:8888"),
    ],
)
def test_an_address_to_listen_on_becomes_one_to_connect_to(listen: str, url: str) -> None:
    assert reachable(listen) == url
