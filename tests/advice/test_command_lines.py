"""Command lines as people write them, taken apart."""

from __future__ import annotations

import shlex

import pytest

from gearshift.advice.importers.command_line import read_command_line
from gearshift.advice.importers.native import native_variant


@pytest.mark.parametrize(
    ("line", "kind", "path"),
    [
        ("llama-server -m x", "llama.cpp", None),
        ("/opt/bin/llama-server -m x", "llama.cpp", "/opt/bin/llama-server"),
        ("vllm serve o/n", "vllm", None),
        ("/opt/venv/bin/vllm serve o/n", "vllm", "/opt/venv"),
        ("python3.12 -m vllm.entrypoints.openai.api_server --model o/n", "vllm", None),
        ("venv/bin/python -m vllm.entrypoints.openai.api_server --model o/n", "vllm", "venv"),
        ("env A=1 llama-server -m x", "llama.cpp", None),
        ("A=1 vllm serve o/n", "vllm", None),
        ("vllm bench serve", "command", None),
        ("docker run llama-server", "command", None),
        ("python -m http.server", "command", None),
        ("", "command", None),
    ],
)
def test_engines_are_recognised_by_how_they_are_started(line: str, kind: str, path: str | None) -> None:
    read = read_command_line(shlex.split(line))
    assert (read.kind, read.path) == (kind, path)


def test_variables_in_front_are_the_engine_s_environment() -> None:
    assert read_command_line(["env", "A=1", "B=x=y", "vllm", "serve", "o/n"]).env == {"A": "1", "B": "x=y"}


def test_flags_are_known_by_every_name_and_form() -> None:
    line = "-m x.gguf -c 10 --flash-attn=on -nocb --no-jinja -ot a=CPU -ot b=CPU --temp -1 --unknown-switch --unknown 3"
    read = read_command_line(["llama-server", *shlex.split(line)])
    assert read.flags == {
        "model": "x.gguf",
        "ctx-size": "10",
        "flash-attn": "on",
        "cont-batching": False,
        "jinja": False,
        "override-tensor": ["a=CPU", "b=CPU"],
        "temp": "-1",
        "unknown-switch": True,
        "unknown": "3",
    }
    assert read.unknown == ["unknown-switch", "unknown"]
    assert read.stray == []


def test_the_last_of_a_repeated_flag_counts() -> None:
    assert read_command_line(shlex.split("llama-server -c 1 -c 2")).flags == {"ctx-size": "2"}


def test_a_flag_with_several_values_takes_them_all() -> None:
    read = read_command_line(shlex.split("vllm serve o/n --served-model-name a b --dtype half"))
    assert read.flags == {"served-model-name": ["a", "b"], "dtype": "half", "model": "o/n"}


def _fields(line: str) -> dict[str, object]:
    read = read_command_line(shlex.split(line))
    return native_variant(read.kind, read.flags).fields


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("llama-server -hf o/n:Q8_0", {"weights": "o/n:Q8_0"}),
        ("llama-server -m x -hf o/n", {"weights": "x"}),
        ("llama-server -m x -c 0", {"weights": "x", "args": {"ctx-size": 0}}),
        ("llama-server -m x -np -1", {"weights": "x"}),
        ("llama-server -m x -ctk q8_0", {"weights": "x", "kv_dtype": "q8_0,f16"}),
        ("llama-server -m x -ngl 20", {"weights": "x", "args": {"gpu-layers": 20}}),
        ("llama-server -m x -ngl 999", {"weights": "x"}),
        ("llama-server -m x --device Vulkan0", {"weights": "x", "args": {"device": "Vulkan0"}}),
        ("llama-server -m x -md d", {"weights": "x", "speculation": {"method": "draft", "draft": "d"}}),
        (
            "llama-server -m x --spec-type draft-eagle3 -md d",
            {"weights": "x", "args": {"spec-type": "draft-eagle3", "spec-draft-model": "d"}},
        ),
        ("llama-server -m x --embedding", {"weights": "x", "probe": "embedding", "args": {"embedding": True}}),
        ("llama-server -m x --reranking", {"weights": "x", "probe": "rerank", "args": {"rerank": True}}),
        ("llama-server -m x --mlock", {"weights": "x", "args": {"load-mode": "mlock"}}),
        ("vllm serve o/n -tp 2", {"weights": "o/n", "gpus": [0, 1]}),
        (
            "vllm serve o/n -tp 2 --pipeline-parallel-size 2",
            {"weights": "o/n", "args": {"tensor-parallel-size": 2, "pipeline-parallel-size": 2}},
        ),
        ("vllm serve o/n --max-model-len auto --kv-cache-dtype auto", {"weights": "o/n"}),
        ("vllm serve o/n --kv-cache-memory-bytes 9150000000", {"weights": "o/n", "kv_bytes": 9_150_000_000}),
        ("vllm serve o/n --enable-sleep-mode", {"weights": "o/n", "sleep": True}),
        ("vllm serve o/n --no-enable-prefix-caching", {"weights": "o/n", "args": {"enable-prefix-caching": False}}),
        (
            """vllm serve o/n --speculative-config '{"method":"eagle3","model":"d","num_speculative_tokens":2}'""",
            {"weights": "o/n", "speculation": {"method": "eagle3", "tokens": 2, "draft": "d"}},
        ),
        (
            """vllm serve o/n --speculative-config '{"method":"ngram","prompt_lookup_max":4}'""",
            {"weights": "o/n", "args": {"speculative-config": '{"method":"ngram","prompt_lookup_max":4}'}},
        ),
        (
            "vllm serve o/n --speculative-config nonsense",
            {"weights": "o/n", "args": {"speculative-config": "nonsense"}},
        ),
        ("vllm serve o/n --chat-template t.jinja", {"weights": "o/n", "template": "t.jinja"}),
        ("vllm serve o/n --chat-template '{{ x }}'", {"weights": "o/n", "args": {"chat-template": "{{ x }}"}}),
    ],
)
def test_flags_that_have_a_neutral_field_become_it(line: str, fields: dict[str, object]) -> None:
    assert _fields(line) == fields
