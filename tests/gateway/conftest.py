"""A running front with a fake engine behind it, and a client session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from fakes.front import Engine, Front, engine, front


@pytest.fixture
async def fake() -> AsyncIterator[Engine]:
    async with engine() as running:
        yield running


@pytest.fixture
async def door(fake: Engine) -> AsyncIterator[Front]:
    async with front(fake.port) as running:
        yield running


@pytest.fixture
async def client(door: Front) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(door.url) as session:
        yield session
