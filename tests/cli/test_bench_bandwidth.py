"""`bench bandwidth`: what it measures, what it leaves alone, and that `plan` and `bench` then have a ceiling."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from advice.plan_models import DENSE, write_config
from artifacts import tiny_gguf
from fakes.cuda import build_libcuda, cuda_env
from gearshift.advice.bandwidths import Bandwidths, host_device
from gearshift.planner.gpus import MeasuredBandwidth

Gearshift = Callable[..., Result]
CARD = "GPU-fake-0"
SEEN = MeasuredBandwidth(20e9, "2 threads reading", 1_790_000_000.0)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_libcuda(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def weights(tmp_path: Path) -> str:
    return str(tiny_gguf.dense().write(tmp_path / "model.gguf"))


@pytest.fixture
def measured_host(gearshift_home: Path) -> None:
    """A box whose memory was measured before."""
    Bandwidths(gearshift_home / "bandwidths.json").keep(host_device(), SEEN)


def card_of(result: Result) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return next(one for one in found if one["device"] == CARD)


def ceiling(gearshift: Gearshift, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    result = gearshift("plan", "--engine", "llama.cpp", "--context", "256", "--json", *arguments, env=env)
    found: dict[str, Any] = json.loads(result.stdout)["ceiling"]
    return found


def test_a_card_that_nobody_knows_is_measured_once_and_has_a_ceiling_from_then_on(
    gearshift: Gearshift, driver: Path, weights: str
) -> None:
    env = {"GEARSHIFT_FAKE_GPUS": "1x24GiB", **cuda_env(driver, f"{CARD} 700 24000")}
    before = ceiling(gearshift, "--weights", weights, env=env)
    assert before["tok_s"] is None
    assert "gearshift bench bandwidth" in before["unknown"]
    assert card_of(gearshift("bench", "bandwidth", "--json", env=env))["measured_bytes_s"] == pytest.approx(
        7e11, rel=1e-3
    )
    after = ceiling(gearshift, "--weights", weights, env={"GEARSHIFT_FAKE_GPUS": "1x24GiB"})
    assert after["tok_s"] > 0
    assert after["unknown"] is None
    assert after["card"]["bandwidth_bytes_s"] == pytest.approx(7e11, rel=1e-3)
    assert "measured here" in after["card"]["source"]


def test_beside_what_the_driver_tells_both_are_shown(gearshift: Gearshift, driver: Path, weights: str) -> None:
    env = {"GEARSHIFT_FAKE_GPUS": "1x24GiB:1000", **cuda_env(driver, f"{CARD} 850 24000")}
    found = card_of(gearshift("bench", "bandwidth", "--json", env=env))
    assert (found["bandwidth_bytes_s"], found["refused"]) == (1e12, None)
    text = gearshift("plan", "--engine", "llama.cpp", "--context", "256", "--weights", weights, env=env).stdout
    assert "1,000 GB/s (from NVML" in " ".join(text.split())
    assert "850 GB/s, 85% of it, measured here" in " ".join(text.split())


def test_a_card_with_something_on_it_is_not_touched(gearshift: Gearshift, driver: Path, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_text(json.dumps({"held": {CARD: {"1": 9 * 2**30}}, "lingering": True}))
    env = {"GEARSHIFT_FAKE_GPUS": f"1x24GiB@{control}", **cuda_env(driver, f"{CARD} 700 24000 crash")}
    result = gearshift("bench", "bandwidth", "--json", env=env)
    assert result.exit_code == 1
    found = card_of(result)
    assert found["measured_bytes_s"] is None
    assert found["refused"] == "pid 1 holds 9 GiB of it: unload it and try again"


def test_a_driver_that_dies_is_told_in_words(gearshift: Gearshift, driver: Path) -> None:
    env = {"GEARSHIFT_FAKE_GPUS": "1x24GiB", **cuda_env(driver, f"{CARD} 700 24000 crash")}
    result = gearshift("bench", "bandwidth", env=env)
    assert result.exit_code == 1
    assert f"{CARD}: the memory of {CARD} was not measured: the driver ended the measuring process by SIGSEGV" in (
        result.stdout
    )


def test_it_is_this_box_s_to_measure(gearshift: Gearshift) -> None:
    result = gearshift("--url", "http://127.0.0.1:1", "bench", "bandwidth")
    assert result.exit_code == 2
    assert "leave --url out" in result.stderr


@pytest.mark.usefixtures("measured_host")
def test_a_plan_for_the_cpu_has_a_ceiling_with_its_source(gearshift: Gearshift, weights: str) -> None:
    for env in (None, {"GEARSHIFT_FAKE_GPUS": "1x24GiB:1000"}):
        found = ceiling(gearshift, "--weights", weights, "--device", "cpu", env=env)
        assert found["card"]["bandwidth_bytes_s"] == 20e9
        assert found["card"]["source"] == "measured here on 2026-09-21: 2 threads reading"
        assert found["terms"]["compute_s"] is None
        assert found["tok_s"] > 0


@pytest.mark.usefixtures("measured_host")
def test_a_variant_on_this_box_has_the_host_s_ceiling_and_one_on_absent_cards_has_none(
    gearshift: Gearshift, weights: str, tmp_path: Path
) -> None:
    config = tmp_path / "gearshift.yaml"
    variant = f"{{engine: llama.cpp, weights: {weights}, context: 256}}"
    config.write_text(f"models: {{m: {{variants: {{a: {variant}, b: {{extends: a, gpus: [0]}}}}}}}}")
    here, elsewhere = (
        json.loads(gearshift("plan", name, "--config", str(config), "--json").stdout)["ceiling"]
        for name in ("m:a", "m:b")
    )
    assert here["card"]["source"].startswith("measured here")
    assert elsewhere["tok_s"] is None
    assert "the bandwidth of the card" in elsewhere["unknown"]


@pytest.mark.usefixtures("measured_host")
def test_a_plan_of_cards_takes_nothing_from_the_host(gearshift: Gearshift, weights: str) -> None:
    assert ceiling(gearshift, "--weights", weights)["tok_s"] is None


def test_without_a_measurement_a_cpu_plan_says_how_to_get_one(
    gearshift: Gearshift, weights: str, tmp_path: Path
) -> None:
    found = ceiling(gearshift, "--weights", weights, "--device", "cpu")
    assert found["tok_s"] is None
    assert found["unknown"].startswith("the bandwidth of this box's memory is not known (gearshift bench bandwidth")
    unread = ceiling(gearshift, "--weights", str(write_config(tmp_path, DENSE)), "--engine", "vllm", "--device", "cpu")
    assert unread["unknown"] == "the weights are not here"
