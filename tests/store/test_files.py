"""A file is the old one or the new one, whatever goes wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gearshift.store.files import replace_file


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it(tmp_path: Path, *, durable: bool) -> None:
    path = tmp_path / "folder" / "kept.json"
    path.parent.mkdir()
    path.write_text("old and longer")
    with path.open() as reader:
        replace_file(path, "new ä\n", durable=durable)
        assert reader.read() == "old and longer"
    assert path.read_text(encoding="utf-8") == "new ä\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kept.json"
    path.parent.mkdir()
    path.write_text("old")
    path.with_name(f"kept.json.{os.getpid()}.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]
