"""What `bench` needs of a running Gearshift: held leases, loads that a Ctrl-C gives up, and records of swaps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp

from gearshift.bench.experiments.swap import record_of
from gearshift.cli.client import PREFIX, AdminError, NoServerError, ServerAddress
from gearshift.domain.admin import OperatorLease
from gearshift.domain.errors import GearshiftError
from gearshift.domain.records import SwapRecord

_TTL_S = 60.0  # the server renews a held lease by itself; this is how long a lost connection may go unnoticed
_EVENT_S = 5.0  # the record of a swap follows the first token within milliseconds


class BenchAdmin:
    """The admin API of one server, asynchronously. Use as an async context manager."""

    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = (
            aiohttp.UnixConnector(str(self._server.socket_path)) if self._server.socket_path else aiohttp.TCPConnector()
        )
        # Leases and loads take as long as an engine takes to load; each is left by cancelling it.
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=self._server.headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> Any:
        """A page, decoded. Raises AdminError or NoServerError."""
        async with self._sent("GET", path) as answer:
            return await answer.json()

    async def load(self, variant: str) -> None:
        """Make it resident and return when it is ready."""
        async with self._sent("POST", f"/variants/{quote(variant)}/load"):
            pass

    async def provenance(self, variant: str) -> Mapping[str, Any]:
        """What makes the running variant the same again. Raises AdminError when it does not run."""
        found: Mapping[str, Any] = await self.get(f"/variants/{quote(variant)}/provenance")
        return found

    async def log(self, variant: str) -> str:
        """The newest launch's log from its begin."""
        async with self._sent("GET", f"/variants/{quote(variant)}/logs?tail=100000") as answer:
            return await answer.text()

    @asynccontextmanager
    async def held(self, variant: str, *, exclusive: bool) -> AsyncIterator[OperatorLease]:
        """The variant's lease while the block runs; it ends with the connection, whatever happens to us."""
        body = {"variant": variant, "exclusive": exclusive, "ttl": _TTL_S}
        async with self._sent("POST", "/leases?hold=1", body) as answer:
            yield OperatorLease(**json.loads(await answer.content.readline()))

    async def unload(self, variant: str) -> None:
        """Stop it and return when it is stopped."""
        async with self._sent("POST", f"/variants/{quote(variant)}/unload"):
            pass

    async def asleep(self, variant: str) -> bool:
        """Whether it sleeps at this moment."""
        row: Mapping[str, Any] = await self.get(f"/variants/{quote(variant)}")
        return bool(row["state"] == "sleeping")

    @asynccontextmanager
    async def swap_of(self, variant: str) -> AsyncIterator[Callable[[], Awaitable[SwapRecord | None]]]:
        """Follow the server from here on; asked for, gives the first swap to ``variant`` since, None when none comes.

        The order is the server's, so that no two clocks are compared.
        """
        async with self._sent("GET", "/events") as answer:
            with suppress(TimeoutError):
                await asyncio.wait_for(answer.content.readline(), _EVENT_S)  # a comment: it is connected

            async def first() -> SwapRecord | None:
                async for event in _events(answer):
                    if event["kind"] == "swap.done" and event["data"]["variant"] == variant:
                        return record_of({**event["data"], "at": event["at"]})
                return None

            yield first

    @asynccontextmanager
    async def _sent(self, method: str, path: str, body: object = None) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            msg = "the admin client is used outside its context"
            raise RuntimeError(msg)
        url = (self._server.url or "http://gearshift") + PREFIX + path
        try:
            async with self._session.request(method, url, json=body) as answer:
                if answer.status >= 400:  # noqa: PLR2004 - HTTP's refusals
                    raise _refusal(answer.status, await answer.text())
                yield answer
        except aiohttp.ClientConnectionError as error:
            hint = "start one: gearshift serve; or name any server with --url"
            raise NoServerError(f"no Gearshift answers at {self._server.place}: {error}", hint=hint) from error


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Mapping[str, Any]]:
    """Each event of a stream, until none has come for so long."""
    with suppress(TimeoutError):
        while line := await asyncio.wait_for(answer.content.readline(), _EVENT_S):
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def _refusal(status: int, text: str) -> AdminError:
    try:
        error = json.loads(text)["error"]
        return AdminError(status, str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return AdminError(status, "unknown", f"HTTP {status}: {text[:200]}")


def pick(rows: Sequence[Mapping[str, Any]], name: str | None) -> str:
    """The variant that ``name`` means: its id, its model's only or only ready variant, or the only one there is.

    Raises GearshiftError when that leaves several or none.
    """
    ids = [str(row["variant"]) for row in rows]
    if name in ids:
        return str(name)
    meant = [row for row in rows if name is None or str(row["variant"]).partition(":")[0] == name]
    if len(meant) > 1:
        meant = [row for row in meant if row["state"] == "ready"] or meant
    if len(meant) == 1:
        return str(meant[0]["variant"])
    which = f"{name!r} is" if name else "without --model it is"
    problem = "no variant" if not meant else "not clear which variant"
    raise GearshiftError(f"{which} {problem} of this server", hint=f"name one: {', '.join(ids) or 'there are none'}")
