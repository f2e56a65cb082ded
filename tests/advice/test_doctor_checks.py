"""Every check of the doctor sees what it is for, and leaves the nearest sound thing alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fakes.cases import MTP, OFF, blind_pair, box, dense, hybrid, llamacpp, setup, vllm
from gearshift.advice.doctor import BOX_CHECKS, VARIANT_CHECKS, Case, EngineProcess, Finding, Pins, Setup
from gearshift.advice.doctor.check import Check
from gearshift.artifacts.facts import Layer, MtpFacts, Recurrent
from gearshift.artifacts.templates import Rendering, Template
from gearshift.domain.device import MemoryReading
from gearshift.domain.errors import Problem
from gearshift.domain.provenance import GpuSettings
from gearshift.domain.settings import ApiKey
from gearshift.domain.units import GIB, MIB
from gearshift.domain.variant import EngineRef, Probe, Sleep, Speculation, Timing, Variant
from gearshift.hardware import HostMemory

Subject = TypeVar("Subject", Case, Setup)

NO_P2P: dict[str, Any] = {"args": {"disable-custom-all-reduce": True}, "env": {"NCCL_P2P_DISABLE": "1"}}
STATED_LONGER = '{"max_position_embeddings": 65536}'
DRAFTING = Speculation("draft", 3, "/models/d")
STATE = Recurrent(4, 2 * 16 * 128 + 48 * 128, 48 * 48 * 128 * 128)  # one layer as large as all 48 of the 27B
SMALL_RAM = box(1, memory=HostMemory(8 * GIB, 2 * GIB, 0, 0))
SWAP_OFF = {"enable-prefix-caching": False}
LOST_TOOLS = Rendering(lost=("the tool's answer",))
LOST_THOUGHT = Rendering(lost=("the reasoning before a tool call",), thinks=True)
SYNTHETIC = '{"method":"mtp","num_speculative_tokens":3,"rejection_sample_method":"synthetic"}'
PLAIN_CONFIG = '{"method":"mtp","num_speculative_tokens":3}'
WORKER = EngineProcess(71, "VLLM::Worker_TP0", parented=False, ours=False, held={"GPU-0": 9 * GIB})
SERVER = EngineProcess(72, "llama-server -m x", parented=True, ours=False, held={"GPU-0": GIB})


def about(case: Case, **facts: Any) -> Case:
    return replace(case, **facts)


def flag_problem(path: str) -> Problem:
    return Problem("vllm has no flag x", f"models.m.variants.v.{path}")


def command(*words: str) -> Variant:
    return Variant("m", "c", EngineRef("command"), command=words)


def reading(used: int, by_pid: dict[int, int]) -> dict[str, MemoryReading]:
    return {"GPU-0": MemoryReading("GPU-0", 24 * GIB, used, by_pid)}


VARIANTS: dict[str, tuple[Case, Case]] = {
    "engine-missing": (about(vllm(), install=None, engine_trouble="vllm is not installed"), vllm()),
    "engine-version": (vllm(version="0.21.0"), vllm(version="0.33.1")),
    "engine-flags": (about(vllm(), problems=(flag_problem("args.x"),)), vllm()),
    "pasted-escapes": (vllm(args={"served\\_model": "x"}), vllm(args={"served_model": "x"})),
    "model-unreadable": (about(vllm(), model=None, model_trouble="/models/m: cannot be read"), vllm()),
    "model-files-missing": (vllm(dense(missing_files=("b.gguf",))), vllm()),
    "model-weights-absent": (about(vllm(), checkpoint=()), about(vllm(), checkpoint=("pytorch_model.bin",))),
    "ram-weights": (
        llamacpp(on=box(memory=HostMemory(2 * GIB, GIB, 0, 0))),
        llamacpp(on=box(1, memory=HostMemory(2 * GIB, GIB, 0, 0))),
    ),
    "sleep-ram": (
        vllm(sleep=Sleep(level=1), on=box(1, memory=HostMemory(8 * GIB, 2 * GIB, 0, 0))),
        vllm(sleep=Sleep(level=2), on=box(1, memory=HostMemory(8 * GIB, 2 * GIB, 0, 0))),
    ),
    "mtp-absent": (vllm(dense(), speculation=MTP), vllm(hybrid(), speculation=MTP)),
    "mtp-incomplete": (
        vllm(hybrid(mtp=MtpFacts(1, complete=False, missing=("mtp.fc.weight",))), speculation=MTP),
        vllm(hybrid(mtp=MtpFacts(1, complete=None)), speculation=MTP),
    ),
    "mtp-not-excluded": (
        about(vllm(hybrid(), speculation=MTP), not_quantized=("lm_head",)),
        about(vllm(hybrid(), speculation=MTP), not_quantized=("lm_head", "re:.*mtp.*")),
    ),
    "mtp-low-precision": (
        about(vllm(hybrid(mtp=MtpFacts(1, complete=True, types=("I32",))), speculation=MTP), weight_bits=4),
        about(vllm(hybrid(mtp=MtpFacts(1, complete=True, types=("I32",))), speculation=MTP), weight_bits=8),
    ),
    "mtp-plain-beside-quantized": (
        about(vllm(hybrid(), speculation=MTP), weight_bits=4),
        about(vllm(hybrid(), speculation=MTP), weight_bits=8),
    ),
    "mtp-off": (llamacpp(hybrid()), llamacpp(hybrid(), speculation=OFF)),
    "mtp-many-tokens": (llamacpp(hybrid(), speculation=Speculation("mtp", 4)), llamacpp(hybrid(), speculation=MTP)),
    "draft-vocabulary": (
        about(vllm(speculation=DRAFTING), draft=dense(vocab=999)),
        about(llamacpp(speculation=DRAFTING), draft=dense(vocab=999)),  # 128 apart may be padding there
    ),
    "draft-shapes": (
        about(vllm(speculation=DRAFTING), draft=dense(misshapen=("q_norm has 128 rows where the config makes 256",))),
        about(vllm(speculation=DRAFTING), draft=dense(reads_hidden=64)),
    ),
    "context-beyond-training": (vllm(context=40000), vllm(context=40000, args={"hf-overrides": STATED_LONGER})),
    "tokenizer-truncation": (about(vllm(), truncation=2048), vllm()),
    "template-unreadable": (about(vllm(), template_trouble="t.jinja: cannot be read"), vllm()),
    "template-missing": (vllm(), vllm(probe=Probe("completion"))),
    "template-broken": (about(vllm(), rendering=Rendering(failure="TemplateSyntaxError")), vllm()),
    "template-tools": (about(vllm(), rendering=LOST_TOOLS), about(vllm(), rendering=LOST_THOUGHT)),
    "template-thinking": (about(vllm(), rendering=LOST_THOUGHT), about(vllm(), rendering=LOST_TOOLS)),
    "vllm-mtp-prefix-caching": (
        vllm(hybrid(), version="0.28.0", speculation=MTP),
        vllm(hybrid(), version="0.27.1", speculation=MTP),  # off by default there
    ),
    "vllm-mtp-async-scheduling": (
        vllm(hybrid(), speculation=MTP),
        vllm(hybrid(), speculation=MTP, args={"no-async-scheduling": None}),
    ),
    "vllm-triton-mtp-depth": (
        vllm(hybrid(), speculation=MTP, context=65536, args={"attention-backend": "TRITON_ATTN"}),
        vllm(hybrid(), speculation=MTP, context=8192, args={"attention-backend": "TRITON_ATTN"}),
    ),
    "vllm-flashinfer-speculation-graphs": (
        vllm(speculation=MTP, args={"attention-backend": "FLASHINFER"}, on=box(1, compute={"GPU-0": 8.6})),
        vllm(speculation=MTP, args={"attention-backend": "FLASHINFER"}, on=box(1, compute={"GPU-0": 12.0})),
    ),
    "vllm-block-size-hybrid": (vllm(hybrid(), args={"block-size": 16}), vllm(args={"block-size": 16})),
    "vllm-calculate-kv-scales": (
        vllm(version="0.27.1", args={"calculate-kv-scales": None}),
        vllm(version="0.27.1", args={"calculate-kv-scales": False}),
    ),
    "vllm-gguf": (vllm(weights="/m/x.gguf", version="0.24.0"), vllm(weights="/m/x.gguf", version="0.23.0")),
    "vllm-mamba-chunked-prefill": (
        vllm(hybrid(), args={"enable-chunked-prefill": False}),
        vllm(hybrid(), args={"enable-chunked-prefill": False} | SWAP_OFF),
    ),
    "vllm-prefix-caching-default": (vllm(hybrid()), vllm(hybrid(), args=SWAP_OFF)),
    "vllm-prefix-caching-hybrid": (
        vllm(hybrid(), args={"enable-prefix-caching": True}),
        vllm(args={"enable-prefix-caching": True}),
    ),
    "vllm-pool-refused": (
        vllm(kv_bytes=256 * 16_384, context=4096, version="0.29.0"),
        vllm(kv_bytes=256 * 16_384, context=4096, version="0.28.0"),  # its start does not count the block kept back
    ),
    "vllm-utilization-ignored": (
        vllm(kv_bytes="auto", args={"gpu-memory-utilization": 0.92}),
        vllm(args={"gpu-memory-utilization": 0.92}),
    ),
    "vllm-load-timeout": (vllm(timing=Timing(load_timeout_s=120)), vllm(timing=Timing(load_timeout_s=120), on=box())),
    "vllm-mtp-cpu-hybrid": (vllm(hybrid(), speculation=MTP, on=box()), vllm(hybrid(), speculation=MTP)),
    "vllm-many-draft-tokens": (
        vllm(hybrid(), speculation=Speculation("mtp", 8), on=box(2)),
        vllm(hybrid(), speculation=Speculation("mtp", 8), on=box(1)),
    ),
    "vllm-min-p-speculation": (vllm(speculation=MTP, sampling={"min_p": 0.1}), vllm(sampling={"min_p": 0.1})),
    "vllm-synthetic-acceptance": (
        vllm(args={"speculative-config": SYNTHETIC}),
        vllm(args={"speculative-config": PLAIN_CONFIG}),
    ),
    "vllm-heads-by-gpus": (vllm(dense(heads=9), on=box(2)), vllm(dense(heads=9), on=box(2), gpus=(0,))),
    "hub-not-fetched": (about(vllm(weights="org/name"), weights=None), vllm(weights="org/name")),
    "hub-unpinned": (vllm(weights="org/name"), vllm(weights="org/name", args={"revision": "a" * 40})),
    "llamacpp-row-split": (
        llamacpp(args={"split-mode": "row"}, on=box(2)),
        llamacpp(args={"split-mode": "row"}, on=box()),
    ),
    "llamacpp-tensor-split-flash": (
        llamacpp(args={"split-mode": "tensor", "flash-attn": False}),
        llamacpp(args={"split-mode": "tensor", "flash-attn": "on"}),
    ),
    "llamacpp-tensor-split-cpu-kv": (
        llamacpp(args={"split-mode": "tensor", "no-kv-offload": None}),
        llamacpp(args={"no-kv-offload": None}),
    ),
    "llamacpp-tensor-split-sampler": (
        llamacpp(args={"split-mode": "tensor"}, on=box(2)),
        llamacpp(args={"split-mode": "tensor"}, on=box(1)),
    ),
    "llamacpp-layer-split": (llamacpp(on=box(2)), llamacpp(on=box(2), gpus=(1,))),
    "llamacpp-mtp-build": (
        llamacpp(hybrid(), version="10742", speculation=MTP),
        llamacpp(hybrid(), version="10749", speculation=MTP),
    ),
    "llamacpp-mtp-ngram": (llamacpp(args={"spec-type": "draft-mtp,ngram-mod"}), llamacpp(speculation=MTP)),
    "llamacpp-mtp-slots": (llamacpp(speculation=MTP, parallel=2), llamacpp(speculation=MTP, parallel=1)),
    "llamacpp-mmproj-mtp": (
        llamacpp(speculation=MTP, args={"mmproj": "/m/mmproj.gguf"}),
        llamacpp(args={"mmproj": "/m/mmproj.gguf"}),
    ),
    "llamacpp-cache-reuse": (
        llamacpp(dense(family="qwen35"), args={"cache-reuse": 256}),
        llamacpp(args={"cache-reuse": 256}),
    ),
    "llamacpp-quantized-values": (
        llamacpp(kv_dtype="q8_0", args={"flash-attn": "off"}),
        llamacpp(kv_dtype="q8_0,f16", args={"flash-attn": "off"}),
    ),
    "llamacpp-context-unset": (llamacpp(hybrid(), context=None), llamacpp(dense(), context=None)),
    "llamacpp-host-cache": (
        llamacpp(on=box(1, memory=HostMemory(16 * GIB, 4 * GIB, 0, 0))),
        llamacpp(on=box(1, memory=HostMemory(16 * GIB, 4 * GIB, 0, 0)), args={"cache-ram": 1024}),
    ),
    "llamacpp-checkpoints": (
        llamacpp(hybrid(recurrent=STATE), context=262144, on=SMALL_RAM),
        llamacpp(hybrid(recurrent=STATE), context=262144, on=SMALL_RAM, args={"ctx-checkpoints": 2}),
    ),
    "llamacpp-mlock": (
        llamacpp(args={"load-mode": "mlock"}, on=box(1, memlock_bytes=64 * 1024)),
        llamacpp(args={"load-mode": "mlock"}, on=box(1, memlock_bytes=None)),
    ),
    "llamacpp-gpus-hidden": (llamacpp(env={"CUDA_VISIBLE_DEVICES": ""}), llamacpp(env={"CUDA_VISIBLE_DEVICES": "0"})),
    "gpu-absent": (vllm(gpus=(1,)), vllm(gpus=("GPU-0",))),
    "p2p-missing": (vllm(on=blind_pair(), env=NO_P2P["env"]), vllm(on=blind_pair(), **NO_P2P)),
    "nccl-cumem": (vllm(on=blind_pair()), vllm(on=blind_pair(), env={"NCCL_CUMEM_ENABLE": "0"})),
    "shm-small": (vllm(on=box(2, shm_bytes=64 * MIB)), vllm(on=box(2, shm_bytes=8 * GIB))),
    "nvcc-missing": (
        vllm(dense(quantization="modelopt")),
        vllm(dense(quantization="modelopt"), env={"CUDA_HOME": "/opt/cuda"}),
    ),
    "pin-template": (
        about(vllm(), template=Template("new", "t"), pins=Pins(template_sha256=Template("old", "t").sha256)),
        about(vllm(), template=Template("old", "t"), pins=Pins(template_sha256=Template("old", "t").sha256)),
    ),
    "pin-engine": (
        about(vllm(), pins=Pins(engine_version="0.31.0")),
        about(vllm(), pins=Pins(engine_version="0.32.0", engine_digest="aa")),
    ),
    "pin-files": (
        about(vllm(), pins=Pins(sizes={"a": 5}, found={"a": 4})),
        about(vllm(), pins=Pins(sizes={"a": 5}, found={"a": 5})),
    ),
}

SETUPS: dict[str, tuple[Setup, Setup]] = {
    "leaked-engine": (setup(box(1, processes=(WORKER,))), setup(box(1, processes=(replace(WORKER, parented=True),)))),
    "foreign-engine": (setup(box(1, processes=(SERVER,))), setup(box(1, processes=(replace(SERVER, ours=True),)))),
    "gpu-shared": (
        setup(box(1, readings=reading(3 * GIB, {9: 2 * GIB}))),
        setup(box(1, readings=reading(3 * GIB, {72: 3 * GIB}), processes=(SERVER,))),
    ),
    "gpu-power-capped": (
        setup(box(1, settings={"GPU-0": GpuSettings(power_limit_w=400, default_power_limit_w=575)})),
        setup(box(1, settings={"GPU-0": GpuSettings(power_limit_w=575, default_power_limit_w=575)})),
    ),
    "swap-used": (
        setup(box(memory=HostMemory(16 * GIB, GIB, 8 * GIB, 5 * GIB))),
        setup(box(memory=HostMemory(16 * GIB, GIB, 8 * GIB, 8 * GIB))),
    ),
    "ram-limit": (setup(box(memory=HostMemory(8 * GIB, GIB, 0, 0, limit_bytes=8 * GIB))), setup()),
    "wsl": (setup(box(1, wsl=True)), setup()),
    "exposed-listen": (setup(host="0.0.0.0"), setup(host="0.0.0.0", api_keys=(ApiKey("k", "s"),))),
    "exposed-command": (
        setup(variants=(command("serve", "--host=0.0.0.0"),)),
        setup(variants=(command("serve", "--host=127.0.0.1"),)),
    ),
    "exposed-engine": (
        setup(box(processes=(replace(SERVER, command="vllm serve m --host 0.0.0.0 --port 8000"),))),
        setup(box(processes=(replace(SERVER, command="vllm serve m --host 0.0.0.0 --api-key x"),))),
    ),
    "config-warnings": (
        replace(setup(), warnings=(Problem("the key is empty", "api_keys[0]"),)),
        replace(setup(), warnings=(Problem("/m does not exist", "models.m.variants.v.weights"),)),
    ),
}


def seen(checks: tuple[Check[Subject], ...], name: str, subject: Subject) -> list[Finding]:
    check = next(check for check in checks if check.id == name)
    return list(check.findings(subject, lambda place: place))


@pytest.mark.parametrize("name", [check.id for check in VARIANT_CHECKS])
def test_a_variant_that_has_it_is_found_and_the_nearest_sound_one_is_not(name: str) -> None:
    sick, sound = VARIANTS[name]
    assert [finding.id for finding in seen(VARIANT_CHECKS, name, sick)] == [name]
    assert seen(VARIANT_CHECKS, name, sound) == []


@pytest.mark.parametrize("name", [check.id for check in BOX_CHECKS])
def test_a_box_that_has_it_is_found_and_the_nearest_sound_one_is_not(name: str) -> None:
    sick, sound = SETUPS[name]
    assert [finding.id for finding in seen(BOX_CHECKS, name, sick)] == [name]
    assert seen(BOX_CHECKS, name, sound) == []


def test_a_flag_that_is_gone_is_complained_of_once() -> None:
    gone = vllm(version="0.32.0", args={"calculate-kv-scales": None})
    assert seen(VARIANT_CHECKS, "vllm-calculate-kv-scales", gone) == []


@pytest.mark.parametrize(
    ("case", "refused"),
    [
        (vllm(context=4096, args={"kv-cache-memory-bytes": 255 * 16_384}), True),
        (vllm(context=4096, kv_bytes=257 * 8192, gpus=("GPU-x", "GPU-y"), on=box()), False),  # two ranks elsewhere
        (vllm(context=4096, kv_bytes=257 * 8192 - 1, gpus=("GPU-x", "GPU-y"), on=box()), True),
        (vllm(hybrid(), context=4096, kv_bytes=MIB, parallel=200, args=SWAP_OFF), True),  # sequences without a state
        (vllm(context=4096, kv_bytes=MIB, args={"num-gpu-blocks-override": 500}), False),
        (vllm(context=4096, kv_bytes="auto"), False),
        (vllm(dense(layers=(Layer("none"),) * 2), context=4096, kv_bytes=MIB), False),
    ],
)
def test_a_pool_that_vllm_refuses_is_found_however_it_is_given(case: Case, *, refused: bool) -> None:
    assert bool(seen(VARIANT_CHECKS, "vllm-pool-refused", case)) is refused


def test_on_a_cpu_nothing_is_scheduled_asynchronously() -> None:
    for asked in ({}, {"async-scheduling": True}):
        case = vllm(hybrid(), speculation=MTP, args=asked, on=box())
        assert seen(VARIANT_CHECKS, "vllm-mtp-async-scheduling", case) == []


def test_no_check_complains_of_a_sound_variant() -> None:
    case = replace(
        vllm(hybrid(), speculation=MTP, args=SWAP_OFF | {"async-scheduling": False}, context=8192),
        template=Template("{{ messages }}", "t"),
        rendering=Rendering(),
    )
    assert [finding for check in VARIANT_CHECKS for finding in check.findings(case, str)] == []


def test_checks_have_names_of_their_own_and_say_everything() -> None:
    checks: tuple[Check[Any], ...] = (*VARIANT_CHECKS, *BOX_CHECKS)
    assert len({check.id for check in checks}) == len(checks)
    assert all(check.why.endswith(".") and check.fix and check.looks_for for check in checks)
    links = [check.link for check in checks]
    pages = [Path(__file__).parents[2] / link for link in links if not link.startswith("https://")]
    assert [page for page in pages if not page.exists()] == []
