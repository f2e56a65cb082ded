"""Which weights a command line means, and where their hashes come from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gearshift.artifacts.hashes import Promise
from gearshift.cli.bench.provenance import template_of, weights_of


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_files_are_found_by_name_and_in_folders_each_once(tmp_path: Path) -> None:
    gguf, folder = tmp_path / "q8.gguf", tmp_path / "hf"
    folder.mkdir()
    gguf.write_bytes(b"gguf")
    for name in ("b.safetensors", "a.safetensors", "config.json"):
        (folder / name).write_bytes(name.encode())
    argv = ["/bin/engine", "--model", str(gguf), "-m", str(gguf), "serve", str(folder), "--port", "PORT", "org/model"]
    assert [(Path(str(file["file"])).name, file["sha256"]) for file in weights_of(argv, {})] == [
        ("q8.gguf", sha(b"gguf")),
        ("a.safetensors", sha(b"a.safetensors")),
        ("b.safetensors", sha(b"b.safetensors")),
    ]


def test_a_lock_knows_the_hash_of_a_file_of_its_size_only(tmp_path: Path) -> None:
    gguf = tmp_path / "q8.gguf"
    gguf.write_bytes(b"gguf")
    argv = ["engine", str(gguf)]
    (known,) = weights_of(argv, {"q8.gguf": Promise(4, "of the lock")})
    (changed,) = weights_of(argv, {"q8.gguf": Promise(5, "of the lock")})
    assert known["sha256"] == "of the lock"
    assert changed["sha256"] == sha(b"gguf")


def test_a_file_too_large_to_read_has_no_hash_but_its_size(tmp_path: Path) -> None:
    gguf = tmp_path / "q8.gguf"
    with gguf.open("wb") as file:
        file.truncate(3 * 2**30)  # sparse
    (found,) = weights_of(["engine", str(gguf)], {})
    assert (found["bytes"], found["sha256"]) == (3 * 2**30, None)


def test_the_template_in_use_is_the_one_that_is_named_else_the_models_own(tmp_path: Path) -> None:
    folder, own = tmp_path / "hf", tmp_path / "mine.jinja"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    own.write_text("{{ mine }}")
    argv = ["vllm", "serve", str(folder)]
    assert template_of(argv) == sha(b"{{ messages }}")
    assert template_of([*argv, "--chat-template", str(own)]) == sha(b"{{ mine }}")
    assert template_of(["vllm", "serve", "org/name"]) is None
