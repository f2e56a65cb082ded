"""The two questions put to an engine over HTTP: is it up, and does it give a token."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from gearshift.domain.launch import HttpCall, LaunchSpec

HEALTH_TIMEOUT_S = 5.0  # engines answer late while they load; half a second was too short for one of them
_BODY_SHOWN = 300
_BUSY = (502, 503, 504)  # "not yet", as llama.cpp and reverse proxies say it
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # we could not ask; it says nothing of the engine


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How a question was answered. ``ok`` False: ``problem`` says why, ``retry`` whether asking again may help.

    ``asked`` False: the question never left this process, for want of descriptors or memory.
    """

    ok: bool
    problem: str = ""
    retry: bool = False
    asked: bool = True
    body: bytes = b""


class HealthClient:
    """Asks one engine; never used for clients' requests."""

    def __init__(self, session: aiohttp.ClientSession, spec: LaunchSpec) -> None:
        self._session = session
        self._spec = spec

    async def health(self, timeout_s: float = HEALTH_TIMEOUT_S) -> ProbeResult:
        """The health path answers 2xx. An engine without one is healthy when its port accepts."""
        if self._spec.health_path is None:
            return await self._accepts(timeout_s)
        return await self._ask(HttpCall("GET", self._spec.health_path, timeout_s=timeout_s))

    async def probe(self, timeout_s: float) -> ProbeResult:
        """One token (or vector, or score) by the variant's probe, at temperature 0 under its served name."""
        call = probe_call(self._spec, timeout_s)
        return await self._ask(call, expect=_RESULTS.get(self._spec.probe.kind)) if call else ProbeResult(ok=True)

    async def call(self, call: HttpCall) -> ProbeResult:
        """One of the engine's own control endpoints."""
        return await self._ask(call)

    async def _accepts(self, timeout_s: float) -> ProbeResult:
        endpoint = self._spec.endpoint
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        except (OSError, TimeoutError) as error:
            return _unreached(_words(error), error)
        writer.close()
        return ProbeResult(ok=True)

    async def _ask(self, call: HttpCall, expect: str | None = None) -> ProbeResult:
        url = self._spec.endpoint.base_url + call.path
        headers = {"Content-Type": "application/json", **self._spec.headers}
        timeout = aiohttp.ClientTimeout(total=call.timeout_s)
        try:
            async with self._session.request(
                call.method, url, data=call.body, headers=headers, timeout=timeout
            ) as response:
                return judge(call, response.status, await response.read(), expect)
        except TimeoutError:
            # Without a health path a server may hold its first request until it is loaded.
            patient = self._spec.health_path is None
            return ProbeResult(
                ok=False, problem=f"{call.path} gave no answer within {call.timeout_s:g} s", retry=patient
            )
        except (aiohttp.ClientError, OSError) as error:
            return _unreached(f"{call.path}: {_words(error)}", error)


_RESULTS = {"chat": "choices", "completion": "choices", "embedding": "data", "rerank": "results"}


def probe_call(spec: LaunchSpec, timeout_s: float) -> HttpCall | None:
    """The request that a probe is, or None for the kind ``none``."""
    kind, name = spec.probe.kind, spec.served_name
    one = {"max_tokens": 1, "temperature": 0, "stream": False}
    bodies: Mapping[str, tuple[str, dict[str, Any]]] = {
        "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], **one}),
        "completion": ("/v1/completions", {"prompt": "Hi", **one}),
        "embedding": ("/v1/embeddings", {"input": "Hi"}),
        "rerank": ("/v1/rerank", {"query": "Hi", "documents": ["Hi"]}),
    }
    if kind == "http":
        return HttpCall("GET", spec.probe.path or "/", timeout_s=timeout_s)
    if kind not in bodies:
        return None
    path, body = bodies[kind]
    return HttpCall("POST", path, json.dumps({"model": name, **body}).encode(), timeout_s)


def judge(call: HttpCall, status: int, body: bytes, expect: str | None) -> ProbeResult:
    """A good answer is 2xx and, where a result is expected, has one that is not empty."""
    shown = body[:_BODY_SHOWN].decode("utf-8", "replace").strip()
    if not 200 <= status < 300:  # noqa: PLR2004 - success codes of HTTP
        return ProbeResult(ok=False, problem=f"{call.path} answered {status}: {shown}", retry=status in _BUSY)
    if expect is None:
        return ProbeResult(ok=True, body=body)
    try:
        result = json.loads(body)[expect]
    except (ValueError, KeyError, TypeError):
        result = None
    if result:
        return ProbeResult(ok=True)
    return ProbeResult(ok=False, problem=f"{call.path} answered without {expect!r}: {shown}")


def _unreached(problem: str, error: BaseException) -> ProbeResult:
    return ProbeResult(ok=False, problem=problem, retry=True, asked=getattr(error, "errno", None) not in _OURS)


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_BODY_SHOWN]  # a parser's error quotes what it read, however long
