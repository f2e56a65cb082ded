"""A first configuration from what a box has."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from gearshift.advice.starter import find_gguf, starter_config
from gearshift.config import parse_config
from gearshift.domain.device import Device
from gearshift.domain.engine import EngineInstall

_LLAMACPP = EngineInstall("llama.cpp", "11434", ("llama-server",), Path("/state/engines/llama.cpp-11434"), managed=True)
_OWN = EngineInstall("llama.cpp", None, ("/opt/bin/llama-server",), Path("/opt/bin/llama-server"), managed=False)
_VLLM = EngineInstall("vllm", "0.32.0", ("vllm", "serve"), Path("/state/engines/vllm-0.32.0"), managed=True)
_GPU = Device("GPU-12ab", 0, "NVIDIA GeForce RTX 3090", 24 * 1024**3)
_CPU = Device("cpu", None, "host memory", 30 * 1024**3)


def test_files_that_differ_in_quantization_become_variants_of_one_model() -> None:
    files = [
        Path("/m/Qwen3-8B-Q8_0.gguf"),
        Path("/m/Qwen3-8B-UD-Q4_K_XL.gguf"),
        Path("/my models/SmolLM2-135M-Instruct.Q4_1.gguf"),
        Path("/m/big-Q6_K-00001-of-00003.gguf"),
        Path("/m/again/Qwen3-8B-Q8_0.gguf"),
        Path("/m/nameless.gguf"),
    ]
    assert starter_config([_LLAMACPP, _VLLM], files, [_GPU, _CPU]) == snapshot("""\
# Gearshift: one endpoint for every way to run your models.
# Every key is in docs/configuration.md.
# Device GPU 0, NVIDIA GeForce RTX 3090: 24 GiB
# Device cpu: 30 GiB
# Engine llama.cpp 11434: /state/engines/llama.cpp-11434
# Engine vllm 0.32.0: /state/engines/vllm-0.32.0

listen: 127.0.0.1:8888

# Clients ask for a model by name, or for model:variant.
# context is 8K at first: raise it until the memory is used; left out,
# llama.cpp takes what the model was trained for. args: takes any flag of the
# engine under its long name. `gearshift config check` judges a change.
models:
  qwen3-8b:
    variants:
      q8_0: {engine: llama.cpp, weights: /m/Qwen3-8B-Q8_0.gguf, context: 8K}
      ud-q4_k_xl: {engine: llama.cpp, weights: /m/Qwen3-8B-UD-Q4_K_XL.gguf, context: 8K}
      q8_0-2: {engine: llama.cpp, weights: /m/again/Qwen3-8B-Q8_0.gguf, context: 8K}
  smollm2-135m-instruct:
    variants:
      q4_1: {engine: llama.cpp, weights: /my models/SmolLM2-135M-Instruct.Q4_1.gguf, context: 8K}
  big:
    variants:
      q6_k: {engine: llama.cpp, weights: /m/big-Q6_K-00001-of-00003.gguf, context: 8K}
  nameless:
    variants:
      gguf: {engine: llama.cpp, weights: /m/nameless.gguf, context: 8K}

# vLLM is here too. A variant of it, under a model's variants:
#   fp16: {engine: vllm, weights: org/name, context: 8K}
""")


def test_an_engine_of_the_user_s_own_is_named_by_its_path() -> None:
    text = starter_config([_OWN], [Path("/m/a-Q8_0.gguf")], [_CPU])
    variant = parse_config(text, file=None, env={}).settings.variants()["a:q8_0"]
    assert variant.engine.path == Path("/opt/bin/llama-server")


def test_without_an_engine_or_weights_the_comments_say_how_to_get_them() -> None:
    assert starter_config([], [], [_CPU]) == snapshot("""\
# Gearshift: one endpoint for every way to run your models.
# Every key is in docs/configuration.md.
# Device cpu: 30 GiB

listen: 127.0.0.1:8888

# No llama.cpp was found: `gearshift engine install llama.cpp` builds one.
# No GGUF file was found. Write for example:
#   models:
#     my-model:
#       variants:
#         q8: {engine: llama.cpp, weights: ~/models/my-model-Q8_0.gguf, context: 8K}
models: {}
""")
    assert "Found: /m/a.gguf" in starter_config([], [Path("/m/a.gguf")], [_CPU])


_names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20
)


@given(st.lists(_names.map(lambda name: Path("/m") / f"{name}.gguf"), max_size=4))
def test_a_starting_configuration_always_loads(files: list[Path]) -> None:
    text = starter_config([_LLAMACPP, _VLLM], files, [_GPU])
    variants = parse_config(text, file=None, env={}).settings.variants()
    assert sorted(str(variant.weights) for variant in variants.values()) == sorted(str(file) for file in files)


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_only_whole_models_are_found(tmp_path: Path) -> None:
    _touch(
        tmp_path,
        "a/x-Q8_0.gguf",
        "a/mmproj-x-F16.gguf",
        "a/x.mmproj.gguf",
        "a/x-imatrix.gguf",
        "a/ggml-vocab-x.gguf",
        "a/big-00001-of-00002.gguf",
        "a/big-00002-of-00002.gguf",
        "a/readme.md",
        "b/UPPER.GGUF",
        ".hidden/y.gguf",
        "1/2/3/4/5/6/7/deep.gguf",
    )
    found = find_gguf([tmp_path, tmp_path / "a", tmp_path / "absent"], 10)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        "a/big-00001-of-00002.gguf",
        "a/x-Q8_0.gguf",
        "b/UPPER.GGUF",
    ]


def test_no_more_files_are_found_than_asked_for(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"{number}.gguf" for number in range(9)))
    assert [path.name for path in find_gguf([tmp_path], 2)] == ["0.gguf", "1.gguf"]
