"""The admin API over a hand-written control, in process for answers and over a real socket for streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from fakes.admin import FakeAdmin
from fakes.serving import serving
from gearshift.domain.settings import Settings
from gearshift.web import create_admin


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
async def client(admin: FakeAdmin) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=create_admin(admin, Settings, remote=False))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        yield client


@pytest.fixture
async def live(admin: FakeAdmin, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a real server on a unix socket: what it disconnects from, the server notices."""
    path = tmp_path / "admin.sock"
    async with serving(create_admin(admin, Settings, remote=False), path):
        transport = httpx2.AsyncHTTPTransport(uds=str(path))
        async with httpx2.AsyncClient(transport=transport, base_url="http://admin", timeout=10) as client:
            yield client
