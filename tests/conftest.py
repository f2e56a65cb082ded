"""Fixtures every room may use. The real home is never touched: each test has its own GEARSHIFT_HOME."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("untimed", deadline=None)  # how long an example takes says nothing on a shared box
settings.load_profile("untimed")


class OneRealEngineAtATime(LoadScopeScheduling):
    """Real engines fill the box by themselves, so their tests are one worker's; any worker takes any other test."""

    def _split_scope(self, nodeid: str) -> str:
        return "real" if "real" in Path(nodeid.partition("::")[0]).stem.split("_") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneRealEngineAtATime:
    return OneRealEngineAtATime(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: none of them is left to one worker while the others have nothing to do."""
    items.sort(key=lambda item: item.path.parent.name != "system")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def gearshift_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("GEARSHIFT_HOME", str(home))
    return home
