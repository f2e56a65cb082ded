"""`gearshift run`: chat with a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from gearshift.cli.chat import Answer, Listener, Message, ask
from gearshift.cli.client import ServerAddress, reachable
from gearshift.cli.output import Output
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_duration


@click.command("run")
@click.argument("model", type=VariantName(), metavar="MODEL[:VARIANT]")
@click.argument("prompt", required=False)
@click.option("--system", "-s", help="System message.", metavar="TEXT")
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens.")
@click.option("--temperature", "-t", type=click.FloatRange(0), help="Sampling temperature.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: texts, token counts and times.")
@pass_session
def command(
    session: Session,
    model: str,
    prompt: str | None,
    system: str | None,
    max_tokens: int | None,
    temperature: float | None,
    *,
    as_json: bool,
) -> None:
    """Chat with a model through the running server.

    With PROMPT, or text piped in, it answers once. Without either it is a conversation that an empty line or Ctrl-D
    ends. The answer goes to stdout; reasoning, waiting and speed go to stderr. Where the server wants an API key, it
    is taken from GEARSHIFT_KEY.
    """
    options = {"max_tokens": max_tokens, "temperature": temperature}
    chat = Chat(session, model, {key: value for key, value in options.items() if value is not None}, as_json=as_json)
    if system:
        chat.messages.append({"role": "system", "content": system})
    if prompt is None and sys.stdin.isatty():
        chat.converse(_typed())
    else:
        chat.turn(_one_prompt(prompt))


def _one_prompt(prompt: str | None) -> str:
    """The argument and piped text as one. Raises UsageError when there is neither."""
    piped = "" if sys.stdin.isatty() else sys.stdin.read().strip()
    text = "\n\n".join(part for part in (prompt, piped) if part)
    if not text:
        msg = "there is nothing to ask: give a PROMPT or pipe one in"
        raise click.UsageError(msg)
    return text


def _typed() -> Iterator[str]:
    import readline  # noqa: PLC0415, F401 - gives input() history and editing; of no use to a pipe

    while True:
        try:
            line = input(">>> ").strip()
        except EOFError:
            return
        if not line:
            return
        yield line


class Chat:
    """A conversation: its messages so far, and how each answer is shown."""

    def __init__(self, session: Session, model: str, options: Mapping[str, Any], *, as_json: bool) -> None:
        self.messages: list[Message] = []
        self._output = session.output
        self._model = model
        self._options = options
        self._as_json = as_json
        self._server = endpoint(session)

    def converse(self, lines: Iterator[str]) -> None:
        """A turn per line. What fails, or is interrupted by Ctrl-C, ends the turn and not the conversation."""
        for line in lines:
            try:
                self.turn(line)
            except GearshiftError as error:
                self.messages.pop()
                self._output.fail(error)
            except KeyboardInterrupt:
                self.messages.pop()
                self._output.say("\n(interrupted)")

    def turn(self, text: str) -> None:
        """Ask, show the answer as it comes, and remember both."""
        self.messages.append({"role": "user", "content": text})
        with self._shown() as listener:
            answer = ask(self._server, self._model, self.messages, self._options, listener)
        self.messages.append({"role": "assistant", "content": answer.content})
        if self._as_json:
            self._output.document(facts(answer))
            return
        self._output.say(click.style(summary(answer), dim=True))

    @contextmanager
    def _shown(self) -> Iterator[Listener]:
        stages = _Changes(self._output.say)
        if self._as_json:
            yield Listener(content=_ignore, reasoning=_ignore, waiting=stages)
        else:
            parts = _Parts(self._output)
            yield Listener(content=parts.content, reasoning=parts.reasoning, waiting=stages)
            parts.end()


class _Parts:
    """Reasoning on stderr and the answer on stdout, each beginning on a line of its own on a terminal."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._in_reasoning = False

    def reasoning(self, text: str) -> None:
        self._in_reasoning = True
        self._output.aside(text)

    def content(self, text: str) -> None:
        self._end_reasoning()
        self._output.write(text, newline=False)

    def end(self) -> None:
        self._end_reasoning()
        self._output.write("")

    def _end_reasoning(self) -> None:
        if self._in_reasoning:
            self._in_reasoning = False
            self._output.say("")


class _Changes:
    """Passes on a text when it differs from the one before."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last = ""

    def __call__(self, text: str) -> None:
        if text != self._last:
            self._last = text
            self._say(text)


def _ignore(_: str) -> None:
    pass


def endpoint(session: Session) -> ServerAddress:
    """Where clients of the server talk to it: --url, or what the local server says it listens on."""
    url = session.url or reachable(session.admin.get("/status")["listen"])
    return ServerAddress.at(url, session.env.get("GEARSHIFT_KEY") or session.env.get("GEARSHIFT_OPERATOR_KEY"))


def summary(answer: Answer) -> str:
    """One line: who answered, how fast, after waiting for what."""
    usage = answer.usage or {}
    rate = answer.tokens_per_second()
    parts = [
        answer.variant,
        f"{usage['completion_tokens']} tokens" if "completion_tokens" in usage else None,
        f"{rate:.1f} tok/s" if rate else None,
        f"first token {format_duration(answer.first_s)}" if answer.first_s is not None else None,
        f"queued {format_duration(answer.queue_ms / 1000)}" if answer.queue_ms else None,
        f"load {format_duration(answer.load_ms / 1000)}" if answer.load_ms else None,
        f"ended by {answer.finish}" if answer.finish not in {None, "stop"} else None,
    ]
    return ", ".join(part for part in parts if part)


def facts(answer: Answer) -> dict[str, Any]:
    """The same as data; seconds and milliseconds unrounded, null = unknown."""
    return {
        "variant": answer.variant,
        "content": answer.content,
        "reasoning": answer.reasoning or None,
        "finish_reason": answer.finish,
        "usage": answer.usage,
        "ttft_s": answer.first_s,
        "tokens_per_s": answer.tokens_per_second(),
        "queue_ms": answer.queue_ms,
        "load_ms": answer.load_ms,
    }
