"""A ready engine that dies, hangs or sleeps."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import aiohttp
import pytest

from fakes.living import alive
from gearshift.domain.errors import Failure, GearshiftError, LoadFailedError
from gearshift.domain.launch import HttpCall, LaunchSpec, SleepRule
from gearshift.domain.paths import Paths
from gearshift.hardware import FakeMemory
from gearshift.supervisor import LocalLauncher
from gearshift.supervisor.keeper import parents
from supervisor.conftest import SpecOf

pytestmark = pytest.mark.anyio

IS_SLEEPING = HttpCall("GET", "/is_sleeping", refusal=b'"is_sleeping":false')
LIVELY = {"probe_every_s": 0.1, "probe_timeout_s": 0.3}
SLEEP = SleepRule(
    sleep=(HttpCall("POST", "/sleep?level=1"),),
    wake=(HttpCall("POST", "/wake_up"),),
    is_sleeping=IS_SLEEPING,
    wake_timeout_s=0.5,
)


async def end_of(child: Any) -> Failure:
    async with asyncio.timeout(10):
        failure: Failure = await child.ended()
        return failure


async def test_a_killed_engine_is_told_and_takes_its_tree_along(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(
        spec_of(fork_grandchild=True, grandchild_setsid=True, grandchild_ignores_sigterm=True, grace_s=0.1)
    )
    await child.ready()
    pids = child.pids
    os.kill(pids[0], signal.SIGKILL)
    assert "was killed by SIGKILL" in (await end_of(child)).cause
    await child.stop()
    assert len(pids) == 2
    assert alive(pids) == []


async def test_the_known_processes_are_those_of_the_tree(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(fork_grandchild=True))
    await child.ready()
    known = child.known_pids
    assert len(known) == 2, "a ready engine's row names what it forked while it loaded"
    assert known == child.pids
    await child.stop()
    assert child.known_pids == ()


async def test_a_killed_keeper_takes_its_tree_along(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(
        spec_of(fork_grandchild=True, grandchild_setsid=True, grandchild_ignores_sigterm=True)
    )
    await child.ready()
    pids = child.pids
    keeper = parents()[pids[0]]
    os.kill(keeper, signal.SIGKILL)
    assert "ended in an unknown way" in (await end_of(child)).cause
    report = await child.stop()
    assert alive([keeper, *pids]) == []
    assert report.killed


async def test_a_keeper_leaves_with_its_tree_and_not_before(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    """A service manager signals the whole group of a server it stops: the keepers must outlast that."""
    child = await launcher.launch(spec_of(ignore_sigterm=True, grace_s=0.1))
    await child.ready()
    keeper = parents()[child.pids[0]]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(keeper, number)
    assert child.pids
    await child.stop()
    assert alive([keeper]) == []


async def test_an_engine_that_hangs_after_ready_is_found(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(hang_after=1, timing=LIVELY))
    await child.ready()
    assert "stopped answering: /health gave no answer within 0.3 s" in (await end_of(child)).cause


async def test_an_engine_that_is_dead_behind_its_health_answer_is_found(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    child = await launcher.launch(spec_of(hang_after=1, dead_health="hang", timing=LIVELY))
    await child.ready()
    assert "stopped answering: /v1/chat/completions gave no answer" in (await end_of(child)).cause


async def test_one_that_answers_errors_behind_its_health_answer_is_found(
    launcher: LocalLauncher, spec_of: SpecOf
) -> None:
    child = await launcher.launch(spec_of(hang_after=1, dead_health="500", timing=LIVELY))
    await child.ready()
    assert "/v1/chat/completions answered 500" in (await end_of(child)).cause


@pytest.mark.parametrize("known", [1, None])
async def test_an_engine_that_computes_for_a_request_is_not_asked_for_a_token(
    paths: Paths, memory: FakeMemory, spec_of: SpecOf, known: int | None
) -> None:
    """Behind a long answer the probe would queue, time out, and a healthy engine would be restarted."""
    async with LocalLauncher(paths, memory, in_flight=lambda _: known) as launcher:
        timing = {"probe_every_s": 0.3, "probe_timeout_s": 0.3}
        child = await launcher.launch(spec_of(hang_after=1, dead_health="500", busy=True, timing=timing))
        await child.ready()
        ended = asyncio.ensure_future(child.ended())
        await _health_checks(child.spec, 4)
        assert not ended.done()
        ended.cancel()


async def _health_checks(spec: LaunchSpec, count: int) -> None:
    """Until the engine was asked for its health so many times."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(10):
        while True:
            async with session.get(f"{spec.endpoint.base_url}/__seen") as answer:
                if (await answer.json())["health_checks"] >= count:
                    return
            await asyncio.sleep(0.02)


async def test_requests_in_flight_do_not_hide_a_hung_engine(paths: Paths, memory: FakeMemory, spec_of: SpecOf) -> None:
    async with LocalLauncher(paths, memory, in_flight=lambda _: 1) as launcher:
        child = await launcher.launch(
            spec_of(hang_after=1, dead_health="hang", timing={"probe_every_s": 0.5, "probe_timeout_s": 0.3})
        )
        await child.ready()
        assert "/v1/chat/completions gave no answer" in (await end_of(child)).cause


async def test_a_sleeper_wakes_with_a_token(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(sleep=SLEEP, timing=LIVELY))
    await child.ready()
    ended = asyncio.ensure_future(child.ended())
    await child.sleep()
    await child.wake()
    assert not ended.done()
    ended.cancel()


async def test_a_sleeper_that_does_not_wake_is_no_engine_any_more(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(sleep=SLEEP, sleep_broken=True))
    await child.ready()
    await child.sleep()
    with pytest.raises(LoadFailedError, match=r"did not wake: /wake_up answered 500.*zero_"):
        await child.wake()


async def test_a_wake_without_a_token_in_time_is_no_wake(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of(sleep=SLEEP, hang_after=1, dead_health="hang"))
    await child.ready()
    await child.sleep()
    with pytest.raises(LoadFailedError, match=r"did not wake: (no token|\S+ gave no answer) within 0\.5 s"):
        await child.wake()


async def test_an_engine_that_only_says_it_sleeps_is_not_believed(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    rule = SleepRule((HttpCall("GET", "/version"),), (), IS_SLEEPING, 1.0)
    child = await launcher.launch(spec_of(sleep=rule))
    await child.ready()
    with pytest.raises(GearshiftError, match="did not go to sleep: /is_sleeping answered"):
        await child.sleep()


async def test_a_variant_without_a_sleep_mode_says_so(launcher: LocalLauncher, spec_of: SpecOf) -> None:
    child = await launcher.launch(spec_of())
    await child.ready()
    with pytest.raises(GearshiftError, match="has no sleep mode"):
        await child.sleep()
