"""Jobs are children of the server: started, cancelled, ended with it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gearshift.control import Jobs
from gearshift.control.jobs import KEPT
from gearshift.domain.admin import Job

pytestmark = pytest.mark.anyio


async def test_a_job_that_is_cancelled_while_its_process_starts_is_ended(tmp_path: Path) -> None:
    changes: asyncio.Queue[Job] = asyncio.Queue()
    jobs = Jobs(tmp_path, os.environ, changes.put_nowait)
    started = jobs.start(["bench", "--help"])
    assert jobs.cancel(started.id).state == "cancelled"
    async with asyncio.timeout(10):
        while (job := await changes.get()).ended is None:
            pass
    assert job.state == "cancelled"
    assert job.exit_code != 0
    await jobs.close()


async def test_a_cancelled_job_is_remembered_until_it_has_ended(tmp_path: Path) -> None:
    changes: list[Job] = []
    folder = tmp_path / "jobs"
    jobs = Jobs(folder, os.environ, changes.append)
    slow = jobs.start(["bench", "--help"])
    while not slow.log.exists():
        await asyncio.sleep(0.01)
    jobs.cancel(slow.id)
    folder.rename(tmp_path / "moved")
    folder.touch()  # no job can write its log from here on, so each fails at once
    for _ in range(KEPT + 1):
        jobs.start(["bench"])
    await asyncio.sleep(0)
    assert slow.id in [job.id for job in jobs.all()]
    await jobs.close()
    assert [job.state for job in changes if job.id == slow.id and job.ended is not None] == ["cancelled"]
