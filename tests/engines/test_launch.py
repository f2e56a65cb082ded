"""Launch specs as whole values: the set-ups of three field reports, CPU boxes, contexts and cache types."""

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from engines.launching import GPUS, LLAMA, VLLM, installed, options, spec_of, values
from gearshift.domain.launch import Placement
from gearshift.domain.variant import EngineRef, Speculation, Variant


def test_two_gpus_run_llamacpp_with_mtp_tensor_split_and_our_own_plan() -> None:
    spec = spec_of(LLAMA, Placement(GPUS))
    assert options(spec) == snapshot(
        [
            "/e/llama-server",
            "--model /models/Qwen3.6-27B-Q8_0.gguf",
            "--host 127.0.0.1",
            "--port 9000",
            "--alias qwen3.6-27b",
            "--metrics",
            "--verbosity 4",
            "--ctx-size 131072",
            "--parallel 1",
            "--fit off",
            "--gpu-layers all",
            "--cache-type-k q8_0",
            "--cache-type-v q8_0",
            "--spec-draft-type-k q8_0",
            "--spec-draft-type-v q8_0",
            "--spec-type draft-mtp",
            "--spec-draft-n-max 3",
            "--jinja",
            "--chat-template-file /models/qwen.jinja",
            "--split-mode tensor",
            "--tensor-split 50,50",
            "--flash-attn on",
            "--cache-reuse 256",
            "--temp 0.6",
        ]
    )
    assert dict(spec.env) == snapshot(
        {
            "PATH": "/usr/bin",
            "HOME": "/run/launch",
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": "/run/launch/config",
            "XDG_CACHE_HOME": "/home/me/.cache",
            "CUDA_CACHE_PATH": "/home/me/.nv/ComputeCache",
            "CUDA_VISIBLE_DEVICES": "GPU-aaaa,GPU-bbbb",
        }
    )


def test_two_gpus_without_p2p_run_vllm_with_mtp_and_a_planned_pool() -> None:
    spec = spec_of(VLLM, Placement(GPUS, kv_bytes=5_725_470_720), installed("vllm", "0.22.1"))
    assert options(spec) == snapshot(
        [
            "/e/bin/vllm serve /models/qwen3.6-27b-int8",
            "--host 127.0.0.1",
            "--port 9000",
            "--served-model-name qwen3.6-27b",
            "--max-model-len 32768",
            "--kv-cache-dtype fp8_e5m2",
            "--kv-cache-memory-bytes 5725470720",
            "--tensor-parallel-size 2",
            "--max-num-seqs 2",
            '--speculative-config {"method":"mtp","num_speculative_tokens":2}',
            "--quantization auto_round",
            "--dtype float16",
            "--disable-custom-all-reduce",
            "--max-num-batched-tokens 8192",
            "--trust-remote-code",
            "--no-enable-prefix-caching",
            '--default-chat-template-kwargs {"enable_thinking":false}',
        ]
    )
    assert dict(spec.env) == snapshot(
        {
            "PATH": "/usr/bin",
            "HOME": "/home/me",
            "LANG": "C.UTF-8",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_ENGINE_READY_TIMEOUT_S": "600",
            "CUDA_VISIBLE_DEVICES": "GPU-aaaa,GPU-bbbb",
            "HF_HUB_OFFLINE": "1",
            "NCCL_P2P_DISABLE": "1",
        }
    )


def test_one_gpu_at_the_whole_window_pins_the_pool_in_bytes() -> None:
    variant = Variant(
        "qwen3.8-27b",
        "nvfp4",
        EngineRef("vllm"),
        weights="/models/nvfp4",
        context=262144,
        kv_dtype="fp8",
        kv_bytes=9_150_000_000,
        parallel=3,
        args={"max-num-batched-tokens": 512, "enable-prefix-caching": True, "tool-call-parser": "qwen3_xml"},
    )
    assert options(spec_of(variant, Placement(GPUS[:1]), installed("vllm", "0.27.1"))) == snapshot(
        [
            "/e/bin/vllm serve /models/nvfp4",
            "--host 127.0.0.1",
            "--port 9000",
            "--served-model-name qwen3.8-27b",
            "--max-model-len 262144",
            "--kv-cache-dtype fp8",
            "--kv-cache-memory-bytes 9150000000",
            "--max-num-seqs 3",
            "--max-num-batched-tokens 512",
            "--enable-prefix-caching",
            "--tool-call-parser qwen3_xml",
        ]
    )


def test_a_cpu_box_runs_llamacpp_without_devices() -> None:
    variant = Variant("smol", "q4", EngineRef("llama.cpp"), weights="/m/smol.gguf", context=4096)
    assert options(spec_of(variant, Placement(("cpu",)))) == snapshot(
        [
            "/e/llama-server",
            "--model /m/smol.gguf",
            "--host 127.0.0.1",
            "--port 9000",
            "--alias smol",
            "--metrics",
            "--verbosity 4",
            "--ctx-size 4096",
            "--parallel 4",
            "--kv-unified",
            "--device none",
        ]
    )


def test_a_cpu_box_runs_vllm_by_its_module_with_a_bounded_pool() -> None:
    variant = Variant("smol", "hf", EngineRef("vllm"), weights="/m/smol", args={"enforce-eager": True})
    module = installed("vllm", "0.32.0", "/e/bin/python", "-m", "vllm.entrypoints.openai.api_server")
    spec = spec_of(variant, Placement(("cpu",)), module)
    assert options(spec) == snapshot(
        [
            "/e/bin/python -m vllm.entrypoints.openai.api_server",
            "--model /m/smol",
            "--host 127.0.0.1",
            "--port 9000",
            "--served-model-name smol",
            "--kv-cache-memory-bytes 1073741824",
            "--enforce-eager",
        ]
    )
    assert dict(spec.env) == snapshot(
        {
            "PATH": "/usr/bin",
            "HOME": "/home/me",
            "LANG": "C.UTF-8",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_ENGINE_READY_TIMEOUT_S": "600",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
    )


def test_the_pool_is_left_alone_where_the_user_sizes_it_by_the_environment() -> None:
    variant = Variant("smol", "hf", EngineRef("vllm"), weights="/m/smol", env={"VLLM_CPU_KVCACHE_SPACE": "2"})
    assert "--kv-cache-memory-bytes" not in spec_of(variant, Placement(("cpu",))).argv


def test_a_planned_context_wins_over_the_variant_s() -> None:
    assert values(spec_of(LLAMA, Placement(GPUS, context=65536)))["--ctx-size"] == "65536"


def test_without_a_context_llamacpp_fits_itself_to_the_gpu() -> None:
    found = values(spec_of(replace(LLAMA, context=None), Placement(GPUS)))
    assert not {"--fit", "--gpu-layers", "--ctx-size"} & found.keys()


def test_several_slots_share_one_pool_so_that_each_may_use_the_whole_context() -> None:
    assert "--kv-unified" in values(spec_of(replace(LLAMA, parallel=2), Placement(GPUS)))
    assert "--kv-unified" not in values(spec_of(LLAMA, Placement(GPUS)))


def test_keys_and_values_may_have_their_own_cache_types() -> None:
    found = values(spec_of(replace(LLAMA, kv_dtype="q8_0,q4_0"), Placement(GPUS)))
    assert [found[name] for name in ("--cache-type-k", "--cache-type-v")] == ["q8_0", "q4_0"]
    assert [found[name] for name in ("--spec-draft-type-k", "--spec-draft-type-v")] == ["q8_0", "q4_0"]


def test_a_draft_cache_type_is_given_only_where_a_draft_has_a_cache() -> None:
    for speculation in (None, Speculation("ngram", 4), Speculation("off")):
        found = values(spec_of(replace(LLAMA, speculation=speculation), Placement(GPUS)))
        assert "--spec-draft-type-k" not in found
