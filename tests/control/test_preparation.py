"""What is found out about a configuration before anything is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from advice.plan_models import HYBRID, write_config
from gearshift.artifacts import read_model
from gearshift.artifacts.facts import ModelFacts
from gearshift.config import Presence, parse_config
from gearshift.control import Lookups, Preparation
from gearshift.control.reloading import difference
from gearshift.domain.engine import EngineInstall
from gearshift.domain.settings import Settings
from gearshift.domain.variant import EngineRef
from gearshift.hardware import FakeMemory


def installed(ref: EngineRef) -> EngineInstall:
    return EngineInstall(ref.kind, "11434", ("llama-server",), Path("/llama-server"), managed=False)


@dataclass
class Box:
    """A box whose vLLM may be upgraded; keeps the keys under which calibrations were looked for."""

    folder: Path
    version: str = "0.32.0"
    keys: list[str] = field(default_factory=list)

    def find(self, ref: EngineRef) -> EngineInstall:
        return EngineInstall(ref.kind, self.version, ("vllm", "serve"), Path("/opt/vllm"), managed=True)

    def learned(self, key: str) -> None:
        self.keys.append(key)

    def preparation(self) -> Preparation:
        return Preparation(
            Lookups(self.find, read_model, self.learned),
            devices=FakeMemory.parse("1x16GiB").devices(), env={}, logs=self.folder, sleep_ram=0,
        )  # fmt: skip

    def settings(self) -> Settings:
        """One variant with the template in the folder."""
        variant = f"{{engine: vllm, weights: {self.folder}, template: {self.folder}/t.jinja}}"
        text = f"models: {{m: {{variants: {{a: {variant}}}}}}}"
        return parse_config(text, file=None, env={}).settings


@pytest.fixture
def box(tmp_path: Path) -> Box:
    write_config(tmp_path, HYBRID)
    (tmp_path / "t.jinja").write_text("{{ messages }}")
    return Box(tmp_path)


def test_what_one_version_of_an_engine_showed_is_not_taken_for_the_next(box: Box) -> None:
    preparation, settings = box.preparation(), box.settings()
    (variant,) = settings.variants().values()
    preparation.world(settings)
    before = preparation.start_key(variant)
    box.version = "0.33.0"
    preparation.world(settings)
    assert preparation.version(variant) == "0.33.0"
    assert box.keys == [before, preparation.start_key(variant)]
    assert len(set(box.keys)) == 2


def test_a_start_with_an_engine_that_was_upgraded_meanwhile_is_planned_anew(box: Box) -> None:
    preparation, settings = box.preparation(), box.settings()
    (variant,) = settings.variants().values()
    preparation.world(settings)
    preparation.spec(variant, 1)
    assert len(box.keys) == 1
    box.version = "0.33.0"
    preparation.spec(variant, 1)
    assert box.keys[1:] == [preparation.start_key(variant)]
    assert preparation.version(variant) == "0.33.0"


def test_an_edited_template_is_another_launch_and_a_touched_one_is_not(box: Box) -> None:
    preparation, old = box.preparation(), box.settings()
    before = preparation.world(old)
    (box.folder / "t.jinja").touch()
    assert difference(old, box.settings(), before, preparation.world(box.settings()), ()).untouched == ("m:a",)
    (box.folder / "t.jinja").write_text("{{ messages[-1] }}")
    assert difference(old, box.settings(), before, preparation.world(box.settings()), ()).changed == ("m:a",)


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
