"""Recipes: what is kept and handed on of a variant, hub ids pinned by commit, and commands that survive a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from artifacts.gguf_bytes import gguf_bytes
from fakes.hub import COMMIT, FakeHub, serving
from gearshift.advice.recipe import Lock, PinnedEngine, PinnedFile, PinnedFiles, Recipe, lock_text, read_lock
from gearshift.advice.recipe_commands import shell_command
from gearshift.advice.recipe_export import exported
from gearshift.advice.recipe_making import Maker
from gearshift.advice.recipe_places import Places, load_recipes, recipe_config, recipe_variant
from gearshift.advice.recipe_settings import kept_settings
from gearshift.advice.recipe_source import HubSource
from gearshift.artifacts.hub import Hub
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineRef, Speculation, Variant
from gearshift.engines import packaged_flags

REPOSITORY = {
    "config.json": b'{"model_type": "qwen3"}',
    "model.safetensors": bytes(1000),
    "README.md": b"# read me",
    "original/params.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
}
SERVED = ["config.json", "model.safetensors", "chat_template.jinja"]


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serving(FakeHub(REPOSITORY, large=frozenset({"model.safetensors"}))) as served:
        yield served


def installed(ref: EngineRef) -> EngineInstall:
    return EngineInstall(ref.kind, "0.32.0", ("vllm", "serve"), Path("/opt/vllm"), managed=True)


def make(variant: Variant, hub: FakeHub, root: Path) -> Recipe:
    maker = Maker(Places(root, root / "hub"), Hub(hub.url), installed, {}, {})
    return maker.make(variant, {"engine": "vllm", "weights": variant.weights})


BY_ID = Variant("m", "v", EngineRef("vllm"), weights="org/name")


def test_weights_by_hub_id_are_pinned_to_a_commit_without_fetching_them(hub: FakeHub, tmp_path: Path) -> None:
    weights = make(BY_ID, hub, tmp_path).files["weights"]
    assert (weights.repository, weights.revision, weights.folder) == ("org/name", COMMIT, None)
    assert [file.name for file in weights.files] == SERVED
    assert len(hub.ranges) == 2  # the two small files, to hash them


def test_a_snapshot_that_is_here_is_hashed_and_the_hub_not_asked(hub: FakeHub, tmp_path: Path) -> None:
    asked = make(BY_ID, hub, tmp_path).files["weights"]
    hub.tokens.clear()
    repository = tmp_path / "hub/models--org--name"
    for name, data in REPOSITORY.items():
        place = repository / "snapshots" / COMMIT / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)
    recipe = make(BY_ID, hub, tmp_path)
    assert set(recipe.files["weights"].files) == set(asked.files)
    assert hub.tokens == set()
    assert recipe.template is not None
    assert recipe.template.file is None


def test_a_folder_is_pinned_with_everything_that_is_no_leftover(hub: FakeHub, tmp_path: Path) -> None:
    folder = tmp_path / "models/m"
    (folder / ".cache").mkdir(parents=True)
    (folder / "sub").mkdir()
    for name in ("config.json", "sub/a.safetensors", "b.safetensors.partial", ".cache/x"):
        (folder / name).write_text("{}")
    variant = Variant("m", "v", EngineRef("vllm"), weights=str(folder))
    weights = make(variant, hub, tmp_path).files["weights"]
    assert (weights.folder, [file.name for file in weights.files]) == ("models/m", ["config.json", "sub/a.safetensors"])


def test_every_part_of_a_split_file_is_pinned_and_a_missing_one_is_an_error(hub: FakeHub, tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(gguf_bytes({"a": 1}))
    variant = Variant("m", "v", EngineRef("vllm"), weights=str(first))
    with pytest.raises(GearshiftError, match=r"m-00002-of-00002\.gguf: cannot be read"):
        make(variant, hub, tmp_path)
    first.with_name("m-00002-of-00002.gguf").write_bytes(b"22")
    assert [file.bytes for file in make(variant, hub, tmp_path).files["weights"].files] == [first.stat().st_size, 2]


def test_what_llama_cpp_fetches_by_itself_cannot_be_pinned(hub: FakeHub, tmp_path: Path) -> None:
    with pytest.raises(GearshiftError, match="nothing of them can be pinned"):
        make(Variant("m", "v", EngineRef("llama.cpp"), weights="org/name:Q8_0"), hub, tmp_path)


def test_a_draft_model_is_pinned_beside_the_weights(hub: FakeHub, tmp_path: Path) -> None:
    drafted = Variant("m", "v", EngineRef("vllm"), weights="org/name", speculation=Speculation("draft", 3, "org/name"))
    assert list(make(drafted, hub, tmp_path).files) == ["weights", "draft"]


def recipe(**settings: Any) -> Recipe:
    files = PinnedFiles((PinnedFile("m.gguf", 3, "ab"),), folder="/srv/models", repository="org/m", revision=COMMIT)
    known = {"engine": {"kind": "llama.cpp", "path": "/opt/b/llama-server"}, "weights": "/srv/models/m.gguf"}
    return Recipe(known | settings, PinnedEngine("llama.cpp", "11434"), {"weights": files})


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    lock = Lock({"m:v": recipe(args={"split-mode": "tensor", "n": 1.5, "list": [1, "a", True]})})
    (tmp_path / "gearshift.lock").write_text(lock_text(lock))
    assert read_lock(tmp_path / "gearshift.lock") == lock


def test_recipes_of_other_variants_stay_in_a_lock() -> None:
    lock = Lock({"m:a": recipe(), "m:b": recipe()}).with_recipes({"m:b": recipe(context=1)})
    assert [own.settings.get("context") for own in lock.recipes.values()] == [None, 1]


def test_an_exported_recipe_is_a_configuration_that_loads(tmp_path: Path) -> None:
    out = exported(recipe(gpus=["GPU-1234", 1], args={"mmproj": "/srv/models/mmproj.gguf"}))
    assert recipe_config({"m:v": out}) == snapshot("""\
models:
  m:
    variants:
      v:
        engine:
          kind: llama.cpp
          version: "11434"
        weights: models/m/m.gguf
        gpus: [1]
        args:
          mmproj: models/m/mmproj.gguf
""")
    loaded = load_recipes({"m:v": out}, tmp_path / "recipe.json", {"HOME": "/me"})
    assert recipe_variant(loaded, "m:v").weights == str(tmp_path / "models/m/m.gguf")


def test_files_beside_the_lock_move_into_a_folder_of_their_own() -> None:
    files = PinnedFiles((PinnedFile("m.gguf", 3, "ab"),), folder=".", repository="org/m", revision=COMMIT)
    beside = Recipe({"weights": "m.gguf", "context": 8}, PinnedEngine("llama.cpp"), {"weights": files})
    assert exported(beside).settings == {"weights": "models/m/m.gguf", "context": 8, "engine": {"kind": "llama.cpp"}}


@pytest.mark.parametrize("folder", ["models", "/srv/models"])
def test_a_model_in_a_folder_called_models_is_not_moved_a_level_down(folder: str) -> None:
    files = PinnedFiles((PinnedFile("m.gguf", 3, "ab"),), folder=folder)
    found = exported(Recipe({"weights": f"{folder}/m.gguf"}, PinnedEngine("llama.cpp"), {"weights": files}))
    assert found.settings["weights"] == "models/m.gguf"
    assert found.files["weights"].folder == "models"


def test_weights_by_hub_id_are_handed_on_with_their_commit() -> None:
    files = PinnedFiles((), repository="org/m", revision=COMMIT)
    by_id = Recipe({"weights": "org/m", "gpus": ["GPU-1"]}, PinnedEngine("vllm", "0.32.0"), {"weights": files})
    assert exported(by_id).settings == {
        "weights": "org/m",
        "engine": {"kind": "vllm", "version": "0.32.0"},
        "args": {"revision": COMMIT},
    }


def test_secrets_stay_and_paths_become_relative() -> None:
    settings = {"weights": "/box/m.gguf", "args": {"x": ["/box/a", "/else"]}, "env": {"API_KEY": "s", "A": "/box"}}
    assert kept_settings(settings, Path("/box")) == {
        "weights": "m.gguf",
        "args": {"x": ["a", "/else"]},
        "env": {"API_KEY": "${env:API_KEY}", "A": "/box"},
    }


@pytest.mark.parametrize("text", ["name", "org/", "/name", "a/b/c", ""])
def test_a_source_has_an_owner_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="names no repository"):
        HubSource.parse(text)
    assert HubSource.parse("org/name@v1") == HubSource("org/name", "v1")


VLLM = packaged_flags("vllm", "0.32.0")


def test_a_vllm_variant_as_a_command() -> None:
    variant = Variant(
        "qwen", "int8", EngineRef("vllm"), weights="org/int8", context=32768, gpus=(0, 1), parallel=2,
        speculation=Speculation("mtp", 2), env={"NCCL_P2P_DISABLE": "1", "HF_TOKEN": "hf_secret"},
        args={"disable-custom-all-reduce": True, "reasoning-parser": "qwen3"},
    )  # fmt: skip
    assert shell_command(variant, VLLM, port=8000, on_gpu=True, revision=COMMIT) == snapshot("""\
# qwen:int8: vllm 0.32.0
# needs HF_TOKEN in the environment
CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1 \\
  NCCL_P2P_DISABLE=1 \\
  vllm serve org/int8 \\
  --host 127.0.0.1 \\
  --port 8000 \\
  --served-model-name qwen \\
  --max-model-len 32768 \\
  --tensor-parallel-size 2 \\
  --max-num-seqs 2 \\
  --speculative-config '{"method":"mtp","num_speculative_tokens":2}' \\
  --revision 0123456789abcdef0123456789abcdef01234567 \\
  --disable-custom-all-reduce \\
  --reasoning-parser qwen3\
""")


def test_a_command_variant_is_its_own_command() -> None:
    variant = Variant("m", "c", EngineRef("command"), command=("serve", "--port", "${port}"))
    flags = packaged_flags("command")
    assert shell_command(variant, flags, port=8000, on_gpu=False) == "# m:c: command\nserve \\\n  --port 8000"


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@given(words.filter(lambda word: not word.startswith("-")), words)
def test_a_shell_reads_every_word_as_it_was_meant(value: str, variable: str) -> None:
    variant = Variant("m", "v", EngineRef("vllm"), weights="o/n", args={"dtype": value}, env={"NAME": variable})
    text = shell_command(variant, VLLM, port=8000, on_gpu=True).partition("\n")[2]
    read = shlex.split(text)
    assert read[0] == f"NAME={variable}"
    assert read[read.index("--dtype") + 1] == value


def test_the_settings_of_a_lock_are_json() -> None:
    assert json.loads(lock_text(Lock({"m:v": recipe()})))["recipes"]["m:v"]["settings"] == recipe().settings
