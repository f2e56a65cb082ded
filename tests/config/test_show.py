"""`config show`: the resolved file with origins, which loads to the same settings again."""

from __future__ import annotations

from inline_snapshot import snapshot

from config.reading import Load
from gearshift.config import show

_TEXT = """\
api_keys: [{name: laptop, key_env: KEY}]
defaults: {max_wait: 30s}
models:
  m:
    aliases: [n]
    sampling: {temperature: 0.6, stop: "\\n"}
    variants:
      q8: {engine: llama.cpp, weights: o/n, context: 32K, kv_dtype: q8_0, args: {flash-attn: on, x: "1e5"}}
      long: {extends: q8, context: 128K, env: {HF_TOKEN: abc, OTHER_TOKEN: "${env:T}"}, args: {x: null}}
"""


def test_a_shown_file_says_where_each_value_came_from(load: Load) -> None:
    loaded = load(_TEXT, {"KEY": "very secret", "T": "hidden"})
    assert show(loaded) == snapshot("""\
listen: '127.0.0.1:8888'  # default
api_keys: [{name: laptop, key_env: KEY}]  # gearshift.yaml:1
allow_open: false  # default
cors_origins: []  # default
allowed_hosts: []  # default
body_limit: 256MiB  # default
keepalive: 10s  # default
groups: {}  # default
preload: []  # default
side:
  headers: {}  # default
  aliases: []  # default
models:
  m:
    aliases: [n]  # gearshift.yaml:5
    route: auto  # default
    variants:
      q8:
        engine: llama.cpp  # gearshift.yaml:8
        weights: o/n  # gearshift.yaml:8
        context: 32K  # gearshift.yaml:8
        kv_dtype: q8_0  # gearshift.yaml:8
        # kv_bytes: the engine's choice
        # parallel: the engine's choice
        probe: chat  # default
        # max_inflight: the engine's choice
        args:
          flash-attn: 'on'  # gearshift.yaml:8
          x: "1e5"  # gearshift.yaml:8
        sampling:
          temperature: 0.6  # model, gearshift.yaml:6
          stop: "\\n"  # model, gearshift.yaml:6
        filters:
          drop: []  # default
          force: {}  # default
        load_timeout: 10m  # default
        stall_timeout: 3m  # default
        stop_grace: 15s  # default
        memory_timeout: 30s  # default
        drain_timeout: 'off'  # default
        max_wait: 30s  # defaults, gearshift.yaml:2
        min_resident: 10s  # default
        idle:
          unload_after: 10m  # default
        probe_every: 30s  # default
        probe_timeout: 30s  # default
        queue_limit: 100  # default
        meter: active  # default
        env: {}  # default
      long:
        engine: llama.cpp  # extends q8, gearshift.yaml:8
        weights: o/n  # extends q8, gearshift.yaml:8
        context: 128K  # gearshift.yaml:9
        kv_dtype: q8_0  # extends q8, gearshift.yaml:8
        # kv_bytes: the engine's choice
        # parallel: the engine's choice
        probe: chat  # default
        # max_inflight: the engine's choice
        args:
          flash-attn: 'on'  # extends q8, gearshift.yaml:8
        sampling:
          temperature: 0.6  # model, gearshift.yaml:6
          stop: "\\n"  # model, gearshift.yaml:6
        filters:
          drop: []  # default
          force: {}  # default
        load_timeout: 10m  # default
        stall_timeout: 3m  # default
        stop_grace: 15s  # default
        memory_timeout: 30s  # default
        drain_timeout: 'off'  # default
        max_wait: 30s  # defaults, gearshift.yaml:2
        min_resident: 10s  # default
        idle:
          unload_after: 10m  # default
        probe_every: 30s  # default
        probe_timeout: 30s  # default
        queue_limit: 100  # default
        meter: active  # default
        env:
          HF_TOKEN: (redacted)  # gearshift.yaml:9
          OTHER_TOKEN: '${env:T}'  # gearshift.yaml:9
""")


def test_a_shown_file_loads_to_the_same_settings(load: Load) -> None:
    text = _TEXT.replace("HF_TOKEN: abc, ", "")
    env = {"KEY": "very secret", "T": "hidden"}
    loaded = load(text, env)
    assert load(show(loaded), env).settings == loaded.settings


def test_no_secret_is_shown(load: Load) -> None:
    text = """\
api_keys: [{name: laptop, key_env: KEY}]
models:
  m:
    variants:
      v: {engine: vllm, weights: o/n, args: {hf-token: abc1}, env: {MY_API_KEY: abc2, A: "${env:S}"}}
"""
    loaded = load(text, {"KEY": "abc3", "S": "abc4"})
    shown = show(loaded)
    assert "abc" not in shown
    assert "abc" not in str(loaded.origins)
    assert shown.count("(redacted)") == 2


def test_placeholders_deep_inside_a_value_stay_as_written(load: Load) -> None:
    text = """\
engines: {vllm: {path: venv}}
models:
  m:
    variants:
      v: {engine: vllm, weights: o/n, args: {x: ["${env:S}", "$${y}"], z: {k: "${env:S}"}}}
      c: {engine: command, command: [sh, -c, "echo $${HOME} ${port} ${env:S}"], memory: 1GiB}
"""
    loaded = load(text, {"S": "abc"})
    assert "abc" not in show(loaded)
    assert load(show(loaded), {"S": "abc"}).settings == loaded.settings
