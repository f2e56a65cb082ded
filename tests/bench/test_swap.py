"""Swaps through a fake Gearshift: the client's view and the server's phases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.client import Client, TargetError
from gearshift.bench.experiments import swap
from gearshift.bench.target import Target
from gearshift.bench.truth import Script, serve
from gearshift.domain.records import SwapRecord

RECORD = SwapRecord(
    at=1.0,
    variant="m:b",
    stopped=("m:a",),
    drain_s=0.1,
    stop_s=0.5,
    memory_s=0.2,
    load_s=3.0,
    probe_s=0.1,
    overhead_s=0.01,
    total_s=3.91,
    cold=True,
)


class RecordedSwapper:
    """Remembers what was loaded and gives the same phases for every swap."""

    def __init__(self, phases: SwapRecord | None, *, asleep: SwapRecord | None = None) -> None:
        self.loaded: list[str] = []
        self.unloaded: list[str] = []
        self.phases = phases
        self.waking = asleep  # of a goal that fell asleep when another was loaded
        self._stopped: set[str] = set()

    async def load(self, variant: str) -> None:
        self.loaded.append(variant)

    async def unload(self, variant: str) -> None:
        self.unloaded.append(variant)
        self._stopped.add(variant)

    async def asleep(self, variant: str) -> bool:
        return self.waking is not None and variant not in self._stopped

    @asynccontextmanager
    async def swap_of(self, variant: str) -> AsyncIterator[Callable[[], Awaitable[SwapRecord | None]]]:
        async def record() -> SwapRecord | None:
            phases = self.phases if self.waking is None or variant in self._stopped else self.waking
            self._stopped.discard(variant)
            return None if phases is None else replace(phases, variant=variant)

        yield record


@pytest.mark.anyio
async def test_a_swap_is_timed_to_its_first_token_and_taken_apart() -> None:
    swapper = RecordedSwapper(RECORD)
    async with serve(Script(ttft_s=0.03)) as server, Client(server.url) as client:
        (cell,) = await swap.measure(client, swapper, "m:a", "m:b", trials=2)
    assert swapper.loaded == ["m:a", "m:a"]
    assert swapper.unloaded == ["m:b", "m:b"]
    assert cell.flags == ()
    document = cell.to_json()
    assert document["setting"] == "m:a > m:b"
    assert document["load_s"] == {"median": 3.0, "low": 3.0, "high": 3.0}
    assert cell.first_token_s is not None
    assert cell.first_token_s.median >= 0.03
    assert swap.conclude([cell]).advice[0].endswith("3 s of it load")


@pytest.mark.anyio
async def test_a_server_that_keeps_no_record_still_gives_the_clients_time() -> None:
    async with serve(Script(ttft_s=0.01)) as server, Client(server.url) as client:
        (cell,) = await swap.measure(client, RecordedSwapper(None), "m:a", "m:b", trials=1)
    assert cell.phase("load_s") is None
    assert cell.to_json()["flags"] == ["single_run"]


@pytest.mark.anyio
async def test_a_swap_that_fails_is_an_error_with_both_names() -> None:
    async with serve(Script(context=1)) as server, Client(server.url) as client:
        with pytest.raises(TargetError, match="from m:a to m:b failed"):
            await swap.measure(client, RecordedSwapper(RECORD), "m:a", "m:b", trials=1)


@given(st.lists(st.text("abcdef", min_size=1), unique=True, min_size=2, max_size=5))
def test_every_ordered_pair_comes_once(variants: list[str]) -> None:
    found = swap.pairs(variants)
    assert len(found) == len(set(found)) == len(variants) * (len(variants) - 1)


def test_pairs_follow_each_other_where_they_can() -> None:
    assert swap.pairs(["a", "b"]) == (("a", "b"), ("b", "a"))
    with pytest.raises(ValueError, match="two variants"):
        swap.pairs(["a"])


ASLEEP = replace(RECORD, slept=("m:a",), stop_s=0.0, memory_s=0.0, sleep_s=0.4, freed_bytes=2**30)
WAKING = replace(ASLEEP, load_s=0.0, probe_s=0.0, wake_s=0.3, cold=False)


@pytest.mark.anyio
@pytest.mark.parametrize("trials", [1, 3])
async def test_a_goal_that_sleeps_is_also_woken_and_both_have_a_row(trials: int) -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        swapper = RecordedSwapper(ASLEEP, asleep=WAKING)
        cold, woken = await swap.measure(client, swapper, "m:a", "m:b", trials=trials)
    assert [cold.setting, woken.setting] == ["m:a > m:b", "m:a > m:b, woken"]
    assert [len(cold.trials), len(woken.trials)] == [trials, trials]
    assert swapper.loaded == ["m:a"] * (2 * trials)
    row: Any = woken.to_json()
    assert row["woken"] is True
    assert row["cold"] == [False] * trials
    figures = {name: found["median"] for name in swap.PHASES if (found := row[name])}
    assert (figures["sleep_s"], figures["wake_s"], figures["load_s"]) == (0.4, 0.3, 0.0)
    assert row["freed_bytes"]["median"] == 2**30
    assert cold.to_json()["wake_s"] is None
    outcome = swap.conclude([cold, woken])
    assert outcome.findings is not None
    slept: Any = outcome.findings["sleep"]
    assert slept["m:a"]["sleep_s"]["median"] == 0.4
    assert slept["m:a"]["wake_s"] is None
    assert slept["m:b"]["wake_s"]["median"] == 0.3
    assert outcome.advice[1].startswith("m:b woken for m:a: ")


@pytest.mark.anyio
async def test_what_did_not_sleep_is_said_not_to_be_measured() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        swapper = RecordedSwapper(RECORD)
        (cell,) = await swap.measure(client, swapper, "m:a", "m:b", trials=1)
        assert swapper.loaded == ["m:a"] * 2  # once more, to see whether the goal falls asleep
        await swap.measure(client, swapper, "m:a", "m:b", trials=1, sleeper=False)
        assert swapper.loaded == ["m:a"] * 3
    outcome = swap.conclude([cell])
    assert outcome.findings == {"sleep": {"m:a": None, "m:b": None}}
    assert outcome.advice[-1].startswith("sleep and wake not measured: m:a stopped instead")


@pytest.mark.anyio
async def test_a_waking_that_ended_in_a_cold_start_says_so() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        swapper = RecordedSwapper(ASLEEP, asleep=replace(WAKING, cold=True, load_s=3.0, wake_s=None))
        _, woken = await swap.measure(client, swapper, "m:a", "m:b", trials=2)
    assert woken.flags == ("woke_cold",)


@pytest.mark.anyio
async def test_a_swap_is_kept_with_its_raw_times_and_says_that_it_was_a_waking() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        swapper = RecordedSwapper(ASLEEP, asleep=WAKING)
        _, cell = await swap.measure(client, swapper, "m:a", "m:b", trials=1)
    record = swap.to_record(cell, "address")
    assert record.key == "address"
    assert swap.from_record(record) == cell
    assert record.setting == "m:a > m:b, woken"
    assert record.figures["cold"] == [False]  # woken from sleep
    assert record.figures["first_token_times_s"] == [cell.trials[0].first_token_s]


def test_a_record_of_another_version_is_read_as_far_as_it_is_known() -> None:
    told = {**asdict(RECORD), "later": 1, "stopped": ["m:a"]}
    for name in ("slept", "sleep_s", "wake_s", "freed_bytes"):
        del told[name]
    assert swap.record_of(told) == RECORD


@pytest.mark.anyio
async def test_variants_that_fit_beside_each_other_are_said_not_to_swap() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        (cell,) = await swap.measure(client, RecordedSwapper(replace(RECORD, stopped=())), "m:a", "m:b", trials=2)
    assert cell.flags == ("nothing_stopped",)
    (advice,) = swap.conclude([cell]).advice
    assert advice.startswith("the slowest load is m:b beside m:a: ")


@pytest.mark.anyio
async def test_a_pair_without_the_servers_phases_is_read_back_as_it_was() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        (cell,) = await swap.measure(client, RecordedSwapper(None), "m:a", "m:b", trials=2)
    assert swap.from_record(swap.to_record(cell, "address")) == cell


def variant(name: str, build: str = "b1", **provenance: object) -> Target:
    known = {"variant": name, "argv": ["server", "--port", "PORT"], "weights": [{"sha256": "w"}], **provenance}
    return Target("http://127.0.0.1:1", name, "llama.cpp", build, 4096, provenance=known)


def address(origin: Target, goal: Target, *, trials: int = 3, beside: bool = False) -> str:
    return swap.key(origin, goal, trials=trials, way={"beside_traffic": beside})


def test_a_pair_has_its_own_address_and_keeps_it_on_another_port() -> None:
    a, b = variant("m:a"), variant("m:b")
    assert address(a, b) == address(replace(a, url="http://127.0.0.1:2", pid=7), b)
    assert address(a, b) != address(b, a)


@pytest.mark.parametrize(
    "changed",
    [
        address(variant("m:a", "b2"), variant("m:b")),
        address(variant("m:a"), variant("m:b", "b2")),
        address(variant("m:a", argv=["server", "-fa"]), variant("m:b")),
        address(variant("m:a"), variant("m:b", weights=[{"sha256": "v"}])),
        address(variant("m:a"), variant("m:b"), trials=2),
        address(variant("m:a"), variant("m:b"), beside=True),
    ],
    ids=["origin's build", "goal's build", "origin's argv", "goal's weights", "trials", "way"],
)
def test_a_pair_is_another_one_when_either_side_or_the_way_is(changed: str) -> None:
    assert changed != address(variant("m:a"), variant("m:b"))


def test_a_pair_fits_when_one_as_long_as_the_longest_would_end_in_time() -> None:
    assert swap.fits(None, 1e9, [1e9])
    assert swap.fits(1.0, 5.0, [])
    assert swap.fits(30.0, 20.0, [4.0, 10.0])
    assert not swap.fits(30.0, 21.0, [10.0, 4.0])
