"""Launch specs flag by flag: speculation, older builds, the user's own args and env, sleep, command engines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engines.launching import BASE, GPUS, LLAMA, VLLM, installed, spec_of, values
from gearshift.domain.device import Device
from gearshift.domain.engine import Flag, FlagMap
from gearshift.domain.launch import HttpCall, Placement, StopRule
from gearshift.domain.variant import EngineKind, EngineRef, Sleep, Speculation, Timing, Variant
from gearshift.engines import default_inflight, launch_spec, packaged_flags


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        (Speculation("mtp", 3), {"--spec-type": "draft-mtp", "--spec-draft-n-max": "3"}),
        (Speculation("ngram"), {"--spec-type": "ngram-mod"}),
        (
            Speculation("ngram", 8),
            {"--spec-type": "ngram-mod", "--spec-ngram-mod-n-max": "8", "--spec-ngram-mod-n-min": "1"},
        ),
        (Speculation("ngram-simple", 6), {"--spec-type": "ngram-simple", "--spec-ngram-simple-size-m": "6"}),
        (
            Speculation("draft", 4, "/m/draft.gguf"),
            {
                "--spec-type": "draft-simple",
                "--spec-draft-n-max": "4",
                "--spec-draft-model": "/m/draft.gguf",
                "--spec-draft-ngl": "all",
            },
        ),
        (Speculation("none"), {}),
    ],
)
def test_neutral_speculation_becomes_llamacpp_s(speculation: Speculation, expected: dict[str, str]) -> None:
    variant = replace(LLAMA, speculation=speculation, kv_dtype=None)
    found = values(spec_of(variant, Placement(GPUS)))
    assert {name: value for name, value in found.items() if name.startswith("--spec")} == expected


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        (Speculation("mtp"), {"method": "mtp"}),
        (Speculation("ngram", 5), {"method": "ngram", "num_speculative_tokens": 5}),
        (
            Speculation("draft", None, "/m/draft"),
            {"method": "draft_model", "model": "/m/draft", "num_speculative_tokens": 3},
        ),
        (
            Speculation("eagle3", 2, "/m/eagle"),
            {"method": "eagle3", "model": "/m/eagle", "num_speculative_tokens": 2},
        ),
    ],
)
def test_neutral_speculation_becomes_vllm_s(speculation: Speculation, expected: dict[str, object]) -> None:
    spec = spec_of(replace(VLLM, speculation=speculation), Placement(GPUS))
    assert json.loads(values(spec)["--speculative-config"]) == expected


def test_an_older_build_is_given_only_flags_it_knows() -> None:
    names = ("model", "host", "port", "ctx-size", "parallel", "n-gpu-layers", "draft-max")
    flags = {name: Flag(name) for name in names} | {"spec-type": Flag("spec-type", choices=("none", "mtp"))}
    old = replace(installed("llama.cpp", "9000"), flags=FlagMap("llama.cpp", "9000", flags, verified=True))
    found = values(spec_of(replace(LLAMA, args={}), Placement(GPUS), old))
    assert found == {
        "--model": "/models/Qwen3.6-27B-Q8_0.gguf",
        "--host": "127.0.0.1",
        "--port": "9000",
        "--ctx-size": "131072",
        "--parallel": "1",
        "--spec-type": "mtp",
        "--draft-max": "3",
    }


@pytest.mark.parametrize("name", ["c", "ctx-size", "ctx_size"])
def test_a_user_s_flag_replaces_ours_under_any_of_its_names(name: str) -> None:
    spec = spec_of(replace(LLAMA, args={name: 999}), Placement(GPUS))
    assert spec.argv.count("--ctx-size") == 1
    assert values(spec)["--ctx-size"] == "999"


def test_yaml_s_on_and_off_become_words_again_where_the_flag_takes_words() -> None:
    found = values(spec_of(replace(LLAMA, args={"flash-attn": False, "fit": True}), Placement(GPUS)))
    assert (found["--flash-attn"], found["--fit"]) == ("off", "on")


def test_false_gives_the_negation_or_leaves_the_flag_out() -> None:
    spec = spec_of(replace(LLAMA, args={"jinja": False, "metrics": False}), Placement(GPUS))
    assert "--no-jinja" in spec.argv
    assert "--metrics" not in spec.argv


def test_a_flag_whose_value_may_be_left_out_can_be_switched_on() -> None:
    assert spec_of(replace(VLLM, args={"hf-token": True}), Placement(GPUS)).argv[-1] == "--hf-token"


def test_lists_are_comma_lists_for_llamacpp_and_words_for_vllm() -> None:
    llama = spec_of(replace(LLAMA, args={"tensor-split": (3, 1)}), Placement(GPUS))
    vllm = spec_of(replace(VLLM, args={"served-model-name": ("a", "b")}), Placement(GPUS))
    assert values(llama)["--tensor-split"] == "3,1"
    assert vllm.argv[-3:] == ("--served-model-name", "a", "b")
    assert vllm.served_name == "a"


def test_a_negative_value_is_not_read_as_an_option_by_argparse() -> None:
    assert "--max-logprobs=-1" in spec_of(replace(VLLM, args={"max-logprobs": -1}), Placement(GPUS)).argv


def test_a_json_flag_may_be_set_key_by_key() -> None:
    spec = spec_of(replace(VLLM, speculation=None, args={"compilation-config.mode": 3}), Placement(GPUS))
    assert spec.argv[-2:] == ("--compilation-config.mode", "3")


def test_the_served_name_is_the_model_s_unless_the_user_says_otherwise() -> None:
    assert spec_of(LLAMA, Placement(GPUS)).served_name == "qwen3.6-27b"
    assert spec_of(replace(LLAMA, args={"alias": "one,two"}), Placement(GPUS)).served_name == "one"


def test_the_child_inherits_nothing_that_would_change_it_unseen() -> None:
    secret = {"GEARSHIFT_KEY": "k", "GEARSHIFT_HOME": "/h", "LLAMA_ARG_PORT": "1", "OPENAI_API_KEY": "s", "FOO": "1"}
    useful = {"HF_HOME": "/hf", "LD_LIBRARY_PATH": "/lib", "HTTPS_PROXY": "http://proxy", "CUDA_HOME": "/opt/cuda"}
    for variant in (LLAMA, VLLM):
        env = spec_of(variant, Placement(GPUS), base=BASE | secret | useful).env
        assert not secret.keys() & env.keys()
        assert useful.items() <= env.items()


def test_the_variant_s_environment_has_the_last_word() -> None:
    variant = replace(VLLM, env={"CUDA_VISIBLE_DEVICES": "3", "HF_HUB_OFFLINE": "0"})
    env = spec_of(variant, Placement(GPUS)).env
    assert (env["CUDA_VISIBLE_DEVICES"], env["HF_HUB_OFFLINE"]) == ("3", "0")


def test_weights_from_a_hub_may_be_fetched() -> None:
    assert "HF_HUB_OFFLINE" not in spec_of(replace(VLLM, weights="org/model"), Placement(GPUS)).env
    llama = spec_of(replace(LLAMA, weights="org/model:Q4_K_M"), Placement(GPUS))
    assert values(llama)["--hf-repo"] == "org/model:Q4_K_M"


def test_pipeline_parallel_ranks_take_the_place_of_tensor_parallel_ones() -> None:
    spec = spec_of(replace(VLLM, args={"pipeline-parallel-size": 2}), Placement(GPUS))
    assert "--tensor-parallel-size" not in spec.argv


def test_sleep_level_1_and_2_have_their_own_way_back() -> None:
    light = spec_of(replace(VLLM, sleep=Sleep(1, wake_timeout_s=9)), Placement(GPUS))
    deep = spec_of(replace(VLLM, sleep=Sleep(2, wake_timeout_s=9)), Placement(GPUS))
    assert light.sleep is not None
    assert deep.sleep is not None
    assert light.env["VLLM_SERVER_DEV_MODE"] == "1"
    assert "--enable-sleep-mode" in light.argv
    assert light.sleep.wake == (HttpCall("POST", "/wake_up", timeout_s=9),)
    assert light.sleep.is_sleeping.refusal == b'"is_sleeping":false'
    assert [call.path for call in deep.sleep.sleep] == ["/sleep?level=2"]
    assert [(call.path, call.body) for call in deep.sleep.wake] == [
        ("/wake_up?tags=weights", None),
        ("/collective_rpc", b'{"method": "reload_weights"}'),
        ("/wake_up?tags=kv_cache", None),
    ]


def test_no_sleep_on_a_cpu_whose_backend_refuses_it() -> None:
    spec = spec_of(replace(VLLM, sleep=Sleep()), Placement(("cpu",)))
    assert spec.sleep is None
    assert "--enable-sleep-mode" not in spec.argv
    assert "VLLM_SERVER_DEV_MODE" not in spec.env


def test_the_load_deadline_is_passed_on_so_that_vllm_does_not_give_up_first() -> None:
    spec = spec_of(replace(VLLM, timing=Timing(load_timeout_s=1200)), Placement(GPUS))
    assert spec.env["VLLM_ENGINE_READY_TIMEOUT_S"] == "1200"


def test_a_command_gets_the_port_wherever_it_is_named() -> None:
    variant = Variant(
        "sd",
        "docker",
        EngineRef("command"),
        command=("docker", "run", "-p", "127.0.0.1:${port}:80", "--name", "sd-${port}", "image"),
        stop=("docker", "stop", "sd-${port}"),
        env={"BIND": "0.0.0.0:${port}"},
    )
    spec = spec_of(variant, Placement(GPUS[:1]))
    assert spec.argv[3] == "127.0.0.1:9000:80"
    assert spec.stop == StopRule(15.0, command=("docker", "stop", "sd-9000"))
    assert (spec.env["BIND"], spec.env["PORT"]) == ("0.0.0.0:9000", "9000")
    assert spec.env["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"
    assert not spec.owns_process
    assert (spec.health_path, spec.metrics_path) == (None, None)


def test_a_plain_command_is_a_process_of_ours() -> None:
    spec = spec_of(Variant("m", "v", EngineRef("command"), command=("serve.sh",)), Placement(("cpu",)))
    assert spec.owns_process
    assert spec.endpoint.base_url == "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("upstream", "host", "port"),
    [
        ("http://10.0.0.2:8001/", "10.0.0.2", 8001),
        ("https://box", "box", 443),
        ("http://127.0.0.1:${port}", "127.0.0.1", 9000),
    ],
)
def test_a_fixed_upstream_is_where_requests_go(upstream: str, host: str, port: int) -> None:
    variant = Variant("m", "v", EngineRef("command"), upstream=upstream, args={"served-model-name": "theirs"})
    spec = spec_of(variant, Placement(("cpu",)))
    assert (spec.endpoint.host, spec.endpoint.port) == (host, port)
    assert not spec.endpoint.base_url.endswith("/")
    assert spec.served_name == "theirs"
    assert not spec.owns_process


def test_a_placement_without_devices_takes_those_of_the_box() -> None:
    box = (Device("GPU-aaaa", 0, "card", 24 << 30),)
    install = installed("vllm")
    spec = launch_spec(VLLM, Placement(()), install, port=1, folder=Path("/f"), base_env=BASE, devices=box)
    assert spec.devices == ("GPU-aaaa",)
    assert spec.env["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"


def test_requests_in_flight_follow_the_variant_then_the_engine() -> None:
    assert default_inflight(replace(LLAMA, max_inflight=7)) == 7
    assert default_inflight(replace(LLAMA, parallel=2)) == 2
    assert default_inflight(replace(LLAMA, parallel=None)) == 4
    assert default_inflight(replace(VLLM, parallel=None)) == 256
    assert default_inflight(Variant("m", "v", EngineRef("command"))) == 16


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
def test_both_engines_report_speculation_under_one_set_of_names(kind: EngineKind) -> None:
    spec = spec_of({"llama.cpp": LLAMA, "vllm": VLLM}[kind], Placement(GPUS))
    prefix = {"llama.cpp": "llamacpp:", "vllm": "vllm:"}[kind]
    names = (spec.metrics.drafts, spec.metrics.accepted_tokens, spec.metrics.accepted_per_position)
    assert names == tuple(
        f"{prefix}spec_decode_num_{name}_total" for name in ("drafts", "accepted_tokens", "accepted_tokens_per_pos")
    )


def test_every_flag_we_give_exists_in_the_packaged_tables() -> None:
    """A flag the table lacks is left out silently, so a misspelt default would never be noticed otherwise."""
    for variant in (LLAMA, VLLM, replace(VLLM, sleep=Sleep())):
        known = packaged_flags(variant.engine.kind).flags
        options = [word for word in spec_of(replace(variant, args={}), Placement(GPUS)).argv if word.startswith("--")]
        assert {"--host", "--port"} <= set(options)
        assert [option for option in options if option.removeprefix("--") not in known] == []
