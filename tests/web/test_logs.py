"""Finding the last lines of a file without reading it whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.web import logs

LINES = st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")), max_size=12)


@given(lines=LINES, wanted=st.integers(0, 14), closed=st.booleans())
def test_the_tail_is_what_splitting_the_whole_file_would_give(
    tmp_path_factory: pytest.TempPathFactory, *, lines: list[bytes], wanted: int, closed: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    content = b"\n".join(lines) + (b"\n" if closed else b"")
    path.write_bytes(content)
    expected = b"".join(_split(content)[-wanted:]) if wanted else b""
    assert logs.tail(path, wanted) == (expected, len(content))


def _split(content: bytes) -> list[bytes]:
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def test_a_tail_longer_than_a_block_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000 + b"\n" + b"y" * (logs.BLOCK * 2) + b"\nend\n")
    assert logs.tail(path, 2)[0] == b"y" * (logs.BLOCK * 2) + b"\nend\n"


def test_an_absent_file_is_empty(tmp_path: Path) -> None:
    assert logs.tail(tmp_path / "none", 5) == (b"", 0)
