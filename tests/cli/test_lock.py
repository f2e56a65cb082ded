"""`gearshift lock`: what it writes, what it hands on, and the commands a variant stands for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from advice.plan_models import write_hybrid_gguf
from artifacts.gguf_bytes import gguf_bytes
from fakes.hub import COMMIT, FakeHub, serving
from gearshift.domain.paths import resolve_paths
from gearshift.domain.variant import EngineRef
from gearshift.toolchain import Toolchain, demo_gguf

Gearshift = Callable[..., Result]

CONFIG = """\
models:
  qwen:
    sampling: {temperature: 0.6}
    variants:
      q8:
        engine: {kind: llama.cpp, path: bin/llama-server}
        weights: models/qwen-q8.gguf
        context: 8192
        template: terse.jinja
        env: {HF_TOKEN: hf_secret, GGML_CUDA_P2P: "1"}
"""
TEMPLATE = "{# v22.2 #}\n" + "".join(f"{{# line {number} #}}\n" for number in range(40)) + "{{ messages }}\n"
TERSE = TEMPLATE.replace("v22.2", "v22.2 terse").replace("{{ messages }}", "be terse\n{{ messages }}")
ENGINE = '#!/bin/sh\ncase "$1" in --version) echo "version: 11434 (0123abcd)" ;; *) exit 1 ;; esac\n'


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder with a configuration, a model that brings a template, an edit of that, and an engine."""
    (tmp_path / "models").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "models/qwen-q8.gguf").write_bytes(gguf_bytes({"tokenizer.chat_template": TEMPLATE}))
    (tmp_path / "terse.jinja").write_text(TERSE)
    (tmp_path / "gearshift.yaml").write_text(CONFIG)
    (tmp_path / "bin/llama-server").write_text(ENGINE)
    (tmp_path / "bin/llama-server").chmod(0o755)
    return tmp_path


@pytest.fixture
def hub(box: Path) -> Iterator[FakeHub]:
    files = {"gguf/qwen-q8.gguf": (box / "models/qwen-q8.gguf").read_bytes()}
    with serving(FakeHub(files, repository="org/qwen-GGUF", large=frozenset(files))) as served:
        yield served


def lock(gearshift: Gearshift, box: Path, *arguments: str, hub: FakeHub | None = None) -> Result:
    env = {"HF_ENDPOINT": hub.url} if hub else {}
    return gearshift("lock", "-c", str(box / "gearshift.yaml"), *arguments, env=env)


def test_a_lock_holds_everything_that_may_change(gearshift: Gearshift, box: Path) -> None:
    result = lock(gearshift, box)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.replace(str(box), "") == snapshot("""\
hashing qwen-q8.gguf
wrote /gearshift.lock: 1 variant
""")
    text = (box / "gearshift.lock").read_text()
    assert json.loads(text)["recipes"]["qwen:q8"]["settings"]["env"]["HF_TOKEN"] == "${env:HF_TOKEN}"
    assert "hf_secret" not in text
    assert text == snapshot("""\
{
  "format": 1,
  "recipes": {
    "qwen:q8": {
      "settings": {
        "engine": {
          "kind": "llama.cpp",
          "path": "bin/llama-server"
        },
        "weights": "models/qwen-q8.gguf",
        "context": 8192,
        "template": "terse.jinja",
        "sampling": {
          "temperature": 0.6
        },
        "env": {
          "HF_TOKEN": "${env:HF_TOKEN}",
          "GGML_CUDA_P2P": "1"
        }
      },
      "engine": {
        "kind": "llama.cpp",
        "version": "11434",
        "digest": "dfd7807d2f8bf504abfcce85b9e4eb3f440a07404d7f602193693f9b38e01b4e"
      },
      "files": {
        "weights": {
          "files": [
            {
              "name": "qwen-q8.gguf",
              "bytes": 672,
              "sha256": "b9e8694c2dfaeca4fe85a5fd636f772243e2c140e89a288100221b442ea03c08"
            }
          ],
          "folder": "models"
        }
      },
      "template": {
        "sha256": "4f755a79531660dc7256e856a7849dfe0bba0df6e98207964c9b7d6b55266288",
        "file": "terse.jinja",
        "base_sha256": "b47844f2286346e0f06aabdc96f66808975b34730724cfda8739d1c44cb0085d",
        "patch": [
          "--- a/chat_template.jinja",
          "+++ b/chat_template.jinja",
          "@@ -1,4 +1,4 @@",
          "-{# v22.2 #}",
          "+{# v22.2 terse #}",
          " {# line 0 #}",
          " {# line 1 #}",
          " {# line 2 #}",
          "@@ -39,4 +39,5 @@",
          " {# line 37 #}",
          " {# line 38 #}",
          " {# line 39 #}",
          "+be terse",
          " {{ messages }}",
          ""
        ]
      }
    }
  }
}
""")


def test_locking_again_changes_nothing(gearshift: Gearshift, box: Path) -> None:
    lock(gearshift, box)
    before = (box / "gearshift.lock").read_text()
    lock(gearshift, box)
    assert (box / "gearshift.lock").read_text() == before


def test_a_source_is_believed_when_it_holds_the_same_file(gearshift: Gearshift, box: Path, hub: FakeHub) -> None:
    assert lock(gearshift, box, "--source", "qwen:q8=org/qwen-GGUF", hub=hub).exit_code == 0
    weights = json.loads((box / "gearshift.lock").read_text())["recipes"]["qwen:q8"]["files"]["weights"]
    assert (weights["repository"], weights["revision"]) == ("org/qwen-GGUF", COMMIT)
    assert weights["files"][0]["path"] == "gguf/qwen-q8.gguf"
    lock(gearshift, box, hub=hub)
    again = json.loads((box / "gearshift.lock").read_text())["recipes"]["qwen:q8"]["files"]["weights"]
    assert again == weights


def test_a_source_that_holds_another_file_is_refused(gearshift: Gearshift, box: Path, hub: FakeHub) -> None:
    hub.files["gguf/qwen-q8.gguf"] += b"."
    result = lock(gearshift, box, "--source", "qwen:q8=org/qwen-GGUF", hub=hub)
    assert (result.exit_code, "is not the file of org/qwen-GGUF@0123456789ab" in result.stderr) == (1, True)
    assert not (box / "gearshift.lock").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--source", "qwen:q8=qwen"), "'qwen' names no repository; write ORG/NAME or ORG/NAME@REVISION"),
        (("--source", "qwen:q4=o/n"), "--source names qwen:q4, which is not locked now"),
        (("qwen:q4",), "there is no variant qwen:q4 (known: qwen:q8)"),
        (("--export", "--commands"), "give --export or --commands, not both"),
    ],
)
def test_wrong_usage_is_status_two(gearshift: Gearshift, box: Path, arguments: tuple[str, ...], said: str) -> None:
    result = lock(gearshift, box, *arguments)
    assert (result.exit_code, result.stderr.splitlines()[-1].endswith(said)) == (2, True)


def test_an_exported_recipe_names_no_place_of_this_box(gearshift: Gearshift, box: Path, hub: FakeHub) -> None:
    lock(gearshift, box)
    unsourced = lock(gearshift, box, "--export")
    assert "warning: nobody can pull qwen:q8: say where its files are from" in unsourced.stderr
    result = lock(gearshift, box, "--export", "--source", "qwen:q8=org/qwen-GGUF", hub=hub)
    assert str(box) not in result.stdout
    recipe = json.loads(result.stdout)["recipes"]["qwen:q8"]
    assert recipe["settings"] == snapshot(
        {
            "engine": {"kind": "llama.cpp", "version": "11434"},
            "weights": "models/qwen-GGUF/qwen-q8.gguf",
            "context": 8192,
            "template": "templates/terse.jinja",
            "sampling": {"temperature": 0.6},
            "env": {"HF_TOKEN": "${env:HF_TOKEN}", "GGML_CUDA_P2P": "1"},
        }
    )
    assert (recipe["files"]["weights"]["folder"], recipe["template"]["file"]) == (
        "models/qwen-GGUF",
        "templates/terse.jinja",
    )


def test_the_commands_are_printed_for_a_shell(gearshift: Gearshift, box: Path) -> None:
    result = lock(gearshift, box, "--commands")
    assert (result.exit_code, result.stdout.replace(str(box), "/box")) == (
        0,
        snapshot("""\
# qwen:q8: llama.cpp 11434
# needs HF_TOKEN in the environment
GGML_CUDA_P2P=1 \\
  llama-server \\
  --model /box/models/qwen-q8.gguf \\
  --host 127.0.0.1 \\
  --port 8000 \\
  --alias qwen \\
  --metrics \\
  --verbosity 4 \\
  --ctx-size 8192 \\
  --parallel 4 \\
  --kv-unified \\
  --device none \\
  --jinja \\
  --chat-template-file /box/terse.jinja
"""),
    )


def test_what_is_printed_reaches_the_engine_word_by_word(gearshift: Gearshift, box: Path) -> None:
    awkward = """args: {chat-template-kwargs: '{"a": "it''s $HOME"}', alias: "two words"}"""
    (box / "gearshift.yaml").write_text(CONFIG + f"        {awkward}\n")
    command = lock(gearshift, box, "--commands").stdout
    (box / "bin/llama-server").write_text('#!/bin/sh\nprintf "%s\\n" "$GGML_CUDA_P2P" "$@"\n')
    shown = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": f"{box}/bin:/bin"}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert shown[0] == "1"
    assert shown[shown.index("--chat-template-kwargs") + 1] == '{"a": "it\'s $HOME"}'
    assert shown[shown.index("--alias") + 1] == "two words"


@pytest.mark.real
def test_the_printed_command_starts_the_real_engine(gearshift: Gearshift, tmp_path: Path) -> None:
    real = resolve_paths({name: value for name, value in os.environ.items() if name != "GEARSHIFT_HOME"})
    (server,) = Toolchain(real, os.environ).find(EngineRef("llama.cpp")).command
    variant = {"engine": {"kind": "llama.cpp", "path": server}, "weights": str(demo_gguf(real, lambda _: None))}
    settings = {"context": 512, "args": {"chat-template-kwargs": '{"a": 1}'}}
    config = {"models": {"smol": {"variants": {"q4": variant | settings}}}}
    (tmp_path / "gearshift.yaml").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = lock(gearshift, tmp_path, "--commands").stdout.replace("--port 8000", f"--port {port}")
    env = {"PATH": f"{Path(server).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command.partition(chr(10))[2]}"],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as engine:  # fmt: skip
        try:
            assert answers(f"http://127.0.0.1:{port}/health", engine)
        finally:
            engine.terminate()


def answers(url: str, engine: subprocess.Popen[bytes]) -> bool:
    """Whether the engine is healthy within half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end and engine.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - loopback
            return bool(response.status == 200)
        time.sleep(0.05)
    return False


def test_a_variant_is_locked_without_its_engine_and_that_is_said(gearshift: Gearshift, tmp_path: Path) -> None:
    write_hybrid_gguf(tmp_path / "m.gguf")
    file = tmp_path / "gearshift.yaml"
    file.write_text(
        "models: {m: {variants: {a: {engine: {kind: llama.cpp, path: nowhere}, weights: m.gguf},"
        " b: {engine: {kind: vllm, version: 0.27.1}, weights: m.gguf}}}}"
    )
    result = gearshift("lock", "-c", str(file), env={"PATH": "/nowhere", "HOME": str(tmp_path)})
    assert result.exit_code == 0, result.stderr
    assert "m:a: the engine is not pinned" in result.stderr
    assert "m:b: the engine is pinned as the configuration names it, 0.27.1" in result.stderr
    recipes = json.loads((tmp_path / "gearshift.lock").read_text())["recipes"]
    assert [recipes[name]["engine"] for name in ("m:a", "m:b")] == [
        {"kind": "llama.cpp"},
        {"kind": "vllm", "version": "0.27.1"},
    ]
    del recipes["m:b"]
    (tmp_path / "gearshift.lock").write_text(json.dumps({"format": 1, "recipes": recipes}))
    assert gearshift("verify", "--recipe", str(tmp_path / "gearshift.lock")).exit_code == 0
