"""Folds a stream's events, with the time each came, into a sample."""

from __future__ import annotations

from gearshift.bench.sample import EngineTimings, Sample, Usage
from gearshift.bench.sse import EventSplitter
from gearshift.bench.wire import Event, read_event

_TEXT_LIMIT = 20_000  # characters of answer and reasoning that are kept; a needle's answer is a few words


class StreamFold:
    """Collects one answer. ``feed`` takes raw bytes and their stamp; ``sample`` gives what came of it."""

    def __init__(self) -> None:
        self._splitter = EventSplitter()
        self._chunk_s: list[float] = []
        self._first_answer_s: float | None = None
        self._reasoning = 0
        self._tool = 0
        self._token_ids: int | None = None
        self._usage: Usage | None = None
        self._timings: EngineTimings | None = None
        self._finish: str | None = None
        self._error: str | None = None
        self._text: list[str] = []
        self._thought: list[str] = []
        self._kept = 0  # characters
        self._last_s: float | None = None  # when the last piece came
        self._ended = False  # [DONE], or the dialect's own last event

    def feed(self, stamp_s: float, piece: bytes) -> None:
        """Take bytes that arrived ``stamp_s`` after the request was sent."""
        self._last_s = stamp_s
        for payload in self._splitter.feed(piece):
            if payload == b"[DONE]":
                self._ended = True
            else:
                self._add(stamp_s, read_event(payload))

    def end(self) -> None:
        """The stream came to a clean end; where a finish reason was told the answer is whole without ``[DONE]``."""
        for payload in self._splitter.end():
            if payload == b"[DONE]":
                self._ended = True
            elif self._last_s is not None:
                self._add(self._last_s, read_event(payload))
        self._ended = self._ended or self._finish is not None

    @property
    def ended(self) -> bool:
        """Whether the stream said that it is over."""
        return self._ended

    def fail(self, error: str) -> None:
        """The stream broke; the first error stays."""
        self._error = self._error or error

    def whole(self, stamp_s: float, body: bytes) -> None:
        """Take an answer that was not streamed: one event, one stamp."""
        self._add(stamp_s, read_event(body))
        self._ended = True

    def sample(
        self, *, started_s: float, ended_s: float, status: int | None, headers_s: float | None, planned_s: float | None
    ) -> Sample:
        """The request so far; a stream without its end mark is an error, whatever it carried."""
        if self._error is None and not self._ended:
            self._error = "the stream ended without its end mark"
        return Sample(
            started_s=started_s,
            ended_s=ended_s,
            status=status,
            error=self._error,
            planned_s=planned_s,
            headers_s=headers_s,
            first_answer_s=self._first_answer_s,
            chunk_s=tuple(self._chunk_s),
            reasoning_chunks=self._reasoning,
            tool_chunks=self._tool,
            token_ids=self._token_ids,
            usage=self._usage,
            timings=self._timings,
            finish=self._finish,
            text="".join(self._text),
            thought="".join(self._thought),
        )

    def _add(self, stamp_s: float, event: Event) -> None:
        if event.visible:
            self._see(stamp_s, event)
        if event.token_ids is not None:
            self._token_ids = (self._token_ids or 0) + event.token_ids
        self._usage = event.usage or self._usage
        self._timings = event.timings or self._timings
        if event.finish is not None:
            self._finish = event.finish
            self._ended = self._ended or event.finish in {"completed", "incomplete"}  # responses send no [DONE]
        self._error = self._error or event.error

    def _see(self, stamp_s: float, event: Event) -> None:
        self._chunk_s.append(stamp_s)
        self._reasoning += bool(event.reasoning)
        self._tool += event.tool
        if event.answer and self._first_answer_s is None:
            self._first_answer_s = stamp_s
        if self._kept < _TEXT_LIMIT:
            self._text.append(event.answer)
            self._thought.append(event.reasoning)
            self._kept += len(event.answer) + len(event.reasoning)
