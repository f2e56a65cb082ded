"""Paths that are there, are not, or lie where nothing answers any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from config.reading import Load
from gearshift.config import Presence, presence, rules
from gearshift.config.presence import Inquiry, ask


class Mount:
    """Dead below its folder until it is mounted anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[Path] = []
        self.alive = threading.Event()

    def ask(self, path: Path) -> Presence:
        self.asked.append(path)
        if path.is_relative_to(self.folder):
            self.alive.wait()
        return ask(path)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path / "nas")
    yield made
    made.alive.set()


def test_a_path_is_there_or_absent(tmp_path: Path) -> None:
    assert presence(tmp_path) == "there"
    assert presence(tmp_path / "no") == "absent"
    assert presence(Path("a\0b")) == "absent"
    assert presence(tmp_path / ("x" * 5000)) == "absent"


def test_a_dead_mount_is_silent_and_asked_once_until_it_answers(mount: Mount, tmp_path: Path) -> None:
    inquiry, path = Inquiry(mount.ask, patience_s=0.05), mount.folder / "w.gguf"
    assert inquiry.presence(path) == "silent"
    assert inquiry.presence(path) == "silent"
    assert mount.asked == [path]
    assert inquiry.presence(tmp_path) == "there"
    mount.alive.set()
    inquiry._waiting[path].join(10)
    assert inquiry.presence(path) == "absent"


def test_a_file_that_names_a_dead_mount_loads_with_a_warning(
    load: Load, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "presence", Inquiry(mount.ask, patience_s=0.05).presence)
    loaded = load(f"models: {{m: {{variants: {{a: {{engine: llama.cpp, weights: {mount.folder}/w.gguf}}}}}}}}")
    (warning,) = loaded.warnings
    assert warning.path == "models.m.variants.a.weights"
    assert warning.message == f"{mount.folder}/w.gguf gives no answer within 3 s"
    assert warning.hint == snapshot("its disk or network mount may be dead; mount it again, then gearshift reload")
