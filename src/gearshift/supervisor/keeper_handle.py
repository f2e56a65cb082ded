"""Gearshift's end of a keeper: gives it its job, hears how the engine's tree fares."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Self

from gearshift.domain.errors import Failure, LoadFailedError
from gearshift.supervisor.keeper import pack, unpack

_START_S = 20.0  # a keeper answers in some 20 ms; the rest is for a box that swaps
_COLLECT_S = 5.0


@dataclass(frozen=True, slots=True)
class KeeperJob:
    """What a keeper is to start. ``grace_s`` is what the tree gets should Gearshift die."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    grace_s: float
    detaches: bool = False  # what the program leaves behind when it exits is meant to stay


class KeeperHandle:
    """A running keeper. ``exited`` resolves with the engine's exit code, ``empty`` when no process of its tree is left.

    ``lost`` is set before ``empty`` when the keeper itself died first: then nobody vouches for the tree.
    """

    def __init__(
        self, keeper: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        self._keeper = keeper
        self._reader = reader
        self._writer = writer
        self.exited: asyncio.Future[int | None] = loop.create_future()
        self.empty: asyncio.Future[None] = loop.create_future()
        self._inbox = b""
        self._heard: list[dict[str, Any]] = []
        self.engine_pid = 0
        self.killed = False
        self.lost = False
        self._listening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._keeper.pid

    @classmethod
    async def start(cls, job: KeeperJob, keeper: subprocess.Popen[bytes], control: socket.socket) -> Self:
        """Give an idle keeper its job, over our end of its socket.

        Raises LoadFailedError when the program cannot be started.
        """
        reader, writer = await asyncio.open_connection(sock=control)
        handle = cls(keeper, reader, writer)
        try:
            async with asyncio.timeout(_START_S):
                await handle._begin(job)
        except BaseException:
            await handle.close()
            raise
        return handle

    async def _begin(self, job: KeeperJob) -> None:
        self._tell(asdict(job))
        answer, *self._heard = await self._hear() or [{"error": "its keeper ended at once"}]
        if "error" in answer:
            cause = f"{job.argv[0]} cannot be started: {answer['error']}"
            raise LoadFailedError(cause, failure=Failure(cause, fix="check the variant's command and its path"))
        self.engine_pid = answer["pid"]
        self._listening = asyncio.create_task(self._listen(), name=f"keeper of {self.engine_pid}")

    def stop(self, number: int, grace_s: float) -> None:
        """Signal the whole tree, and SIGKILL it ``grace_s`` later. A further order can only shorten the grace."""
        self._tell({"stop": int(number), "grace_s": grace_s})

    def _tell(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # a keeper that is gone says so by the end of its stream
            self._writer.write(pack(message))

    async def _hear(self) -> list[dict[str, Any]]:
        """The next messages; none when the keeper is gone."""
        while not self._heard:
            data = await self._reader.read(65536)
            if not data:
                break
            self._heard, self._inbox = unpack(self._inbox + data)
        heard, self._heard = self._heard, []
        return heard

    async def _listen(self) -> None:
        vouched = False
        with suppress(OSError):
            while messages := await self._hear():
                for message in messages:
                    vouched = self._note(message) or vouched
        self.lost = not vouched
        self._collect()
        _settle(self.exited, None)
        _settle(self.empty, None)

    def _note(self, message: dict[str, Any]) -> bool:
        """Take in one message; True when it says that the tree is empty."""
        self.killed = self.killed or "killed" in message
        if "exit" in message:
            _settle(self.exited, message["exit"])
        return "empty" in message

    def _collect(self) -> None:
        """The keeper's stream ended, so it is exiting; waiting for it takes microseconds."""
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(_COLLECT_S)

    async def close(self) -> None:
        """Let go: a keeper whose tree still lives ends it, as if Gearshift had died. Idempotent."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        if self._listening:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        if self._keeper.poll() is None:
            await asyncio.to_thread(self._collect)
        if self._keeper.poll() is None:  # it hangs; its engine goes with it by the parent-death signal
            self._keeper.kill()
            await asyncio.to_thread(self._collect)


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)
