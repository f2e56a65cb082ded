"""`gearshift verify`: what differs from the lock, expected and found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Gearshift = Callable[..., Result]

CONFIG = """\
models:
  qwen:
    variants:
      q8: {engine: {kind: llama.cpp, path: llama-server}, weights: qwen.gguf, template: chat.jinja}
      q6: {engine: {kind: llama.cpp, path: llama-server}, weights: qwen.gguf, env: {MY_TOKEN: "x"}}
"""
GGUF = b"GGUF\x03\0\0\0" + bytes(16)


def harmful(**files: object) -> str:
    weights = {"files": [{"name": "a", "bytes": 1, "sha256": "0"}]} | files
    recipe = {"settings": {}, "engine": {"kind": "vllm"}, "files": {"weights": weights}}
    return json.dumps({"recipes": {"a:b": recipe}})


ENGINE = '#!/bin/sh\ncase "$1" in --version) echo "version: {build} (0123abcd)" ;; *) exit 1 ;; esac\n'


@pytest.fixture
def locked(gearshift: Gearshift, tmp_path: Path) -> Path:
    """A folder with two locked variants of one file."""
    (tmp_path / "qwen.gguf").write_bytes(GGUF)
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    (tmp_path / "gearshift.yaml").write_text(CONFIG)
    engine(tmp_path, 11434)
    assert gearshift("lock", "-c", str(tmp_path / "gearshift.yaml")).exit_code == 0
    return tmp_path


def engine(folder: Path, build: int) -> None:
    (folder / "llama-server").write_text(ENGINE.format(build=build))
    (folder / "llama-server").chmod(0o755)


def verify(gearshift: Gearshift, folder: Path, *arguments: str) -> Result:
    return gearshift("verify", "--recipe", str(folder / "gearshift.lock"), *arguments)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def told(result: Result, folder: Path) -> list[str]:
    return result.stdout.replace(str(folder), "").splitlines()


def test_what_is_as_locked_is_said_to_be_so(gearshift: Gearshift, locked: Path) -> None:
    result = verify(gearshift, locked)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "hashing qwen.gguf (24 B in all)",
        f"{locked}/gearshift.lock: everything is as locked (24 B)",
    ]


def test_a_changed_file_is_named_with_what_was_expected_and_found(gearshift: Gearshift, locked: Path) -> None:
    changed = GGUF[:-1] + b"\x01"
    (locked / "qwen.gguf").write_bytes(changed)
    result = verify(gearshift, locked)
    assert result.exit_code == 1
    assert told(result, locked) == [
        "qwen:q8  /qwen.gguf",
        f"  expected sha256 {digest(GGUF)}, found {digest(changed)}",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "qwen.gguf").unlink(), "  it is not there"),
        (lambda folder: (folder / "qwen.gguf").write_bytes(GGUF + b"."), "  expected 24 bytes, found 25"),
        (lambda folder: (folder / "chat.jinja").unlink(), "  it is not there"),
        (lambda folder: engine(folder, 11500), "  expected 11434, found 11500"),
        (lambda folder: (folder / "llama-server").unlink(), "  the llama.cpp path /llama-server does not exist"),
    ],
)
def test_each_kind_of_difference_is_told(
    gearshift: Gearshift, locked: Path, change: Callable[[Path], object], said: str
) -> None:
    change(locked)
    result = verify(gearshift, locked, "qwen:q8")
    assert (result.exit_code, told(result, locked)[1]) == (1, said)


def test_an_edited_template_is_another(gearshift: Gearshift, locked: Path) -> None:
    (locked / "chat.jinja").write_text("{{ messages }} be terse")
    (difference,) = json.loads(verify(gearshift, locked, "--json").stdout)
    assert (difference["variant"], difference["place"]) == ("qwen:q8", str(locked / "chat.jinja"))
    assert difference["what"].startswith("expected sha256 ")


def test_only_the_variants_named_are_compared(gearshift: Gearshift, locked: Path) -> None:
    (locked / "chat.jinja").unlink()
    assert verify(gearshift, locked, "qwen:q6").exit_code == 0
    unknown = verify(gearshift, locked, "qwen:q4")
    assert (unknown.exit_code, "has no recipe for qwen:q4 (it has qwen:q6, qwen:q8)" in unknown.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no lock"),
        ('{"recipes": {"a:b": {"settings": {}, "engine": {"kind": 5}}}}', "Expected `str`, got `int`"),
        ('{"format": 9, "recipes": {}}', "has format 9, 1 is known"),
        (
            harmful(files=[{"name": "../../.bashrc", "bytes": 1, "sha256": "0"}]),
            "names the file '../../.bashrc', which leads out of its folder",
        ),
        (harmful(revision="../../x"), "names the revision '../../x', which is no commit"),
        (harmful(repository="org/../../x"), "names the repository 'org/../../x', which is none"),
    ],
)
def test_a_file_that_is_no_lock_or_means_harm_is_refused(
    gearshift: Gearshift, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "gearshift.lock").write_text(text)
    result = verify(gearshift, tmp_path)
    assert (result.exit_code, said in result.stderr) == (1, True)


@pytest.mark.parametrize("verb", ["verify", "pull"])
def test_a_recipe_file_in_a_variants_place_is_told_how_it_is_named(
    gearshift: Gearshift, tmp_path: Path, verb: str
) -> None:
    (file := tmp_path / "forum.json").write_text('{"recipes": {}}')
    result = gearshift(verb, str(file))
    assert (result.exit_code, f"is a file and no variant: write --recipe {file}" in unwrapped(result)) == (2, True)


def unwrapped(result: Result) -> str:
    return " ".join(line.strip(" │") for line in result.stderr.splitlines())


def test_a_lock_that_is_not_there_is_said_to_be_missing(gearshift: Gearshift, tmp_path: Path) -> None:
    result = verify(gearshift, tmp_path)
    assert (result.exit_code, "hint: write one: gearshift lock" in result.stderr) == (1, True)
