"""The schedule: slots, prefix cache and the exact moment of every chunk. Runs on the event loop's clock."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Protocol

from gearshift.bench.truth.counters import Tally, exposition
from gearshift.bench.truth.render import Outcome, Part, first_event, last_events, text_event
from gearshift.bench.truth.request import Asked
from gearshift.bench.truth.script import Script
from gearshift.bench.truth.tokens import PrefixCache, Vocabulary


class ResponseWriter(Protocol):
    """Where an answer goes: an HTTP connection."""

    def begin(self, content_type: str) -> None: ...

    def send(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def break_off(self) -> None: ...


class Engine:
    """All answers in progress. Whoever has no slot waits in order of arrival."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.vocabulary = Vocabulary()
        self.tally = Tally()
        self.decoding = 0
        self._cache = PrefixCache()
        self._free = script.slots
        self._queue: deque[Generation] = deque()

    def metrics(self) -> str:
        return exposition(self.tally, self.script.flavour, draft=self.script.draft)

    def start(self, asked: Asked, answer: ResponseWriter) -> Generation:
        generation = Generation(self, asked, answer)
        if self._free == 0:
            self._queue.append(generation)
            self.tally.waiting += 1
        else:
            self._seat(generation)
        return generation

    def cached(self, prompt: list[int], script: Script) -> int:
        return self._cache.hit(prompt) if script.cache else 0

    def release(self, generation: Generation) -> None:
        """A generation has ended or its client has gone."""
        if generation in self._queue:
            self._queue.remove(generation)
            self.tally.waiting -= 1
            return
        self.tally.running -= 1
        if self._free is not None:
            self._free += 1
        if self._queue:
            self.tally.waiting -= 1
            self._seat(self._queue.popleft())

    def _seat(self, generation: Generation) -> None:
        if self._free is not None:
            self._free -= 1
        self.tally.running += 1
        generation.begin(asyncio.get_running_loop().time())


class Generation:
    """One answer under way: a chain of timers, each due at an absolute time, so that lateness never adds up."""

    def __init__(self, engine: Engine, asked: Asked, answer: ResponseWriter) -> None:
        self._engine = engine
        self._asked = asked
        self._answer = answer
        self._steps = list(asked.script.chunks(asked.tokens))
        self._sent = 0  # tokens
        self._chunks = 0
        self._cached = 0
        self._accepted = 0
        self._arrived = asyncio.get_running_loop().time()
        self._first = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def begin(self, now: float) -> None:
        script, prompt = self._asked.script, self._asked.prompt
        self._cached = self._engine.cached(prompt, script)
        uncached = len(prompt) - self._cached
        self._due = now + script.ttft_s + (uncached / script.prefill_tok_s if script.prefill_tok_s else 0.0)
        if self._asked.stream:
            self._answer.begin("text/event-stream")
            if script.role_chunk:
                self._answer.send(first_event(self._asked.dialect))
        self._timer = asyncio.get_running_loop().call_at(self._due, self._step)

    def abandon(self) -> None:
        """The client went away, or the script breaks the connection."""
        if self._over:
            return
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._chunks:
            self._engine.decoding -= 1
        self._engine.release(self)

    def _step(self) -> None:
        script, engine = self._asked.script, self._engine
        if self._chunks == script.die_after:
            self._answer.break_off()  # its connection, once lost, abandons this generation
            return
        size = self._steps[self._chunks]
        if self._chunks == 0:
            self._first = self._due
            engine.decoding += 1
        engine.tally.step(size, script.draft)
        self._accepted += size - 1
        self._emit(size)
        self._sent += size
        self._chunks += 1
        if self._chunks == len(self._steps):
            self._finish()
        else:
            self._due += script.step_s * (1 + script.slope * (engine.decoding - 1))
            self._timer = asyncio.get_running_loop().call_at(self._due, self._step)

    def _emit(self, size: int) -> None:
        if not self._asked.stream or self._sent < self._asked.script.hidden:
            return
        text = "".join(" " + word for word in self._asked.words[self._sent : self._sent + size])
        self._answer.send(text_event(self._asked.script, self._asked.dialect, self._part(), text, size))

    def _part(self) -> Part:
        if self._sent < self._asked.script.reasoning:
            return "reasoning"
        return "tool" if self._sent >= self._asked.tokens - self._asked.script.tool else "answer"

    def _finish(self) -> None:
        self._over = True
        self._engine.decoding -= 1
        self._count()
        if self._asked.stream:
            self._answer.send(last_events(self._asked.script, self._asked.dialect, self._outcome()))
        else:
            self._answer.begin("application/json")
            self._answer.send(self._document())
        # The slot is free before the client can know: a closed loop of as many streams as slots never queues.
        self._engine.release(self)
        self._answer.end()

    def _count(self) -> None:
        tally = self._engine.tally
        tally.requests += 1
        tally.prompt += len(self._asked.prompt)
        tally.cached += self._cached
        tally.ttft_s += self._first - self._arrived
        tally.prefill_s += self._first - self._arrived
        tally.decode_s += self._due - self._first
        tally.tpot_s += (self._due - self._first) / max(1, self._sent - 1)

    def _outcome(self) -> Outcome:
        script = self._asked.script
        return Outcome(
            prompt=len(self._asked.prompt),
            completion=self._sent,
            cached=self._cached,
            reasoning=min(script.reasoning, self._sent),
            drafted=script.draft * len(self._steps),
            accepted=self._accepted if script.draft else 0,
            prefill_s=self._first - self._arrived,
            decode_s=self._due - self._first,
        )

    def _document(self) -> bytes:
        text = " ".join(self._asked.words)
        choice: dict[str, object] = {"index": 0, "finish_reason": "length"}
        choice |= {"text": text} if self._asked.dialect == "completions" else {"message": {"content": text}}
        usage = {"prompt_tokens": len(self._asked.prompt), "completion_tokens": self._sent}
        return json.dumps({"choices": [choice], "usage": usage}).encode()
