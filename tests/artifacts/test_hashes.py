"""Hashes of files, and how one differs from what was promised."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.artifacts.hashes import Promise, difference, sha256_of
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import MIB

DATA = bytes(range(256)) * (9 * MIB // 256)  # more than one piece


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(DATA)
    return path


def test_a_file_is_hashed_piece_by_piece_and_told_of(file: Path) -> None:
    told: list[int] = []
    assert sha256_of(file, told.append) == Promise(len(DATA), hashlib.sha256(DATA).hexdigest())
    assert told == [8 * MIB, MIB]


def test_a_file_that_keeps_its_promise_differs_in_nothing(file: Path) -> None:
    assert difference(file, sha256_of(file)) is None


def test_a_wrong_size_is_told_without_reading_the_file(file: Path) -> None:
    told: list[int] = []
    assert difference(file, Promise(7, "0" * 64), told.append) == f"expected 7 bytes, found {len(DATA)}"
    assert told == []


def test_a_wrong_byte_is_told_by_both_hashes(file: Path) -> None:
    promised = sha256_of(file)
    file.write_bytes(b"\1" + DATA[1:])
    assert difference(file, promised) == f"expected sha256 {promised.sha256}, found {sha256_of(file).sha256}"


def test_an_absent_file_differs_and_one_that_is_a_folder_cannot_be_read(tmp_path: Path) -> None:
    assert difference(tmp_path / "none", Promise(1, "0")) == "it is not there"
    with pytest.raises(GearshiftError, match="cannot be read"):
        sha256_of(tmp_path)


@given(st.binary(max_size=100))
def test_the_hash_is_that_of_the_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    assert sha256_of(path).sha256 == hashlib.sha256(data).hexdigest()
