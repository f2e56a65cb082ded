"""llama-swap files as people write them, carried over; whatever comes out loads."""
# ruff: noqa: E501 - files are kept as people write them, and results as they are written

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from inline_snapshot import snapshot

from gearshift.advice.importers import Imported, import_llama_swap
from gearshift.config import parse_config
from gearshift.domain.errors import ConfigError
from gearshift.domain.settings import Settings
from gearshift.domain.variant import EngineRef, Filters, Probe, Speculation, Variant

_FILE = Path("/home/me/gearshift.yaml")
_ENV = {"HOME": "/home/me", "SWAP_KEY": "s", "ROOT": "/srv"}


def _settings(imported: Imported) -> Settings:
    return parse_config(imported.text, file=_FILE, env=_ENV).settings


def _variant(cmd: str, **keys: object) -> Variant:
    """The one variant that a file with one model becomes."""
    text = yaml.safe_dump({"models": {"m": {"cmd": cmd, **keys}}})
    return _settings(import_llama_swap(text)).variants()["m:main"]


_BOX = """\
healthCheckTimeout: 360
logLevel: info
globalTTL: 600
startPort: 9001
macros:
  models-dir: /srv/models
  llama: >
    /opt/llama.cpp/build/bin/llama-server --port ${PORT} -ngl 99 -fa on --jinja
  vllm-env: /opt/vllm
apiKeys:
  - "${env.SWAP_KEY}"
  - "sk-plain-text"
models:
  "qwen-q8":
    aliases: [qwen, "gpt-4o-mini"]
    name: Qwen 27B
    cmd: |
      ${llama}
      # the big one
      -m ${models-dir}/Qwen3.6-27B-Q8_0.gguf --alias Qwen3.6-27B-Q8
      -c 131072 -ctk q8_0 -ctv q8_0 -np 1 --device CUDA0,CUDA1 -ts 24,24
      --spec-type draft-mtp --spec-draft-n-max 3 --no-mmap
      --chat-template-file ${models-dir}/t.jinja --chat-template-kwargs '{"preserve_thinking":true}'
      --temp 0.6 --top-p 0.95 --metrics
    ttl: 0
    filters:
      stripParams: "temperature, top_k"
      setParams: {enable_thinking: false}
  "qwen-int8":
    env: [NCCL_P2P_DISABLE=1, "CUDA_VISIBLE_DEVICES=0,1"]
    cmd: >
      ${vllm-env}/bin/vllm serve /srv/models/int8 --served-model-name Qwen --host 127.0.0.1 --port ${PORT}
      --tensor-parallel-size 2 --max-model-len 32768 --kv-cache-dtype fp8_e5m2 --max-num-seqs 2
      --speculative-config '{"method":"qwen3_5_mtp","num_speculative_tokens":2}' --enable-auto-tool-choice
      --tool-call-parser qwen3_coder --gpu-memory-utilization 0.90 --trust-remote-code
      --override-generation-config '{"temperature":0.6}'
    useModelName: Qwen
    concurrencyLimit: 4
  docker-tts:
    proxy: "http://127.0.0.1:${PORT}"
    cmd: docker run --rm --name ${MODEL_ID} -p ${PORT}:8000 ghcr.io/x/kokoro:latest
    cmdStop: docker stop ${MODEL_ID}
    checkEndpoint: /v1/health
    unlisted: true
    useModelName: kokoro
groups:
  big: {swap: true, exclusive: true, members: [qwen-q8, qwen-int8, nobody]}
  forever: {swap: false, exclusive: false, persistent: true, members: [docker-tts]}
hooks: {on_startup: {preload: [gpt-4o-mini]}}
"""


def test_a_box_with_both_engines_and_a_container_is_carried_over() -> None:
    assert import_llama_swap(_BOX).text == snapshot("""\
# Imported from llama-swap.
# Not carried over as it was:
#   - listen: llama-swap has it on its command line, port 8080 on every address unless given; loopback only
#     here
#   - apiKeys: put key 2 into the environment variable GEARSHIFT_KEY_2, never into the file
#   - qwen-q8: gpus: counts as nvidia-smi does; the old file counted CUDA devices, which may differ
#   - qwen-q8: sampling flags became sampling: they are set in each request that is silent about them
#   - qwen-q8: no-mmap became load-mode: none; builds before June 2026 know the old name only
#   - qwen-q8: name: is not listed
#   - qwen-int8: speculation method qwen3_5_mtp is written mtp, as vLLM now calls it
#   - qwen-int8: CUDA_VISIBLE_DEVICES became gpus:, which counts as nvidia-smi does
#   - qwen-int8: concurrencyLimit: became queue_limit:, which counts waiting requests only
#   - qwen-int8: useModelName: is dropped; the engine is always asked under the name it serves
#   - docker-tts: memory: is not declared, so it shares a device with nobody; declare it to keep others beside
#     it
#   - docker-tts: unlisted: every model is listed
#   - group big: no model is called nobody

listen: 127.0.0.1:8080
api_keys: [{name: client-1, key_env: SWAP_KEY}, {name: client-2, key_env: GEARSHIFT_KEY_2}]
defaults:
  load_timeout: 360s
  stop_grace: 10s
  idle:
    unload_after: 600s
models:
  qwen-q8:
    aliases: [qwen, gpt-4o-mini]
    variants:
      main:
        engine: llama.cpp@/opt/llama.cpp/build/bin/llama-server
        weights: /srv/models/Qwen3.6-27B-Q8_0.gguf
        context: 131072
        parallel: 1
        kv_dtype: q8_0
        gpus: [0, 1]
        speculation:
          method: mtp
          tokens: 3
        sampling:
          temperature: 0.6
          top_p: 0.95
        template: /srv/models/t.jinja
        args:
          flash-attn: 'on'
          jinja: true
          tensor-split: 24,24
          chat-template-kwargs: '{"preserve_thinking":true}'
          load-mode: none
        idle:
          unload_after: 'off'
        filters:
          drop: [temperature, top_k]
          force:
            enable_thinking: false
  qwen-int8:
    variants:
      main:
        engine: vllm@/opt/vllm
        weights: /srv/models/int8
        context: 32768
        kv_dtype: fp8_e5m2
        parallel: 2
        gpus: [0, 1]
        speculation:
          method: mtp
          tokens: 2
        args:
          enable-auto-tool-choice: true
          tool-call-parser: qwen3_coder
          gpu-memory-utilization: 0.9
          trust-remote-code: true
          override-generation-config: '{"temperature":0.6}'
        env:
          NCCL_P2P_DISABLE: "1"
        queue_limit: 4
  docker-tts:
    variants:
      main:
        engine: command
        command: [docker, run, --rm, --name, docker-tts, -p, '${port}:8000', 'ghcr.io/x/kokoro:latest']
        stop: [docker, stop, docker-tts]
        probe: http:/v1/health
        args:
          served-model-name: kokoro
groups:
  big:
    members: [qwen-q8, qwen-int8]
    swap: true
    exclusive: true
    persistent: false
  forever:
    members: [docker-tts]
    swap: false
    exclusive: false
    persistent: true
preload: [qwen-q8]
""")


def test_what_comes_out_of_it_loads() -> None:
    settings_ = _settings(import_llama_swap(_BOX))
    assert list(settings_.variants()) == ["qwen-q8:main", "qwen-int8:main", "docker-tts:main"]
    assert [key.name for key in settings_.api_keys] == ["client-1", "client-2"]
    assert settings_.preload == ("qwen-q8:main",)
    assert settings_.variants()["qwen-int8:main"].timing.unload_after_s == 600.0
    assert settings_.variants()["qwen-q8:main"].timing.unload_after_s is None


def test_no_secret_of_the_old_file_is_in_the_new_one() -> None:
    assert "sk-plain-text" not in import_llama_swap(_BOX).text


def test_every_recognised_flag_finds_its_field() -> None:
    variant = _settings(import_llama_swap(_BOX)).variants()["qwen-q8:main"]
    assert variant.engine == EngineRef("llama.cpp", path=Path("/opt/llama.cpp/build/bin/llama-server"))
    assert variant.weights == "/srv/models/Qwen3.6-27B-Q8_0.gguf"
    assert (variant.context, variant.kv_dtype, variant.parallel, variant.gpus) == (131072, "q8_0", 1, (0, 1))
    assert variant.speculation == Speculation("mtp", 3)
    assert variant.template == Path("/srv/models/t.jinja")
    assert variant.sampling == {"temperature": 0.6, "top_p": 0.95}
    assert variant.filters == Filters(("temperature", "top_k"), {"enable_thinking": False})
    assert variant.args == {
        "flash-attn": "on",
        "jinja": True,
        "tensor-split": "24,24",
        "chat-template-kwargs": '{"preserve_thinking":true}',
        "load-mode": "none",
    }


def test_a_container_keeps_its_words_its_stop_and_its_name() -> None:
    variant = _settings(import_llama_swap(_BOX)).variants()["docker-tts:main"]
    assert variant.command is not None
    assert variant.command[-3:] == ("-p", "${port}:8000", "ghcr.io/x/kokoro:latest")
    assert variant.stop == ("docker", "stop", "docker-tts")
    assert variant.probe == Probe("http", "/v1/health")
    assert variant.args == {"served-model-name": "kokoro"}
    assert variant.upstream is None


def test_a_fixed_proxy_becomes_the_upstream() -> None:
    variant = _variant("my-server --listen 9999", proxy="http://localhost:9999/")
    assert variant.upstream == "http://localhost:9999"


def test_a_server_without_health_is_not_probed() -> None:
    assert _variant("my-server ${PORT}", checkEndpoint="none").probe == Probe("none")


def test_global_environment_macros_stay_placeholders() -> None:
    assert _variant("llama-server --port ${PORT} -m ${env.ROOT}/x.gguf").weights == "/srv/x.gguf"


def test_macros_of_a_model_win_and_may_use_those_before_them() -> None:
    text = """\
macros: {size: 4096, base: "-c ${size}"}
models:
  a: {cmd: "llama-server -m /x.gguf ${base} --port ${PORT}", macros: {size: 8192}}
"""
    assert _settings(import_llama_swap(text)).variants()["a:main"].context == 8192


def test_macros_in_a_circle_end() -> None:
    text = 'macros: {a: "${b}x", b: "${a}y"}\nmodels: {m: {cmd: "srv ${a} ${PORT}"}}'
    imported = import_llama_swap(text)
    assert "m:main" in _settings(imported).variants()


def test_a_shell_s_own_dollar_signs_stay_as_they_are() -> None:
    variant = _variant("bash -c 'exec srv --port ${PORT} $HOME ${unknown}'")
    assert variant.command == ("bash", "-c", "exec srv --port ${port} $HOME ${unknown}")


def test_line_continuations_and_comments_do_not_reach_the_command() -> None:
    variant = _variant("llama-server \\\n  --port ${PORT} \\\n  # a comment\n  -m /x.gguf -c 4096\n")
    assert (variant.weights, variant.context, variant.args) == ("/x.gguf", 4096, {})


def test_a_command_line_that_is_not_understood_in_full_stays_a_command() -> None:
    variant = _variant("llama-server -m /x.gguf --port ${PORT} stray words")
    assert variant.engine.kind == "command"
    assert variant.command == ("llama-server", "-m", "/x.gguf", "--port", "${port}", "stray", "words")


def test_an_engine_that_is_told_its_port_by_a_variable_stays_a_command() -> None:
    variant = _variant("llama-server -m /x.gguf", env=["LLAMA_ARG_PORT=${PORT}"])
    assert variant.engine.kind == "command"
    assert variant.env == {"LLAMA_ARG_PORT": "${port}"}


def test_a_visible_subset_of_cards_is_translated_through_the_device_list() -> None:
    variant = _variant("llama-server -m /x.gguf --device CUDA1 --port ${PORT}", env=["CUDA_VISIBLE_DEVICES=2,3", "A=b"])
    assert variant.gpus == (3,)
    assert variant.env == {"A": "b"}


@pytest.mark.parametrize("style", ["old", "new"])
def test_groups_are_read_from_both_places(style: str) -> None:
    groups = {"g": {"members": ["a"]}}
    where: dict[str, Any] = {"groups": groups} if style == "old" else {
        "routing": {"router": {"use": "group", "settings": {"groups": groups}}}
    }  # fmt: skip
    models = {name: {"cmd": f"llama-server -m /{name}.gguf --port ${{PORT}}"} for name in ("a", "b", "c")}
    found = _settings(import_llama_swap(yaml.safe_dump({"models": models, **where}))).groups
    assert [(group.name, group.members, group.swap, group.exclusive) for group in found] == [
        ("g", ("a:main",), True, True),
        ("rest", ("b:main", "c:main"), True, True),
    ]


def test_a_matrix_is_named_as_lost() -> None:
    text = "models: {a: {cmd: 'llama-server -m /x.gguf'}}\nmatrix: {vars: {x: a}, sets: {s: x}}"
    imported = import_llama_swap(text)
    assert _settings(imported).groups == ()
    assert any(note.startswith("matrix:") for note in imported.notes)


def test_each_thing_that_is_lost_has_a_note() -> None:
    text = """\
sendLoadingState: true
profiles: {}
selectors: {}
peers: {}
captureBuffer: 5
somethingNew: 1
routing: {scheduler: {use: fifo, settings: {fifo: {priority: {a: 1}}}}}
models:
  a:
    cmd: llama-server -m /x.gguf --port ${PORT} --api-key k --some-new-flag 3
    cmdStop: kill ${PID}
    checkEndpoint: /ready
    description: d
    metadata: {}
    timeouts: {}
    compat: {}
    capabilities: {}
    healthCheckTimeout: 3
    unloadTimeout: 3
    mystery: 1
    filters: {setParamsByID: {x: {}}}
  empty: {}
hooks: {on_startup: {preload: [nobody]}}
"""
    assert "\n".join(import_llama_swap(text).notes) == snapshot("""\
empty: has no cmd
listen: llama-swap has it on its command line, port 8080 on every address unless given; loopback only here
a: api-key of the engine is dropped: engines listen on loopback, clients' keys go to api_keys:
a: llama.cpp has no flag some-new-flag that we know of; kept, to be judged by config check
a: cmdStop: is dropped; the engine's whole process tree is stopped and verified
a: checkEndpoint: is dropped; readiness is the engine's health answer and one token
a: filters.setParamsByID: write a variant for each id, with extends: and filters: {force: ...}
a: description: is not listed
a: metadata: is not listed
a: capabilities: has no counterpart
a: timeouts: streams have no time limit; loads have load_timeout and stall_timeout
a: compat: has no counterpart
a: healthCheckTimeout: was never used for one model; load_timeout: would be
a: mystery: is not known and was left out
the group `rest` keeps llama-swap's rule that one ungrouped model is loaded at a time; take it out and variants stay together wherever they fit
preload: no model is called nobody
profiles: aliases, or a model with several variants and a route, do their work
selectors: a model with several variants and route: auto does their work
peers: requests are not passed on to other servers
captureBuffer: requests and answers are not recorded
sendLoadingState: a waiting stream gets comment lines instead of reasoning text
somethingNew: is not known and was left out
routing.scheduler: queues are served in order of arrival, without priorities; see max_wait:\
""")


def test_what_is_no_yaml_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"old\.yaml:2"):
        import_llama_swap("models:\n\t- x", file=Path("old.yaml"))
