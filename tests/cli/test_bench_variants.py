"""`bench` on the running Gearshift: leases, switches between variants, swaps, and what it says of them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fakes.admin import FakeAdmin, stopped
from fakes.serving import serving_in_thread
from fakes.truth import truth_server
from gearshift.cli.bench.admin import pick
from gearshift.cli.bench.speculation import speculating
from gearshift.domain.admin import OperatorLease, ServerEvent
from gearshift.domain.errors import GearshiftError
from gearshift.domain.settings import Settings
from gearshift.domain.variant import EngineRef, Speculation, Variant
from gearshift.web import create_admin

Gearshift = Callable[..., Result]
SMALL = ("--depths", "64", "--output", "8", "--repeats", "1")


class MeasuredAdmin(FakeAdmin):
    """A control whose variants are truth servers; remembers leases, and tells of a swap with every load."""

    def __init__(self, endpoints: dict[str, str]) -> None:
        super().__init__([stopped(variant) for variant in endpoints], listen=next(iter(endpoints.values())))
        self.endpoints = endpoints
        self.taken: list[tuple[str, bool]] = []
        self.ended: list[str] = []
        self.clock_off_s = 60.0  # the server's clock against the client's
        self._unloaded: str | None = None

    async def take_lease(self, variant: str, *, exclusive: bool, ttl_s: float) -> OperatorLease:
        lease = await super().take_lease(variant, exclusive=exclusive, ttl_s=ttl_s)
        self.taken.append((variant, exclusive))
        return replace(lease, endpoint=self.endpoints[variant])

    def end_lease(self, lease_id: str) -> None:
        self.ended.append(self._lease(lease_id).variant)
        super().end_lease(lease_id)

    def given_back(self) -> bool:
        """Whether no lease is left, waiting up to 5 s: the server notices a client's end a little later."""
        deadline = time.monotonic() + 5
        while self.leases() and time.monotonic() < deadline:
            time.sleep(0.005)
        return not self.leases()

    async def unload(self, variant: str) -> None:
        """The next request makes it resident again."""
        await super().unload(variant)
        self._unloaded = variant

    @asynccontextmanager
    async def events(self, *, after: int | None = None) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        """Whoever follows causes a swap next: its request goes to a truth server, which knows of no swap."""
        async with super().events(after=after) as events:
            if self._unloaded is not None:
                self.swapped(self._unloaded)
                self._unloaded = None
            yield events

    def swapped(self, variant: str, *, load_s: float = 0.5) -> None:
        seconds = {"drain_s": 0.0, "stop_s": 0.1, "memory_s": 0.0, "load_s": load_s, "probe_s": 0.1, "overhead_s": 0.0}
        data = {"variant": variant, "stopped": ["m:a", "m:b"], **seconds, "total_s": load_s + 0.2, "cold": True}
        self.past.append(ServerEvent(len(self.past) + 1, time.time() + self.clock_off_s, "swap.done", data))


@pytest.fixture(scope="module")
def endpoints() -> Iterator[dict[str, str]]:
    with truth_server(ttft_s=0.01, step_s=0.002) as fast, truth_server(ttft_s=0.01, step_s=0.004) as slow:
        yield {"m:a": fast, "m:b": slow}


@pytest.fixture
def admin(gearshift_home: Path, endpoints: dict[str, str]) -> Iterator[MeasuredAdmin]:
    fake = MeasuredAdmin(endpoints)
    with serving_in_thread(create_admin(fake, Settings, remote=False), gearshift_home / "admin.sock"):
        yield fake


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_variant_is_held_exclusively_while_it_is_measured_and_given_back(
    gearshift: Gearshift, admin: MeasuredAdmin
) -> None:
    done = gearshift("bench", "ladder", "--model", "m:a", *SMALL, "--json")
    found = document(done)
    assert admin.taken == [("m:a", True)]
    assert admin.given_back()
    assert "m:a is held exclusively while it is measured; others wait" in done.stderr
    assert found["target"]["url"] == admin.endpoints["m:a"]
    assert found["target"]["provenance"]["variant"] == "m:a"
    assert found["target"]["provenance"]["through"] == "the engine, alone"


def test_beside_traffic_the_lease_is_shared_and_requests_go_through_the_gateway(
    gearshift: Gearshift, admin: MeasuredAdmin
) -> None:
    done = gearshift("bench", "ladder", "--model", "m:a", "--beside-traffic", *SMALL, "--json")
    target = document(done)["target"]
    assert target["url"] == admin.listen
    assert target["provenance"]["through"] == "the gateway, beside other traffic"
    assert admin.taken == [("m:a", False)]
    assert "beside other traffic" in done.stderr


@pytest.mark.parametrize("verb", [("ladder", "--model", "m:a", "--beside-traffic", *SMALL), ("swap", "m:a", "m:b")])
def test_a_server_that_listens_on_every_address_is_measured_by_loopback(
    gearshift: Gearshift, admin: MeasuredAdmin, verb: tuple[str, ...]
) -> None:
    admin.listen, served = admin.listen.replace("127.0.0.1", "0.0.0.0"), admin.listen
    found = document(gearshift("bench", *verb, "--repeats", "1", "--json"))
    assert found["target"]["url"] == served


def test_ab_switches_between_variants_and_names_both_targets(gearshift: Gearshift, admin: MeasuredAdmin) -> None:
    found = document(
        gearshift("bench", "ab", "m:a", "m:b", "--input", "32", "--output", "8", "--requests", "1", "--repeats", "2",
                  "--json")
    )  # fmt: skip
    assert [cell["setting"] for cell in found["cells"]] == ["m:a", "m:b"]
    assert {name: target["url"] for name, target in found["findings"]["targets"].items()} == admin.endpoints
    # Warm-ups, then A B and B A: whoever ran last begins the next pair without another switch. On a busy box one pair
    # may have been run again.
    again = ["m:b", "m:a"] if any("trials_run_again" in cell["flags"] for cell in found["cells"]) else []
    assert [variant for variant, _ in admin.taken] == ["m:a", "m:b", "m:a", "m:b", "m:a", *again]
    assert admin.given_back()
    fast, slow = (cell["tpot_s"]["median"] for cell in found["cells"])
    assert slow > fast


def test_swaps_have_every_pair_with_its_phases(gearshift: Gearshift, admin: MeasuredAdmin) -> None:
    found = document(gearshift("bench", "swap", "m:a", "m:b", "--repeats", "1", "--json"))
    assert [cell["setting"] for cell in found["cells"]] == ["m:a > m:b", "m:b > m:a"]
    assert found["cells"][0]["load_s"]["median"] == 0.5
    assert found["findings"]["targets"].keys() == {"m:a", "m:b"}
    assert found["cells"][0]["first_token_s"]["median"] > 0
    assert found["interrupted"] is False
    (row,) = json.loads(gearshift("results", "list", "--json").stdout)
    assert (row["experiment"], row["cells"], row["state"]) == ("swap", 2, "done")
    assert admin.taken == []


@pytest.mark.parametrize("clock_off_s", [-3600.0, 3600.0], ids=["behind", "ahead"])
def test_a_swap_has_its_own_phases_whatever_the_servers_clock_says(
    gearshift: Gearshift, admin: MeasuredAdmin, clock_off_s: float
) -> None:
    admin.clock_off_s = clock_off_s
    for variant in ("m:a", "m:b"):
        admin.swapped(variant, load_s=99.0)
    found = document(gearshift("bench", "swap", "m:a", "m:b", "--repeats", "1", "--json"))
    assert [cell["load_s"]["median"] for cell in found["cells"]] == [0.5, 0.5]


SWAPS = ("bench", "swap", "m:a", "m:b", "--repeats", "1", "--json")


def swap_events(admin: MeasuredAdmin) -> int:
    return sum(event.kind == "swap.done" for event in admin.past)


def test_swaps_that_are_stored_are_taken_until_a_variant_is_another(gearshift: Gearshift, admin: MeasuredAdmin) -> None:
    measured = document(gearshift(*SWAPS))
    assert swap_events(admin) == 2
    resumed = document(gearshift(*SWAPS, "--resume"))
    assert swap_events(admin) == 2
    assert resumed == measured
    admin.rows["m:b"] = replace(admin.rows["m:b"], engine_version="another build")
    anew = document(gearshift(*SWAPS, "--resume"))
    assert swap_events(admin) == 4
    assert anew["findings"]["targets"]["m:b"]["engine_version"] == "another build"
    assert len(document(gearshift(*SWAPS))["cells"]) == 2
    assert swap_events(admin) == 6


def test_only_the_pairs_that_are_missing_are_swapped(gearshift: Gearshift, admin: MeasuredAdmin) -> None:
    part = gearshift(*SWAPS, "--budget", "1ms")
    assert [cell["setting"] for cell in document(part)["cells"]] == ["m:a > m:b"]
    assert "left out, too long for the budget: m:b > m:a" in part.stderr
    whole = document(gearshift(*SWAPS, "--resume"))
    assert [cell["setting"] for cell in whole["cells"]] == ["m:a > m:b", "m:b > m:a"]
    assert whole["cells"][0] == document(part)["cells"][0]
    assert swap_events(admin) == 2


def test_a_campaign_takes_stored_swaps_and_gives_new_ones_their_share_of_its_budget(
    gearshift: Gearshift, admin: MeasuredAdmin, tmp_path: Path
) -> None:
    file = tmp_path / "campaign.yaml"
    entry = {"kind": "swap", "variants": ["m:a", "m:b"], "trials": 1}
    file.write_text(json.dumps({"budget": "1h", "experiments": [entry]}))
    asked = ("bench", "campaign", str(file), "--json")
    short = gearshift(*asked, "--budget", "1ms")
    assert [cell["setting"] for cell in document(short)[0]["cells"]] == ["m:a > m:b"]
    assert "left out, too long for the budget: m:b > m:a" in short.stderr
    for _ in range(2):
        (found,) = document(gearshift(*asked))
        assert [cell["setting"] for cell in found["cells"]] == ["m:a > m:b", "m:b > m:a"]
        assert swap_events(admin) == 2


def test_swaps_wait_for_others_requests_and_then_refuse_to_measure_beside_them(
    gearshift: Gearshift, admin: MeasuredAdmin
) -> None:
    admin.rows["m:a"] = replace(admin.rows["m:a"], in_flight=1)
    refused = gearshift("bench", "swap", "m:a", "m:b", "--repeats", "1", "--json")
    assert refused.exit_code == 1
    assert "others' requests are served by m:a" in refused.stderr
    (kept,) = json.loads(gearshift("results", "list", "--json").stdout)
    assert kept["state"] == "failed"  # nobody interrupted it
    assert admin.past == []
    beside = document(gearshift("bench", "swap", "m:a", "m:b", "--repeats", "1", "--beside-traffic", "--json"))
    assert len(beside["cells"]) == 2


def test_one_variant_cannot_be_swapped_with_itself(gearshift: Gearshift, admin: MeasuredAdmin) -> None:
    done = gearshift("bench", "swap", "m:a")
    assert admin.taken == []
    assert done.exit_code == 1
    assert "two variants" in done.stderr


def test_a_load_that_fails_is_told_in_the_servers_words(gearshift: Gearshift, admin: MeasuredAdmin) -> None:
    admin.load_error = GearshiftError("there is no room")
    done = gearshift("bench", "ladder", "--model", "m:a", *SMALL)
    assert done.exit_code == 1
    assert "there is no room" in done.stderr


def rows(**states: str) -> list[dict[str, str]]:
    return [{"variant": variant.replace("_", ":"), "state": state} for variant, state in states.items()]


def test_a_name_means_an_id_a_models_only_variant_or_its_only_ready_one() -> None:
    both = rows(m_a="stopped", m_b="ready", n_x="stopped")
    assert pick(both, "m:a") == "m:a"
    assert pick(both, "n") == "n:x"
    assert pick(both, "m") == "m:b"
    assert pick(rows(m_a="stopped"), None) == "m:a"


@pytest.mark.parametrize("name", [None, "m", "x"])
def test_a_name_that_means_several_or_none_is_refused_with_all_there_are(name: str | None) -> None:
    with pytest.raises(GearshiftError) as caught:
        pick(rows(m_a="stopped", m_b="stopped"), name)
    assert caught.value.hint == "name one: m:a, m:b"


def variant(name: str, tokens: int | None = None, *, method: str = "mtp", weights: str = "w") -> Variant:
    speculation = None if tokens is None and method == "mtp" else Speculation(method, tokens)
    return Variant("m", name, EngineRef("llama.cpp"), weights=weights, speculation=speculation)


def test_settings_are_found_by_the_tokens_that_variants_draft() -> None:
    variants = {
        one.id: one
        for one in (
            variant("other", weights="v"),
            variant("plain"),
            variant("two", 2),
            variant("n", method="ngram"),
        )
    }
    assert speculating(variants, "m") == {"off": "m:other", "2": "m:two", "ngram": "m:n"}
    assert speculating(variants, "m:plain")["off"] == "m:plain"
    assert speculating(variants, "another") == {}


def test_a_cell_measured_beside_traffic_is_not_taken_for_one_measured_alone(
    gearshift: Gearshift, admin: MeasuredAdmin
) -> None:
    """The address is no part of a variant's identity, because its port changes; the way to it is."""
    steady = ("bench", "ladder", "--model", "m:b", "--depths", "64", "--output", "96", "--repeats", "1", "--resume")
    alone = document(gearshift(*steady, "--json"))
    beside = document(gearshift(*steady, "--beside-traffic", "--json"))
    assert beside["cells"][0]["ttft_s"] != alone["cells"][0]["ttft_s"]
    assert [exclusive for _, exclusive in admin.taken] == [True, False]
