"""The shipped examples load and pass the check on a box that has nothing of what they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.advice.check import check_config
from gearshift.config import LoadedConfig, load_config, parse_config, show
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineRef, Speculation

_FOLDER = Path(__file__).parents[2] / "examples"
_ENV = {"HOME": "/nowhere", "PATH": "/usr/bin"}


def _nothing(engine: EngineRef) -> EngineInstall:
    msg = f"{engine} is not installed"
    raise GearshiftError(msg)


def _load(name: str) -> LoadedConfig:
    return load_config(_FOLDER / name, _ENV)


def test_there_are_the_three_field_reports_and_the_annotated_example() -> None:
    assert sorted(path.name for path in _FOLDER.glob("*.yaml")) == [
        "gearshift.example.yaml",
        "r1-one-5090.yaml",
        "r2-two-5090.yaml",
        "r3-two-3090.yaml",
    ]


@pytest.mark.parametrize("file", sorted(_FOLDER.glob("*.yaml")), ids=lambda file: file.name)
def test_an_example_has_no_errors_and_warns_only_of_what_is_absent(file: Path) -> None:
    problems = check_config(load_config(file, _ENV), find_engine=_nothing, strict=False)
    absent = ("there is no", "is not installed", "is not set", "No such file")
    assert [str(problem) for problem in problems if problem.severity == "error"] == []
    assert [str(problem) for problem in problems if not any(word in problem.message for word in absent)] == []


@pytest.mark.parametrize("file", sorted(_FOLDER.glob("*.yaml")), ids=lambda file: file.name)
def test_a_shown_example_loads_to_the_same_variants(file: Path) -> None:
    loaded = load_config(file, _ENV)
    again = parse_config(show(loaded), file=Path("/elsewhere/gearshift.yaml"), env=_ENV)
    assert again.settings.models == loaded.settings.models


def test_r1_pins_its_pool_and_pays_for_speculation_with_a_larger_one() -> None:
    variants = _load("r1-one-5090.yaml").settings.variants()
    pools = {name: variant.kv_bytes for name, variant in variants.items()}
    assert pools == {
        "qwen3.8-27b:nvfp4": 9_150_000_000,
        "qwen3.8-27b:stock-template": 9_150_000_000,
        "qwen3.8-27b:mtp-1": 9_750_000_000,
        "qwen3.8-27b:mtp-3": 10_050_000_000,
    }
    daily = variants["qwen3.8-27b:nvfp4"]
    assert daily.args["mm-processor-kwargs"] == '{"max_pixels":4014080}'
    assert daily.env["PATH"] == "/opt/cuda/bin:/usr/bin"
    assert variants["qwen3.8-27b:stock-template"].template is None


def test_r2_varies_cards_and_speculation_and_nothing_else() -> None:
    variants = _load("r2-two-5090.yaml").settings.variants()
    differs = {name: (variant.gpus, variant.parallel, variant.speculation) for name, variant in variants.items()}
    mtp = Speculation("mtp", 3)
    assert differs == {
        "qwen:one-mtp3": ((0,), 16, mtp),
        "qwen:one-off": ((0,), 16, None),
        "qwen:two-mtp3": ((0, 1), 32, mtp),
        "qwen:two-off": ((0, 1), 32, None),
    }
    assert len({str(variant.args) for variant in variants.values()}) == 1


def test_r3_keeps_one_of_its_six_variants_on_the_cards() -> None:
    settings = _load("r3-two-3090.yaml").settings
    assert settings.groups[0].members == tuple(settings.variants())
    assert settings.groups[0].swap
    final = settings.variants()["qwen3.6-27b:q8-tensor"]
    assert final.kv_dtype is None
    assert final.args["split-mode"] == "tensor"
    long = settings.variants()["qwen3.6-27b:int4-long"]
    assert set(long.env) == {"NCCL_P2P_DISABLE", "NCCL_CUMEM_ENABLE", "VLLM_USE_FLASHINFER_SAMPLER"}
    assert "default-chat-template-kwargs" not in long.args
