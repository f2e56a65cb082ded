"""Which weights and which template a command line means, and that each file is read once."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from artifacts.gguf_bytes import gguf_bytes
from gearshift.advice.provenance_files import FileFacts
from gearshift.artifacts.hashes import Promise, sha256_of
from gearshift.domain.errors import GearshiftError


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Reader:
    """Hashes files, and remembers which."""

    read: list[str] = field(default_factory=list)

    def __call__(self, path: Path) -> Promise:
        self.read.append(path.name)
        return sha256_of(path)


def test_files_are_found_by_name_and_in_folders_each_once(tmp_path: Path) -> None:
    gguf, folder = tmp_path / "q8.gguf", tmp_path / "hf"
    folder.mkdir()
    gguf.write_bytes(b"gguf")
    for name in ("b.safetensors", "a.safetensors", "config.json"):
        (folder / name).write_bytes(name.encode())
    words = ["--model", str(gguf), "-m", str(gguf), "serve", str(folder), "--port", "PORT", "org/model", ""]
    assert [(Path(found.file).name, found.sha256) for found in FileFacts().weights(words)] == [
        ("q8.gguf", sha(b"gguf")),
        ("a.safetensors", sha(b"a.safetensors")),
        ("b.safetensors", sha(b"b.safetensors")),
    ]


def test_files_are_found_behind_an_equals_sign_in_json_and_below_the_engines_own_folder(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    for file in (tmp_path / "q8.gguf", tmp_path / "near.gguf", draft / "model.safetensors"):
        file.write_bytes(file.name.encode())
    drafting = json.dumps({"model": str(draft), "num_speculative_tokens": 3})
    words = [f"--model={tmp_path}/q8.gguf", "near.gguf", "--speculative-config", drafting, "{broken"]
    found = FileFacts().weights(words, tmp_path)
    assert [Path(one.file).name for one in found] == ["q8.gguf", "near.gguf", "model.safetensors"]


def test_a_hub_id_means_the_snapshot_that_was_fetched(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--model"
    for revision, text in (("c0ffee", b"old"), ("decade", b"new")):
        snapshot = repository / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").write_bytes(text)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("decade")
    drafting = json.dumps({"model": "org/model"})

    def hashes(*words: str) -> list[str | None]:
        return [found.sha256 for found in FileFacts().weights(words, hub=tmp_path)]

    assert hashes("serve", "org/model") == hashes("--speculative-config", drafting) == [sha(b"new")]
    assert hashes("serve", "org/model", "--revision", "c0ffee") == [sha(b"old")]
    assert hashes("serve", "org/other") == []


def test_the_first_part_of_a_split_file_means_all_that_are_there(tmp_path: Path) -> None:
    for number in (1, 3):
        (tmp_path / f"q8-0000{number}-of-00003.gguf").write_bytes(b"%d" % number)
    found = FileFacts().weights([str(tmp_path / "q8-00001-of-00003.gguf")])
    assert [Path(one.file).name for one in found] == ["q8-00001-of-00003.gguf", "q8-00003-of-00003.gguf"]


def test_a_lock_knows_the_hash_of_a_file_of_its_size_only(tmp_path: Path) -> None:
    gguf = tmp_path / "q8.gguf"
    gguf.write_bytes(b"gguf")
    facts, words = FileFacts(), [str(gguf)]
    (known,) = facts.weights(words, pinned={"q8.gguf": Promise(4, "of the lock")})
    (changed,) = facts.weights(words, pinned={"q8.gguf": Promise(5, "of the lock")})
    assert known.sha256 == "of the lock"
    assert changed.sha256 == sha(b"gguf")


def test_a_file_too_large_to_read_has_no_hash_but_its_size(tmp_path: Path) -> None:
    gguf = tmp_path / "q8.gguf"
    with gguf.open("wb") as file:
        file.truncate(3 * 2**30)  # sparse
    (found,) = FileFacts().weights([str(gguf)])
    assert (found.bytes, found.sha256) == (3 * 2**30, None)


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    gguf, reader = tmp_path / "q8.gguf", Reader()
    facts, words = FileFacts(reader), [str(gguf)]
    gguf.write_bytes(b"gguf")
    first = facts.weights(words)
    assert facts.weights(words) == first
    assert reader.read == ["q8.gguf"]
    gguf.write_bytes(b"more")  # of the same size, but written later
    os.utime(gguf, ns=(1, 1))
    (changed,) = facts.weights(words)
    assert changed.sha256 == sha(b"more")
    assert reader.read == ["q8.gguf", "q8.gguf"]


def test_a_file_that_cannot_be_read_has_no_hash_and_is_tried_again(tmp_path: Path) -> None:
    gguf, broken = tmp_path / "q8.gguf", True
    gguf.write_bytes(b"gguf")

    def read(path: Path) -> Promise:
        if broken:
            raise GearshiftError(f"{path} cannot be read")
        return sha256_of(path)

    facts = FileFacts(read)
    assert [one.sha256 for one in facts.weights([str(gguf)])] == [None]
    broken = False
    assert [one.sha256 for one in facts.weights([str(gguf)])] == [sha(b"gguf")]


def test_the_template_in_use_is_the_one_that_is_named_else_the_models_own(tmp_path: Path) -> None:
    folder, own, gguf = tmp_path / "hf", tmp_path / "mine.jinja", tmp_path / "q8.gguf"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    own.write_text("{{ mine }}")
    gguf.write_bytes(gguf_bytes({"tokenizer.chat_template": "{{ gguf }}"}))
    template = FileFacts().template
    words = ["serve", str(folder)]
    assert template(words) == sha(b"{{ messages }}")
    assert template([*words, "--chat-template", str(own)]) == sha(b"{{ mine }}")
    assert template([f"--model={gguf}"]) == sha(b"{{ gguf }}")
    assert template(["serve", "org/name"]) is None
    (folder / "chat_template.jinja").write_text("{{ other messages }}")
    assert template(words) == sha(b"{{ other messages }}")


def test_a_template_in_the_command_line_is_hashed_and_one_of_the_engines_own_is_unknown(tmp_path: Path) -> None:
    gguf = tmp_path / "q8.gguf"
    gguf.write_bytes(gguf_bytes({"tokenizer.chat_template": "{{ gguf }}"}))
    text = "{{ messages }}" + " " * 5000  # longer than any file's name
    template = FileFacts().template
    assert template([str(gguf), "--chat-template", text]) == sha(text.encode())
    assert template([str(gguf), f"--chat-template={text}"]) == sha(text.encode())
    assert template([str(gguf), "--chat-template", "chatml"]) is None
