"""Where cells are measured: at a URL, or on variants of the running Gearshift."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from gearshift.bench.rig import Rig
from gearshift.cli.bench.asked import Asked
from gearshift.cli.bench.place import Place
from gearshift.cli.progress import Progress
from gearshift.hardware import open_telemetry


@asynccontextmanager
async def open_place(asked: Asked, names: Mapping[str, str], progress: Progress) -> AsyncIterator[Place]:
    """The place for the settings in ``names``: each with the model, variant or URL that it means.

    Without names it is the one that --model means. Raises GearshiftError where it cannot be reached or told.
    """
    if asked.url is not None or any(_is_url(name) for name in names.values()):
        async with _at_urls(asked, names) as place:
            yield place
        return
    from gearshift.cli.bench.variants import open_variants  # noqa: PLC0415 - a URL needs none of it

    async with open_variants(asked, names, progress) as place:
        yield place


@asynccontextmanager
async def _at_urls(asked: Asked, names: Mapping[str, str]) -> AsyncIterator[Place]:
    """One rig a name; a name that is a URL is a server of its own."""
    async with AsyncExitStack() as stack:
        arms = {setting: await stack.enter_async_context(_rig(asked, name)) for setting, name in names.items()}
        rigs = list(arms.values()) or [await stack.enter_async_context(_rig(asked, asked.model))]
        yield Place(rigs[0], arms=arms)


def _rig(asked: Asked, name: str | None) -> Rig:
    """With this box's GPUs, which a rig reads for a server on this box only."""
    if name is not None and _is_url(name):
        return Rig(name, model=asked.model, key=asked.key, telemetry=open_telemetry())
    return Rig(asked.url or "", model=name, key=asked.key, telemetry=open_telemetry())


def _is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))
