"""Variants of the running Gearshift as a place to measure: loaded, leased, and left as the next one needs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from gearshift.bench.plan import CellPlan
from gearshift.bench.rig import Rig
from gearshift.cli.bench.admin import BenchAdmin, pick
from gearshift.cli.bench.asked import Asked
from gearshift.cli.bench.ceilings import teller
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.provenance import provenance_of
from gearshift.cli.client import reachable
from gearshift.cli.load import stage
from gearshift.cli.progress import Progress
from gearshift.cli.waiting import POLL_S
from gearshift.hardware import open_telemetry


@asynccontextmanager
async def open_variants(asked: Asked, names: Mapping[str, str], progress: Progress) -> AsyncIterator[Place]:
    """The variants that ``names`` means, by setting; the first is resident and leased at once."""
    server = asked.session.admin.server
    async with BenchAdmin(server) as admin, AsyncExitStack() as stack:
        rows = await admin.get("/variants")
        chosen = {setting: pick(rows, name) for setting, name in names.items()} or {"": pick(rows, asked.model)}
        switch = VariantSwitch(asked, admin, chosen, progress)
        stack.push_async_callback(switch.close)
        first = next(iter(chosen.values()))
        rig = await switch.occupy(first)
        row, status = await admin.get(f"/variants/{first}"), await admin.get("/status")
        config = status["config"] if switch.here else None  # another box's file, card and bandwidth are not ours
        told = await asyncio.to_thread(teller, asked.session, row, config, asked.card, may_measure=switch.exclusive)
        yield Place(rig, switch, switch.arms, told)


class VariantSwitch:
    """Makes a cell's variant current. One lease and one rig at a time; each engine start has a boot of its own.

    With the exclusive lease the engine is measured directly, from another box through the gateway under that lease: an
    engine listens on its own box only. Beside traffic requests go through the gateway too. From another box the
    engine's own pages are below its ``/upstream/``.
    """

    def __init__(self, asked: Asked, admin: BenchAdmin, chosen: Mapping[str, str], progress: Progress) -> None:
        self.arms = _Arms(self)
        self._asked = asked
        self._admin = admin
        self._chosen = chosen
        self._progress = progress
        self._stack = AsyncExitStack()
        self._current: str | None = None
        self._boots: dict[tuple[str, int | None], int] = {}
        self._pid: int | None = None
        self._rigs: dict[str, Rig] = {}
        self._telemetry = open_telemetry() if self.here else None

    async def to(self, plan: CellPlan) -> int:
        variant = self._variant(plan.setting)
        await self.occupy(variant)
        return self._boots.setdefault((variant, self._pid), len(self._boots))

    async def occupy(self, variant: str) -> Rig:
        """The rig of ``variant``, which is resident and ours from now on."""
        if variant != self._current:
            await self.close()
            self._rigs[variant] = await self._open(variant)
            self._current = variant
        return self._rigs[variant]

    async def close(self) -> None:
        """Give the lease back."""
        self._current = None
        await self._stack.aclose()

    def rig(self, setting: str) -> Rig:
        """The last rig of the setting's variant; the first one's before it was ever current."""
        return self._rigs.get(self._variant(setting)) or next(iter(self._rigs.values()))

    def settings(self) -> Iterator[str]:
        return iter(self._chosen)

    def _variant(self, setting: str) -> str:
        return self._chosen.get(setting) or next(iter(self._chosen.values()))

    async def _open(self, variant: str) -> Rig:
        async with AsyncExitStack() as stack:
            rig = await stack.enter_async_context(await self._leased(variant, stack))
            self._stack = stack.pop_all()
        return rig

    async def _leased(self, variant: str, stack: AsyncExitStack) -> Rig:
        async with self._stages(variant):
            lease = await stack.enter_async_context(self._admin.held(variant, exclusive=self.exclusive))
        row = await self._admin.get(f"/variants/{variant}")
        self._pid = row["pids"][0] if row["pids"] else None
        direct = self.exclusive and self.here
        traffic = "alone" if self.exclusive else "beside other traffic"
        through = f"the {'engine' if direct else 'gateway'}, {traffic}"
        provenance = {"through": through, **await provenance_of(self._admin, variant)}
        if self.exclusive:
            self._asked.session.output.say(f"{variant} is held exclusively while it is measured; others wait")
        if direct:
            return Rig(lease.endpoint, provenance=provenance, telemetry=self._telemetry)
        gateway = await self._gateway()
        self._asked.session.output.say(f"{variant} is measured through {gateway}, {traffic}")
        return Rig(
            gateway,
            model=variant,
            key=self._asked.gateway_key,
            control_url=lease.endpoint if self.here else f"{gateway}/upstream/{variant}",
            provenance=provenance,
            telemetry=self._telemetry,
        ).under(lease.id if self.exclusive else None)

    @asynccontextmanager
    async def _stages(self, variant: str) -> AsyncIterator[None]:
        """Shows what a wait for the variant is for, while the block waits."""
        self._progress(f"waiting for {variant}")
        showing = asyncio.create_task(self._show(variant), name=f"stages of {variant}")
        try:
            yield
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)

    async def _show(self, variant: str) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            self._progress(f"{variant}: {stage(await self._admin.get('/variants'), variant)}")

    @property
    def exclusive(self) -> bool:
        """Whether nobody else is served meanwhile."""
        return not self._asked.beside_traffic

    @property
    def here(self) -> bool:
        """Whether the server is on this box, behind its socket."""
        return self._asked.session.admin.server.socket_path is not None

    async def _gateway(self) -> str:
        server = self._asked.session.admin.server
        status: Mapping[str, Any] = await self._admin.get("/status")
        return server.url or reachable(status["listen"])


class _Arms(Mapping[str, Rig]):
    """The switch's rigs by setting, as they are at the moment of asking: a restarted engine has a new one."""

    def __init__(self, switch: VariantSwitch) -> None:
        self._switch = switch

    def __getitem__(self, setting: str) -> Rig:
        return self._switch.rig(setting)

    def __iter__(self) -> Iterator[str]:
        return self._switch.settings()

    def __len__(self) -> int:
        return sum(1 for _ in self._switch.settings())
