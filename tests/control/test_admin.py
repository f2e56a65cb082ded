"""What an operator may ask of the server, and what is refused because of when it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from control.conftest import TWO, Harness, MakeControl
from gearshift.config import parse_config
from gearshift.control import Jobs, Reloading, ServerAdmin
from gearshift.domain.errors import DrainingError, GearshiftError, UnknownIdError

pytestmark = pytest.mark.anyio


def admin_of(it: Harness, folder: Path) -> ServerAdmin:
    return ServerAdmin(
        it.control,
        reloading=Reloading(it.control, it.preparation, None, lambda: parse_config(TWO, file=None, env={})),
        jobs=Jobs(folder, {}, lambda _job: None),
        version="0",
        listen="http://127.0.0.1:8888",
        stop=lambda: None,
    )


async def test_a_stopping_server_starts_no_jobs(make: MakeControl, tmp_path: Path) -> None:
    admin = admin_of(make(), tmp_path)
    admin.shutdown()
    with pytest.raises(DrainingError, match="stopping"):
        admin.start_job(["plan"])
    assert admin.jobs() == ()


async def test_ids_of_nothing_are_told_apart_from_other_refusals(make: MakeControl, tmp_path: Path) -> None:
    admin = admin_of(make(), tmp_path)
    with pytest.raises(UnknownIdError, match="'gone'"):
        admin.end_lease("gone")
    with pytest.raises(UnknownIdError, match="'gone'"):
        admin.cancel_job("gone")
    lease = await admin.take_lease("m:a", exclusive=False, ttl_s=60)
    with pytest.raises(GearshiftError, match="cannot last") as caught:
        admin.renew_lease(lease.id, ttl_s=-1)
    assert not isinstance(caught.value, UnknownIdError)
    admin.end_lease(lease.id)
