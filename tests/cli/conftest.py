"""The command line against a real admin server on a unix socket, behind which a hand-written control sits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fakes.admin import FakeAdmin
from fakes.serving import serving_in_thread
from gearshift.cli.root import root
from gearshift.domain.settings import Settings
from gearshift.web import create_admin

Gearshift = Callable[..., Result]


@pytest.fixture
def admin(gearshift_home: Path) -> Iterator[FakeAdmin]:
    fake = FakeAdmin()
    with serving_in_thread(create_admin(fake, Settings, remote=False), gearshift_home / "admin.sock"):
        yield fake


@pytest.fixture
def gearshift(gearshift_home: Path) -> Gearshift:
    """Runs one command line in this process; ``input`` is what is piped to it."""

    def run(*arguments: str, env: dict[str, str] | None = None, piped: str = "") -> Result:
        known = {"GEARSHIFT_HOME": str(gearshift_home), "GEARSHIFT_URL": "", "NO_COLOR": "1"}
        return CliRunner().invoke(root, arguments, env=known | (env or {}), input=piped, prog_name="gearshift")

    return run
