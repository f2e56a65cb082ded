from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from control.conftest import TWO, Harness, MakeControl, settings_of
from fakes.launcher import Script
from fakes.serving import until
from gearshift.control import Control
from gearshift.domain.device import Device, MemoryReading
from gearshift.domain.errors import (
    DrainingError,
    Failure,
    LoadFailedError,
    NotResidentError,
    QueueFullError,
)
from gearshift.domain.leasing import Lease
from gearshift.domain.units import GIB
from gearshift.hardware import FakeMemory
from gearshift.scheduler import Phase

SLEEPER = """
defaults: {min_resident: 0s}
models:
  m:
    variants:
      a: {engine: vllm, weights: org/a, memory: 10GiB, sleep: {level: 1}}
      b: {engine: vllm, weights: org/b, memory: 10GiB}
"""

pytestmark = pytest.mark.anyio


async def leased(control: Control, variant: str) -> Lease:
    lease = await control.request(variant).wait(5)
    assert lease is not None
    return lease


def loading(it: Harness) -> bool:
    """Whether the first variant's engine is being waited for."""
    return bool(it.launcher.launched) and it.launcher.child("m:a").calls == ["ready"]


@dataclass
class LateFirst:
    """A driver whose first reading is answered only after ``until``."""

    memory: FakeMemory
    until: threading.Event
    late: list[int] = field(default_factory=list)  # bytes in use as the late reading found them
    asked: int = 0

    def devices(self) -> tuple[Device, ...]:
        return self.memory.devices()

    def read(self, devices: Collection[str], pids: Collection[int]) -> Mapping[str, MemoryReading]:
        self.asked += 1
        if self.asked > 1:
            return self.memory.read(devices, pids)
        self.until.wait(5)
        found = self.memory.read(devices, pids)
        self.late = [reading.used_bytes for reading in found.values()]
        return found


async def test_a_first_request_loads_the_variant_and_gets_its_endpoint(make: MakeControl) -> None:
    it = make()
    lease = await leased(it.control, "m:a")
    assert it.launcher.launched == ["m:a"]
    assert lease.upstream.endpoint.port == it.launcher.child("m:a").spec.endpoint.port
    assert lease.load_s > 0


async def test_a_request_on_a_ready_variant_has_its_lease_at_once(make: MakeControl) -> None:
    it = make()
    (await leased(it.control, "m:a")).release()
    ticket = it.control.request("m:a")
    lease = await ticket.wait(0)
    assert lease is not None
    assert lease.load_s == 0


async def test_a_swap_stops_the_old_variant_before_the_new_one_is_launched(make: MakeControl) -> None:
    it = make()
    gate = asyncio.Event()
    it.launcher.scripts["m:a"] = Script(stop_gate=gate)
    (await leased(it.control, "m:a")).release()
    ticket = it.control.request("m:b")
    assert await ticket.wait(0.05) is None
    assert it.launcher.launched == ["m:a"]
    gate.set()
    assert await ticket.wait(5) is not None
    assert it.launcher.launched == ["m:a", "m:b"]


async def test_a_swap_is_recorded_with_who_left_for_it(make: MakeControl) -> None:
    it = make()
    (await leased(it.control, "m:a")).release()
    (await leased(it.control, "m:b")).release()
    first, second = it.sink.swaps
    assert (first.variant, first.stopped) == ("m:a", ())
    assert (second.variant, second.stopped) == ("m:b", ("m:a",))
    assert second.total_s >= 0


async def test_a_failed_load_tells_every_waiter_the_cause_and_stops_what_is_left(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(failure=Failure("out of memory", "cudaMalloc failed", "lower the context"))
    tickets = [it.control.request("m:a"), it.control.request("m:a")]
    for ticket in tickets:
        with pytest.raises(LoadFailedError, match="out of memory") as caught:
            await ticket.wait(5)
        assert caught.value.hint == "lower the context"
    assert it.launcher.child("m:a").calls[-1].startswith("stop")
    assert it.control.statuses()[0].failure == Failure("out of memory", "cudaMalloc failed", "lower the context")


async def test_within_the_back_off_a_request_is_refused_with_the_known_cause(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(failure=Failure("bad file"))
    with pytest.raises(LoadFailedError):
        await it.control.request("m:a").wait(5)
    await it.control.unload("m:b")
    while it.control.phase("m:a") is Phase.STOPPING:
        await asyncio.sleep(0)
    with pytest.raises(LoadFailedError, match="bad file"):
        it.control.request("m:a")


async def test_an_insisting_request_overrides_the_back_off(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(failure=Failure("bad file"))
    with pytest.raises(LoadFailedError):
        await it.control.request("m:a").wait(5)
    it.launcher.scripts["m:a"] = Script()
    assert await it.control.request("m:a", insist=True).wait(5) is not None


async def test_an_engines_death_revokes_its_leases_with_the_cause(make: MakeControl) -> None:
    it = make()
    lease = await leased(it.control, "m:a")
    it.launcher.child("m:a").die("killed by signal 9")
    async with asyncio.timeout(5):
        assert "killed by signal 9" in await lease.revoked()


async def test_leaving_while_a_load_nobody_else_wants_is_under_way_lets_it_finish(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(manual=True)
    ticket = it.control.request("m:a")
    await until(lambda: loading(it))
    ticket.leave()
    it.launcher.child("m:a").release()
    async with asyncio.timeout(5):
        while it.control.phase("m:a") is not Phase.READY:
            await asyncio.sleep(0)


async def test_a_load_whose_last_waiter_left_is_cancelled_when_another_variant_wants_the_place(
    make: MakeControl,
) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(manual=True)
    first = it.control.request("m:a")
    await until(lambda: loading(it))
    first.leave()
    assert await it.control.request("m:b").wait(5) is not None
    assert it.launcher.child("m:a").calls == ["ready", "stop 15.0"]


async def test_a_stop_that_leaves_something_behind_is_told_to_whoever_wants_the_place(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(leaves="pid 4711 (VLLM::Worker) still holds 9000 MiB")
    (await leased(it.control, "m:a")).release()
    with pytest.raises(LoadFailedError, match="4711"):
        await it.control.request("m:b").wait(5)
    it.launcher.child("m:a").script.leaves = None


async def test_a_side_request_never_causes_a_load(make: MakeControl) -> None:
    it = make()
    with pytest.raises(NotResidentError):
        it.control.request("m:a", side=True)
    assert it.launcher.launched == []


async def test_a_full_queue_refuses_with_a_time_to_come_back(make: MakeControl) -> None:
    it = make("models: {m: {variants: {a: {engine: command, command: [x], memory: 1GiB, queue_limit: 1}}}}")
    it.launcher.scripts["m:a"] = Script(manual=True)
    it.control.request("m:a")
    with pytest.raises(QueueFullError) as caught:
        it.control.request("m:a")
    assert (caught.value.retry_after_s or 0) >= 1


async def test_peek_shows_only_what_is_ready(make: MakeControl) -> None:
    it = make()
    assert it.control.peek("m:a") is None
    (await leased(it.control, "m:a")).release()
    assert it.control.peek("m:a") is not None


async def test_a_keep_alive_line_says_place_and_stage(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(manual=True)
    ticket = it.control.request("m:a")
    await until(lambda: loading(it))
    second = it.control.request("m:a")
    assert ticket.progress == "queued; starting"
    assert second.progress == "queued, 1 ahead; starting"


async def test_closing_refuses_waiters_revokes_leases_and_stops_every_engine(make: MakeControl) -> None:
    it = make()
    lease = await leased(it.control, "m:a")
    waiting = it.control.request("m:b")
    await it.control.close(drain_s=0.0)
    with pytest.raises(DrainingError):
        await waiting.wait(1)
    assert "stopping" in await lease.revoked()
    assert it.launcher.child("m:a").calls[-1].startswith("stop")
    with pytest.raises(DrainingError):
        it.control.request("m:a")


async def test_unload_stops_and_reports_what_is_left(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(leaves="pid 12")
    (await leased(it.control, "m:a")).release()
    assert await it.control.unload("m:a") is Phase.FAILED
    it.launcher.child("m:a").script.leaves = None
    assert await it.control.unload("m:a") is Phase.STOPPED


async def test_a_configuration_with_a_changed_launch_restarts_it_once_its_streams_have_ended(make: MakeControl) -> None:
    it = make()
    lease = await leased(it.control, "m:a")
    changed = settings_of(TWO.replace("serve-a", "serve-a2"))
    it.control.configure(changed, it.preparation.world(changed))
    assert it.control.phase("m:a") is Phase.DRAINING
    ticket = it.control.request("m:a")
    lease.release()
    assert await ticket.wait(5) is not None
    assert [child.spec.argv[0] for child in it.launcher.children] == ["serve-a", "serve-a2"]


async def test_a_configuration_with_other_patience_leaves_the_engine_alone(make: MakeControl) -> None:
    it = make()
    await leased(it.control, "m:a")
    changed = settings_of(TWO.replace("max_wait: 60s", "max_wait: 5s"))
    it.control.configure(changed, it.preparation.world(changed))
    assert it.control.phase("m:a") is Phase.READY
    assert it.control.statuses()[0].in_flight == 1
    assert it.launcher.launched == ["m:a"]


async def test_a_sleeper_that_dies_is_no_sleeper_any_more_and_one_that_woke_is_watched_once(make: MakeControl) -> None:
    it = make(SLEEPER)
    async with it.control.journal.follow(None) as events, asyncio.timeout(5):
        for variant in ("m:a", "m:b", "m:a"):
            (await leased(it.control, variant)).release()
        it.launcher.child("m:a").die("boom")  # ready, after a sleep
        while it.control.phase("m:a") is not Phase.FAILED:
            await asyncio.sleep(0)
        again = await it.control.request("m:a", insist=True).wait()
        assert again is not None
        again.release()
        (await leased(it.control, "m:b")).release()
        assert it.control.phase("m:a") is Phase.SLEEPING
        it.launcher.child("m:a").die("boom")
        while it.control.phase("m:a") is Phase.SLEEPING:
            await asyncio.sleep(0)
        await it.control.close(drain_s=0)
        deaths = [str(event.data["variant"]) async for event in events if event.kind == "variant.died"]
    assert deaths == ["m:a", "m:a"]


async def test_a_sleeping_variant_is_woken_and_one_that_will_not_wake_is_started_cold(make: MakeControl) -> None:
    it = make(SLEEPER)
    for variant in ("m:a", "m:b", "m:a"):
        (await leased(it.control, variant)).release()
    assert it.launcher.launched == ["m:a", "m:b"]
    assert it.launcher.child("m:a").calls == ["ready", "sleep", "wake"]
    assert it.sink.swaps[1].stopped == ("m:a",)
    assert (it.sink.swaps[1].sleep_s or 0) > 0, "falling asleep is a phase of its own, not overhead"
    it.launcher.scripts["m:a"].wakes = False
    for variant in ("m:b", "m:a"):
        (await leased(it.control, variant)).release()
    assert it.launcher.launched == ["m:a", "m:b", "m:b", "m:a"]


async def test_a_swap_to_and_from_a_sleeper_is_recorded_with_sleep_and_wake_apart_from_stop_and_load(
    make: MakeControl,
) -> None:
    it = make(SLEEPER)
    gpu = it.memory.gpus[0].id
    (await leased(it.control, "m:a")).release()
    it.launcher.child("m:a").pids = (1,)  # a process that lives
    it.memory.held = {gpu: {1: 10 * GIB}}
    it.launcher.scripts["m:a"].asleep = lambda: it.memory.held.update({gpu: {1: 2 * GIB}})
    for variant in ("m:b", "m:a"):
        (await leased(it.control, variant)).release()
    first, fell_asleep, woken = it.sink.swaps
    assert (first.slept, first.sleep_s, first.wake_s, first.freed_bytes) == ((), None, None, None)
    assert (fell_asleep.stopped, fell_asleep.slept) == (("m:a",), ("m:a",))
    assert fell_asleep.freed_bytes == 8 * GIB
    assert fell_asleep.sleep_s is not None
    assert fell_asleep.sleep_s + fell_asleep.overhead_s <= fell_asleep.total_s
    assert (woken.cold, woken.slept, woken.load_s, woken.sleep_s) == (False, (), 0.0, None)
    assert woken.wake_s is not None
    async with it.control.journal.follow(0) as events, asyncio.timeout(5):
        await it.control.close(drain_s=0)
        told = [event.data async for event in events if event.kind == "swap.done"]
    assert [(one["slept"], one["freed_bytes"], one["wake_s"]) for one in told] == [
        ((), None, None), (("m:a",), 8 * GIB, None), ((), None, woken.wake_s)
    ]  # fmt: skip


async def test_memory_read_while_it_fell_asleep_is_not_what_it_holds_awake(make: MakeControl) -> None:
    it = make(SLEEPER)
    gpu, slept = it.memory.gpus[0].id, threading.Event()
    it.memory.held = {gpu: {1: 10 * GIB}}

    def fall_asleep() -> None:
        it.memory.held = {gpu: {1: 2 * GIB}}
        slept.set()

    it.lessons.memory = driver = LateFirst(it.memory, slept)
    it.launcher.scripts["m:a"] = Script(manual=True, asleep=fall_asleep)
    first = it.control.request("m:a")
    await until(lambda: loading(it))
    it.launcher.child("m:a").pids = (1,)  # a process that lives
    it.launcher.child("m:a").release()
    if lease := await first.wait(5):
        lease.release()
    (await leased(it.control, "m:b")).release()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "learn from m:a"))
    assert driver.late == [2 * GIB]
    assert it.lessons.claimed("m:a") is None


async def test_an_engine_that_is_not_installed_is_told_to_the_client_with_the_way_to_get_it(make: MakeControl) -> None:
    it = make("models: {m: {variants: {a: {engine: llama.cpp, weights: org/x}}}}")
    with pytest.raises(LoadFailedError, match="not installed") as caught:
        await it.control.request("m:a").wait(5)
    assert caught.value.hint == "gearshift engine install llama.cpp"
    assert it.launcher.launched == []


async def test_a_status_asks_no_engine_for_its_version(make: MakeControl) -> None:
    """One that is broken takes seconds to say nothing, and the statuses are asked for on the data path's loop."""
    it = make("models: {m: {variants: {a: {engine: llama.cpp, weights: org/x}, b: {engine: vllm, weights: org/x}}}}")
    before = len(it.asked)
    assert [row.engine_version for row in it.control.statuses()] == [None, "0.32.0"]
    assert len(it.asked) == before


async def test_a_gpu_that_is_not_here_is_told_with_what_is(make: MakeControl) -> None:
    it = make("models: {m: {variants: {a: {engine: command, command: [x], gpus: [7], memory: 1GiB}}}}")
    with pytest.raises(LoadFailedError, match="GPU 7"):
        await it.control.request("m:a").wait(5)


async def test_an_unload_ends_even_when_a_request_starts_the_variant_again_at_once(make: MakeControl) -> None:
    it = make()
    gate = asyncio.Event()
    it.launcher.scripts["m:a"] = Script(stop_gate=gate)
    (await leased(it.control, "m:a")).release()
    unloading = asyncio.create_task(it.control.unload("m:a"))
    while it.control.phase("m:a") is not Phase.STOPPING:
        await asyncio.sleep(0)
    again = it.control.request("m:a")
    gate.set()
    async with asyncio.timeout(5):
        await unloading
        assert await again.wait() is not None


async def test_what_another_launch_held_is_forgotten(make: MakeControl) -> None:
    it = make()
    (await leased(it.control, "m:a")).release()
    it.lessons._measured["m:a"] = {"GPU-fake-0": 1}
    changed = settings_of(TWO.replace("serve-a", "serve-a2"))
    it.control.configure(changed, it.preparation.world(changed))
    (await leased(it.control, "m:a")).release()
    assert it.lessons.measured("m:a") is None


async def test_a_waiter_is_told_what_keeps_the_other_variant_in_its_place(make: MakeControl) -> None:
    it = make(TWO.replace("min_resident: 0s", "min_resident: 30s"))
    lease = await leased(it.control, "m:a")
    ticket = it.control.request("m:b")
    assert ticket.progress.startswith("queued; m:a was just loaded and stays ")
    lease.release()


async def test_a_waiter_is_told_how_many_requests_are_in_the_way(make: MakeControl) -> None:
    it = make()
    lease = await leased(it.control, "m:a")
    assert it.control.request("m:b").progress == "queued; m:a is answering 1 request"
    lease.release()


async def test_a_refusal_says_when_to_come_back(make: MakeControl) -> None:
    it = make()
    it.launcher.scripts["m:a"] = Script(failure=Failure("bad file"))
    with pytest.raises(LoadFailedError) as caught:
        await it.control.request("m:a").wait(5)
    assert caught.value.retry_after_s is not None
    assert 0 < caught.value.retry_after_s <= 2
