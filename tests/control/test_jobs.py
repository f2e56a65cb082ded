"""Jobs are children of the server: started, cancelled, ended with it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gearshift.control import Jobs
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
