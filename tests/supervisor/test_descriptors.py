"""Open files: more than select(2) can name, and none left."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fakes.serving import until
from gearshift.domain.paths import Paths
from gearshift.supervisor import LocalLauncher
from supervisor.conftest import SpecOf

pytestmark = pytest.mark.anyio

BEYOND_SELECT = 1024


@contextmanager
def soft_limit(count: int) -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@contextmanager
def opened(count: int) -> Iterator[None]:
    """Hold so many descriptors more."""
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def none_left() -> Iterator[None]:
    """No descriptor can be opened in this process."""
    with soft_limit(3):
        yield


async def test_an_engine_is_kept_beside_a_thousand_open_descriptors(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    await (await launcher.launch(spec_of())).stop()  # it takes the keeper that was made ahead
    launcher._spare_keeper.close()
    with soft_limit(2 * BEYOND_SELECT), opened(BEYOND_SELECT):
        child = await launcher.launch(spec_of())
        await child.ready()
        assert (await child.stop()).exit_code == 0


async def test_no_descriptor_left_is_our_trouble_and_not_the_engines(
    launcher: LocalLauncher, spec_of: SpecOf, paths: Paths
) -> None:
    """The engine is neither given up as hung nor out of sight once there are descriptors again."""
    child = await launcher.launch(spec_of(timing={"probe_every_s": 0.02, "probe_timeout_s": 0.1}))
    await child.ready()
    pids = child.pids
    ended: Any = asyncio.ensure_future(child.ended())
    with none_left():
        for _ in range(10):
            launcher._dirty.set()
            await asyncio.sleep(0.03)
        assert child.pids == pids
        assert not ended.done()
    before = json.loads(paths.children.read_text())["written"]
    os.kill(pids[0], signal.SIGKILL)
    async with asyncio.timeout(10):
        await ended
    await child.stop()
    await until(lambda: json.loads(paths.children.read_text())["written"] > before)
