"""Swaps through a fake Gearshift: the client's view and the server's phases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.client import Client, TargetError
from gearshift.bench.experiments import swap
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

    def __init__(self, phases: SwapRecord | None) -> None:
        self.loaded: list[str] = []
        self.unloaded: list[str] = []
        self.phases = phases

    async def load(self, variant: str) -> None:
        self.loaded.append(variant)

    async def unload(self, variant: str) -> None:
        self.unloaded.append(variant)

    async def swap_since(self, variant: str, at: float) -> SwapRecord | None:
        return None if self.phases is None else replace(self.phases, variant=variant, at=at)


@pytest.mark.anyio
async def test_a_swap_is_timed_to_its_first_token_and_taken_apart() -> None:
    swapper = RecordedSwapper(RECORD)
    async with serve(Script(ttft_s=0.03)) as server, Client(server.url) as client:
        cell = await swap.measure(client, swapper, "m:a", "m:b", trials=2)
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
        cell = await swap.measure(client, RecordedSwapper(None), "m:a", "m:b", trials=1)
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


@pytest.mark.anyio
async def test_a_swap_is_kept_with_its_raw_times_and_says_that_it_was_a_waking() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        swapper = RecordedSwapper(replace(RECORD, cold=False))
        cell = await swap.measure(client, swapper, "m:a", "m:b", trials=1)
    record = swap.to_record(cell)
    assert record.setting == "m:a > m:b"
    assert record.figures["cold"] == [False]  # woken from sleep
    assert record.figures["first_token_times_s"] == [cell.trials[0].first_token_s]


@pytest.mark.anyio
async def test_variants_that_fit_beside_each_other_are_said_not_to_swap() -> None:
    async with serve(Script(ttft_s=0.005)) as server, Client(server.url) as client:
        cell = await swap.measure(client, RecordedSwapper(replace(RECORD, stopped=())), "m:a", "m:b", trials=2)
    assert cell.flags == ("nothing_stopped",)
