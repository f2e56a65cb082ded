"""What is found out about a configuration before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.artifacts.facts import ModelFacts
from gearshift.config import Presence, parse_config
from gearshift.control import Lookups, Preparation
from gearshift.domain.launch import EngineInstall
from gearshift.domain.variant import EngineRef
from gearshift.hardware import FakeMemory


def installed(ref: EngineRef) -> EngineInstall:
    return EngineInstall(ref.kind, "11434", ("llama-server",), Path("/llama-server"), managed=False)


def opened(path: Path) -> ModelFacts:
    pytest.fail(f"{path} was opened")


@pytest.mark.parametrize("state", ["absent", "silent"])
def test_weights_that_are_absent_or_on_a_dead_mount_are_never_opened(tmp_path: Path, state: Presence) -> None:
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF")
    preparation = Preparation(
        Lookups(installed, opened, lambda _: None, presence=lambda _: state),
        devices=FakeMemory.parse("1x16GiB").devices(), env={}, logs=tmp_path, sleep_ram=0,
    )  # fmt: skip
    text = f"models: {{m: {{variants: {{a: {{engine: llama.cpp, weights: {weights}}}}}}}}}"
    world = preparation.world(parse_config(text, file=None, env={}).settings)
    assert list(world.profiles) == ["m:a"]
