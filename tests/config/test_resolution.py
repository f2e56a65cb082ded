"""What a sound file resolves to: layers, paths, values."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.reading import Load
from gearshift.config import listen_on
from gearshift.domain.errors import ConfigError
from gearshift.domain.settings import Group, Settings, SideRule
from gearshift.domain.variant import EngineRef, Filters, Probe, Sleep, Speculation, Timing, Variant


def _variant(load: Load, body: str, rest: str = "") -> Variant:
    text = f"models:\n  m:\n    variants:\n      base: {{engine: vllm, weights: o/n}}\n      v: {body}\n{rest}"
    variant: Variant = load(text).settings.variants()["m:v"]
    return variant


def test_an_almost_empty_file_resolves_to_the_defaults_of_the_domain(load: Load) -> None:
    loaded = load("models: {m: {variants: {v: {engine: vllm, weights: o/n}}}}")
    assert loaded.settings.variants()["m:v"] == Variant("m", "v", EngineRef("vllm"), weights="o/n")
    plain = Settings(models=loaded.settings.models)
    assert loaded.settings == plain
    assert loaded.warnings == ()


def test_every_field_of_a_variant_arrives(load: Load, tmp_path: Path) -> None:
    text = """\
models:
  m:
    aliases: [n]
    route: full
    variants:
      full:
        engine: vllm==0.32.0
        weights: org/name
        context: 32K
        gpus: [0, GPU-12ab]
        speculation: {method: draft, tokens: 3, draft: org/small}
        kv_dtype: fp8
        kv_bytes: 9.15GB
        parallel: 4
        template: t.jinja
        probe: http:/ready
        max_inflight: 8
        queue_limit: 5
        memory: {GPU-12ab: 9GiB, cpu: 1GiB}
        args: {a: true, b: false, c: 1.5, d: on, e: [1, two], f: {g: [1, null]}}
        env: {A: 1, B: 1.10, C: true, D: "x"}
        sleep: {level: 2, ram: 1GiB, wake_timeout: 5s}
        load_timeout: 1m
        stall_timeout: off
        stop_grace: 1s
        memory_timeout: 8s
        drain_timeout: 2s
        max_wait: 3s
        min_resident: 4s
        idle: {unload_after: 5s}
        probe_every: 6s
        probe_timeout: 7s
        sampling: {temperature: 0.6}
        filters: {drop: [x], force: {y: null}}
        meter: passive
"""
    assert load(text).settings.variants()["m:full"] == Variant(
        model="m",
        name="full",
        engine=EngineRef("vllm", "0.32.0"),
        weights="org/name",
        context=32768,
        gpus=(0, "GPU-12ab"),
        speculation=Speculation("draft", 3, "org/small"),
        kv_dtype="fp8",
        kv_bytes=9_150_000_000,
        parallel=4,
        template=tmp_path / "t.jinja",
        probe=Probe("http", "/ready"),
        max_inflight=8,
        queue_limit=5,
        memory={"GPU-12ab": 9 * 1024**3, "cpu": 1024**3},
        args={"a": True, "b": False, "c": 1.5, "d": "on", "e": (1, "two"), "f": '{"g":[1,null]}'},
        env={"A": "1", "B": "1.10", "C": "true", "D": "x"},
        sleep=Sleep(2, 1024**3, 5.0),
        timing=Timing(60.0, None, 1.0, 8.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
        sampling={"temperature": 0.6},
        filters=Filters(("x",), {"y": None}),
        meter="passive",
    )


def test_the_server_s_own_keys_arrive(load: Load, tmp_path: Path) -> None:
    text = """\
listen: "[::1]:9000"
api_keys: [{name: a, key_env: A}, {name: b, key_file: b.key, role: operator}]
cors_origins: ["https://chat.example.org"]
allowed_hosts: [box.example.org]
body_limit: 1MiB
memory: 8GiB
keepalive: 5s
engines: {llama.cpp: {path: bin/llama-server}, vllm: {version: 0.32.0}}
models: {m: {aliases: [t], variants: {a: {engine: vllm, weights: o/n}, b: {engine: vllm, weights: o/n}}}}
groups: {g: {members: [m], swap: false, exclusive: true, persistent: true}}
preload: [m]
side: {headers: {X-Side: "*"}, aliases: [t]}
"""
    (tmp_path / "b.key").write_text("from file\n")
    settings = load(text, {"A": "from env"}).settings
    assert (settings.host, settings.port) == ("::1", 9000)
    assert [(key.name, key.secret, key.role) for key in settings.api_keys] == [
        ("a", "from env", "client"),
        ("b", "from file", "operator"),
    ]
    assert settings.cors_origins == ("https://chat.example.org",)
    assert settings.allowed_hosts == ("box.example.org",)
    assert (settings.body_limit_bytes, settings.memory_bytes, settings.keepalive_s) == (1024**2, 8 * 1024**3, 5.0)
    assert settings.engines == {
        "llama.cpp": EngineRef("llama.cpp", path=tmp_path / "bin/llama-server"),
        "vllm": EngineRef("vllm", "0.32.0"),
    }
    assert settings.groups == (Group("g", ("m:a", "m:b"), swap=False, exclusive=True, persistent=True),)
    assert settings.preload == ("m:a",)
    assert settings.side == SideRule({"x-side": "*"}, frozenset({"t"}))


@pytest.mark.parametrize(
    ("listen", "address"),
    [("9000", ("127.0.0.1", 9000)), ("':9000'", ("127.0.0.1", 9000)), ("localhost:1", ("localhost", 1))],
)
def test_a_listen_address_may_be_short(load: Load, listen: str, address: tuple[str, int]) -> None:
    settings = load(f"listen: {listen}").settings
    assert (settings.host, settings.port) == address


def test_a_key_without_its_secret_stays_in_force_and_admits_nobody(load: Load) -> None:
    text = "listen: 0.0.0.0:80\napi_keys: [{name: a, key_env: UNSET}]"
    keys = load(text).settings.api_keys
    assert len(keys) == 1
    assert len(keys[0].secret) >= 32
    assert keys[0].secret != load(text).settings.api_keys[0].secret


@pytest.mark.parametrize("key", ["allow_open: true", "api_keys: [{name: a, key_env: A}]"])
def test_others_are_let_in_only_with_keys_or_by_name(load: Load, key: str) -> None:
    assert load(f"listen: 0.0.0.0:80\n{key}", {"A": "s"}).settings.host == "0.0.0.0"
    with pytest.raises(ConfigError, match="there are no keys"):
        load("listen: 0.0.0.0:80")


def test_an_address_from_the_command_line_is_judged_like_the_file_s(load: Load) -> None:
    plain = load("models: {}").settings
    keyed = load("api_keys: [{name: a, key_env: A}]", {"A": "s"}).settings
    assert listen_on(plain, "localhost:1").port == 1
    assert listen_on(keyed, "0.0.0.0:2").host == "0.0.0.0"
    with pytest.raises(ConfigError, match="there are no keys"):
        listen_on(plain, "0.0.0.0:2")
    with pytest.raises(ConfigError, match="'x' is not an address"):
        listen_on(plain, "x")


def test_a_variant_goes_over_its_base_over_its_model_over_the_defaults(load: Load) -> None:
    text = """\
defaults: {max_wait: 1s, stop_grace: 1s, min_resident: 1s, sampling: {a: 1, b: 1, c: 1, d: 1}, env: {X: 1, Y: 1}}
models:
  m:
    sampling: {b: 2, c: 2, d: 2}
    variants:
      far: {engine: vllm, weights: o/n, stop_grace: 2s, min_resident: 2s, sampling: {c: 3}, args: {x: 1, y: 1, z: 1}}
      near: {extends: far, min_resident: 3s, sampling: {d: 4}, args: {y: 2}, env: {Y: 2}}
      v: {extends: near, args: {z: 3}}
  other:
    variants:
      v: {extends: "m:near"}
"""
    variants = load(text).settings.variants()
    resolved = variants["m:v"]
    timing = resolved.timing
    assert (timing.max_wait_s, timing.stop_grace_s, timing.min_resident_s) == (1.0, 2.0, 3.0)
    assert resolved.sampling == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert resolved.args == {"x": 1, "y": 2, "z": 3}
    assert resolved.env == {"X": "1", "Y": "2"}
    assert variants["other:v"].sampling == {"a": 1, "b": 1, "c": 3, "d": 4}


def test_null_takes_away_what_was_inherited(load: Load) -> None:
    body = """
        extends: full
        context: null
        speculation: null
        args: {x: null, y: 2}
        env: {A: null}
        sampling: {t: null}
        load_timeout: null
        stall_timeout: null
        idle: {unload_after: null}"""
    full = """
      full:
        engine: vllm
        weights: o/n
        context: 8K
        speculation: {method: mtp}
        args: {x: 1, y: 1}
        env: {A: 1}
        sampling: {t: 1}
        load_timeout: 1m
        stall_timeout: 1m"""
    resolved = _variant(load, f"{body}{full}")
    assert resolved.context is None
    assert resolved.speculation is None
    assert (resolved.args, resolved.env, resolved.sampling) == ({"y": 2}, {}, {})
    assert resolved.timing == Timing(stall_timeout_s=None, unload_after_s=None)


def test_speculation_can_be_switched_off_and_changed_in_one_word(load: Load) -> None:
    text = """\
models:
  m:
    variants:
      mtp: {engine: vllm, weights: o/n, speculation: {method: mtp, tokens: 3}}
      two: {extends: mtp, speculation: {tokens: 2}}
      plain: {extends: mtp, speculation: off}
"""
    variants = load(text).settings.variants()
    assert variants["m:two"].speculation == Speculation("mtp", 2)
    assert variants["m:plain"].speculation is None


def test_yaml_s_own_anchors_and_merge_keys_work(load: Load) -> None:
    text = """\
models:
  m:
    variants:
      a: &a {engine: vllm, weights: o/n, args: {x: 1}}
      b: &b {<<: *a, args: {y: 2}}
      c: {<<: *b, context: 8K}
      d: {<<: [{context: 4K}, *b]}
"""
    variants = load(text).settings.variants()
    assert (variants["m:c"].weights, variants["m:c"].args, variants["m:c"].context) == ("o/n", {"y": 2}, 8192)
    assert (variants["m:d"].args, variants["m:d"].context) == ({"y": 2}, 4096)
    assert variants["m:b"].weights == "o/n"
    assert variants["m:b"].args == {"y": 2}


@pytest.mark.parametrize(
    ("engine", "ref"),
    [
        ("vllm", EngineRef("vllm")),
        ("vllm==0.32.0", EngineRef("vllm", "0.32.0")),
        ("vllm@/opt/venv", EngineRef("vllm", path=Path("/opt/venv"))),
        ("vllm@~/venv", EngineRef("vllm", path=Path("/home/me/venv"))),
        ("{kind: vllm, version: 0.32}", EngineRef("vllm", "0.32")),
        ("{kind: llama.cpp, version: 11434}", EngineRef("llama.cpp", "11434")),
        ("{kind: llama.cpp, path: /x}", EngineRef("llama.cpp", path=Path("/x"))),
    ],
)
def test_an_engine_may_be_pinned_or_the_user_s_own(load: Load, engine: str, ref: EngineRef) -> None:
    assert _variant(load, f"{{engine: {engine}, weights: o/n}}").engine == ref


def test_a_variant_without_a_pin_gets_the_default_installation_of_its_engine(load: Load) -> None:
    text = """\
engines: {vllm: {version: 0.30.0}}
models:
  m:
    variants:
      a: {engine: vllm, weights: o/n}
      b: {engine: vllm==0.25.1, weights: o/n}
      c: {engine: llama.cpp, weights: o/n}
"""
    engines = [variant.engine for variant in load(text).settings.variants().values()]
    assert engines == [EngineRef("vllm", "0.30.0"), EngineRef("vllm", "0.25.1"), EngineRef("llama.cpp")]


def test_weights_are_paths_where_there_is_one_and_hub_ids_otherwise(load: Load, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "org" / "here").mkdir(parents=True)
    expected = {
        "org/name": str(tmp_path / "org/name"),  # its folder is here, so a path was meant
        "org/here": str(tmp_path / "org/here"),
        "hub/name": "hub/name",
        "hub/name:Q8_0": "hub/name:Q8_0",
        "hub/name.gguf": str(tmp_path / "hub/name.gguf"),
        "models/x": str(tmp_path / "models/x"),
        "./hub/name": str(tmp_path / "hub/name"),
        "~/x.gguf": "/home/me/x.gguf",
        "/abs/x": "/abs/x",
        "x.gguf": str(tmp_path / "x.gguf"),
    }
    resolved = {text: _variant(load, f"{{engine: vllm, weights: '{text}'}}").weights for text in expected}
    assert resolved == expected


def test_placeholders_are_filled_from_the_environment_only(load: Load) -> None:
    text = """\
models:
  m:
    variants:
      a: {engine: vllm, weights: "${env:ROOT}/x", args: {a: "$${x}", b: "$${env:ROOT}"}, env: {P: "/bin:${env:PATH}"}}
      b: {engine: command, command: [srv, --port, "${port}"], memory: 1GiB}
"""
    variants = load(text, {"ROOT": "/r", "PATH": "/usr/bin"}).settings.variants()
    assert variants["m:a"].weights == "/r/x"
    assert variants["m:a"].args == {"a": "${x}", "b": "${env:ROOT}"}
    assert variants["m:a"].env == {"P": "/bin:/usr/bin"}
    assert variants["m:b"].command == ("srv", "--port", "${port}")


def test_command_engines_keep_their_words(load: Load) -> None:
    body = """
        engine: command
        command: docker run -p ${port}:80 'my image'
        stop: [docker, stop, x]
        upstream: http://127.0.0.1:${port}/
        args: {served-model-name: theirs}
        memory: 1GiB"""
    resolved = _variant(load, body)
    assert resolved.command == ("docker", "run", "-p", "${port}:80", "my image")
    assert resolved.stop == ("docker", "stop", "x")
    assert resolved.upstream == "http://127.0.0.1:${port}"
    assert resolved.args == {"served-model-name": "theirs"}
    assert resolved.memory == 1024**3


def test_a_server_that_runs_already_needs_no_command(load: Load) -> None:
    resolved = _variant(load, "{engine: command, upstream: 'http://10.0.0.2:80', memory: 1GiB}")
    assert resolved.command is None
