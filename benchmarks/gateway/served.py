"""The gateway as it is served, with a broker that grants at once and a sink that counts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import uvicorn

from gearshift.domain.launch import Endpoint, MetricNames
from gearshift.domain.leasing import Lease, Route, Upstream, VariantStatus
from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.domain.settings import Model, Settings
from gearshift.domain.variant import EngineRef, Variant
from gearshift.gateway import create_gateway
from gearshift.gateway.server import uvicorn_config

VARIANT = Variant("bench", "v", EngineRef("vllm"), sampling={"temperature": 0.6, "top_p": 0.95})


@dataclass(slots=True)
class Granted:
    """A lease that was never waited for."""

    variant: Variant
    upstream: Upstream
    end: asyncio.Future[str]
    queued_s: float = 0.0
    load_s: float = 0.0

    def revoked(self) -> asyncio.Future[str]:
        return self.end

    def release(self) -> None:
        self.end.cancel()


@dataclass(slots=True)
class Free:
    """A ticket whose turn it is."""

    lease: Granted
    progress: str = ""

    async def wait(self, timeout_s: float | None = None) -> Lease:  # noqa: ARG002 - the Ticket port
        return self.lease

    def leave(self) -> None:
        self.lease.release()


class Broker:
    """Every name is the one variant."""

    def __init__(self, port: int) -> None:
        endpoint = Endpoint(f"http://127.0.0.1:{port}", "127.0.0.1", port)
        self.upstream = Upstream(endpoint, "served", {}, MetricNames(), None)

    def resolve(self, name: str | None) -> Route:  # noqa: ARG002 - the Broker port
        return Route(VARIANT)

    def request(self, variant: str, *, side: bool = False) -> Free:  # noqa: ARG002 - the Broker port
        return Free(Granted(VARIANT, self.upstream, asyncio.get_running_loop().create_future()))

    def peek(self, variant: str) -> Upstream | None:  # noqa: ARG002 - the Broker port
        return self.upstream

    def statuses(self) -> Sequence[VariantStatus]:
        return ()


class Count:
    """A sink that only counts."""

    def __init__(self) -> None:
        self.seen = 0

    def request(self, record: RequestRecord) -> None:  # noqa: ARG002 - the Sink port
        self.seen += 1

    def swap(self, record: SwapRecord) -> None:
        raise NotImplementedError(record)


def main(port: int, upstream_port: int) -> None:
    settings = Settings(port=port, models={"bench": Model("bench", (), "auto", (VARIANT,))})
    gateway = create_gateway(Broker(upstream_port), lambda: settings, Count())
    uvicorn.Server(uvicorn_config(gateway, settings)).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
