"""`gearshift pull`: exactly what is locked, from a hub on loopback, resumed, compared, never over the user's files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from artifacts.gguf_bytes import gguf_bytes
from fakes.hub import COMMIT, FakeHub, serving

Gearshift = Callable[..., Result]

BASE = "{# v22.2 #}\n" + "".join(f"{{# line {number} #}}\n" for number in range(40)) + "{{ messages }}\n"
TERSE = BASE.replace("{{ messages }}", "be terse\n{{ messages }}")
GGUF = gguf_bytes({"tokenizer.chat_template": BASE})
SMALL = b'{"model_type": "qwen3"}'
CONFIG = """\
models:
  qwen:
    variants:
      q8:
        engine: {kind: llama.cpp, path: llama-server}
        weights: here/q8.gguf
        template: terse.jinja
        context: 8192
"""
ENGINE = '#!/bin/sh\ncase "$1" in --version) echo "version: 11434 (0123abcd)" ;; *) exit 1 ;; esac\n'


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serving(FakeHub({"q8.gguf": GGUF, "config.json": SMALL}, large=frozenset({"q8.gguf"}))) as served:
        yield served


@pytest.fixture
def recipe(gearshift: Gearshift, hub: FakeHub, tmp_path: Path) -> Path:
    """A recipe exported on one box, alone in a folder of another."""
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "here").mkdir(parents=True)
    (there / "here/q8.gguf").write_bytes(GGUF)
    (there / "terse.jinja").write_text(TERSE)
    (there / "gearshift.yaml").write_text(CONFIG)
    (there / "llama-server").write_text(ENGINE)
    (there / "llama-server").chmod(0o755)
    here.mkdir()
    file = here / "recipe.json"
    result = gearshift(
        "lock", "-c", str(there / "gearshift.yaml"), "--source", "qwen:q8=org/name", "--export", "-o", str(file),
        env={"HF_ENDPOINT": hub.url},
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return file


def pull(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> Result:
    return gearshift("pull", "--recipe", str(recipe), env={"HF_ENDPOINT": hub.url, "HOME": str(recipe.parent)})


def test_a_recipe_becomes_files_a_template_and_a_configuration(
    gearshift: Gearshift, recipe: Path, hub: FakeHub
) -> None:
    here = recipe.parent
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.replace(str(here), "").splitlines() == [
        f"fetching q8.gguf ({len(GGUF)} B in all)",
        "wrote /templates/terse.jinja",
        "wrote /gearshift.yaml",
        f"fetched 1 of 1 files, {len(GGUF)} B; all are as locked",
    ]
    assert (here / "models/name/q8.gguf").read_bytes() == GGUF
    assert (here / "templates/terse.jinja").read_text() == TERSE
    assert gearshift("config", "check", str(here / "gearshift.yaml")).exit_code == 0


def test_the_template_travels_as_a_patch_when_that_is_shorter(recipe: Path) -> None:
    template = json.loads(recipe.read_text())["recipes"]["qwen:q8"]["template"]
    assert "text" not in template
    assert "+be terse" in template["patch"]
    assert len(template["patch"]) < 10


def test_pulling_again_fetches_nothing(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    pull(gearshift, recipe, hub)
    hub.ranges.clear()
    result = pull(gearshift, recipe, hub)
    assert result.stderr.splitlines() == ["comparing q8.gguf", "fetched 0 of 1 files, 0 B; all are as locked"]
    assert hub.ranges == []


def test_what_an_earlier_pull_left_is_gone_on_with(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    partial = recipe.parent / "models/name/q8.gguf.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(GGUF[:500])
    assert pull(gearshift, recipe, hub).exit_code == 0
    assert hub.ranges == ["bytes=500-"]


def test_a_file_of_the_users_is_never_replaced(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    mine = recipe.parent / "models/name/q8.gguf"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, f"expected {len(GGUF)} bytes, found 4" in result.stderr) == (1, True)
    assert mine.read_bytes() == b"mine"


def test_a_file_that_comes_otherwise_than_promised_is_removed(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    partial = recipe.parent / "models/name/q8.gguf.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"\0" * 500)  # a beginning of something else
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, "came as another file than the lock names: expected sha256" in result.stderr) == (1, True)
    assert list(partial.parent.iterdir()) == []
    assert pull(gearshift, recipe, hub).exit_code == 0


def test_a_hub_with_another_file_is_refused_before_the_transfer(
    gearshift: Gearshift, recipe: Path, hub: FakeHub
) -> None:
    hub.files["q8.gguf"] = GGUF[:-1] + b"x"
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, "the hub has another file than the lock names" in result.stderr) == (1, True)
    assert hub.ranges == []


def changed(recipe: Path, **weights: object) -> None:
    lock = json.loads(recipe.read_text())
    lock["recipes"]["qwen:q8"]["files"]["weights"] |= weights
    recipe.write_text(json.dumps(lock))


def test_files_that_nobody_knows_the_source_of_are_named(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    changed(recipe, repository=None)
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, "the lock does not say where it is from" in result.stderr) == (1, True)


@pytest.mark.parametrize("folder", ["/elsewhere", "../elsewhere", "models/../../elsewhere"])
def test_nothing_is_written_outside_the_folder_of_the_recipe_unasked(
    gearshift: Gearshift, recipe: Path, hub: FakeHub, folder: str
) -> None:
    changed(recipe, folder=folder)
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, f"would be written to {folder}, outside of " in result.stderr) == (1, True)
    assert hub.ranges == []


def test_a_lock_of_ones_own_may_name_places_elsewhere(
    gearshift: Gearshift, recipe: Path, hub: FakeHub, tmp_path: Path
) -> None:
    changed(recipe, folder=str(tmp_path / "srv"))
    result = gearshift("pull", "--outside", "--recipe", str(recipe), env={"HF_ENDPOINT": hub.url})
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "srv/q8.gguf").read_bytes() == GGUF


def test_what_does_not_fit_on_the_disk_is_not_begun(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    changed(recipe, files=[{"name": "q8.gguf", "bytes": 1 << 60, "sha256": "0" * 64}])
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, "are to be fetched to" in result.stderr) == (1, True)
    assert hub.ranges == []


def test_a_patch_for_another_base_is_refused(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    lock = json.loads(recipe.read_text())
    lock["recipes"]["qwen:q8"]["template"]["base_sha256"] = "0" * 64
    recipe.write_text(json.dumps(lock))
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, "the model brings sha256" in result.stderr) == (1, True)
    assert not (recipe.parent / "templates").exists()


def test_a_patch_that_was_tampered_with_is_refused(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    recipe.write_text(recipe.read_text().replace("+be terse", "+be evil"))
    result = pull(gearshift, recipe, hub)
    assert (result.exit_code, "the template of the lock is not the one it names" in result.stderr) == (1, True)
    assert not (recipe.parent / "templates").exists()


def test_a_template_without_a_base_travels_whole(gearshift: Gearshift, recipe: Path, hub: FakeHub) -> None:
    lock = json.loads(recipe.read_text())
    template = lock["recipes"]["qwen:q8"]["template"]
    lock["recipes"]["qwen:q8"]["template"] = {
        "sha256": template["sha256"], "file": "templates/own.jinja", "text": TERSE.split("\n"),
    }  # fmt: skip
    recipe.write_text(json.dumps(lock))
    assert pull(gearshift, recipe, hub).exit_code == 0
    assert (recipe.parent / "templates/own.jinja").read_text() == TERSE


def test_weights_by_hub_id_land_where_the_engines_look(gearshift: Gearshift, hub: FakeHub, tmp_path: Path) -> None:
    recipe = {
        "settings": {"engine": "vllm", "weights": "org/name"},
        "engine": {"kind": "vllm", "version": "0.32.0"},
        "files": {"weights": {"repository": "org/name", "revision": COMMIT, "files": [pinned("config.json", SMALL)]}},
    }
    (tmp_path / "gearshift.lock").write_text(json.dumps({"recipes": {"qwen:bf16": recipe}}))
    env = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub")}
    result = gearshift("pull", "--recipe", str(tmp_path / "gearshift.lock"), env=env)
    assert result.exit_code == 0, result.stderr
    repository = tmp_path / "hub/models--org--name"
    assert (repository / f"snapshots/{COMMIT}/config.json").read_bytes() == SMALL
    assert (repository / "refs/main").read_text() == COMMIT
    assert not (tmp_path / "gearshift.yaml").exists()


def pinned(name: str, data: bytes) -> dict[str, object]:
    return {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
