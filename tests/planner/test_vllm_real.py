"""The limit that vLLM derives from a config, as vLLM's own code derives it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gearshift.artifacts.model import read_model
from gearshift.domain.paths import resolve_paths
from gearshift.domain.variant import EngineRef
from gearshift.planner.answers import model_longest
from gearshift.planner.kv_types import packed_bytes
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm_blocks import target_token_bytes
from gearshift.planner.vllm_start import resolve
from gearshift.toolchain import Toolchain
from planner.models import dense

pytestmark = pytest.mark.real

REAL = resolve_paths({name: value for name, value in os.environ.items() if name != "GEARSHIFT_HOME"})
CONFIG: Mapping[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 300,
    "max_position_embeddings": 4096,
}
SCALINGS: Mapping[str, Mapping[str, object]] = {
    "none": {},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "dynamic": {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}},
    "llama3": {
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        }
    },
}  # fmt: skip
PROGRAM = """
import json, sys
from vllm.config import ModelConfig

def taken(folder, length):
    try:
        return ModelConfig(model=folder, skip_tokenizer_init=True, max_model_len=length).max_model_len
    except ValueError as error:
        return "refused" if "greater than the derived max_model_len" in str(error) else str(error)

lengths = [None] + [int(length) for length in sys.argv[1].split(",")]
print(json.dumps({folder: [taken(folder, length) for length in lengths] for folder in sys.argv[2:]}))
"""

PACKED = """
import importlib.util, json, pathlib, sys, types

root = pathlib.Path(importlib.util.find_spec("vllm").origin).parent
path = root / "model_executor/layers/quantization/turboquant/config.py"
spec = importlib.util.spec_from_file_location("turboquant", path)  # without the rest of vLLM, which takes long to load
sys.modules["turboquant"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
config = module.TurboQuantConfig
slots = {name: {size: config.from_cache_dtype(name, size).slot_size_aligned for size in (64, 80, 100, 128, 256)}
         for name in module.TQ_PRESETS}
made = types.SimpleNamespace
model = lambda count: made(is_hybrid=False, hf_text_config=made(num_hidden_layers=count))
plain = {count: [int(index) for index in config.get_boundary_skip_layers(model(count))] for count in (1, 2, 3, 5, 32)}
print(json.dumps([slots, plain]))
"""


@pytest.mark.timeout(120)
def test_turboquant_packs_what_the_engine_s_own_code_packs() -> None:
    install = Toolchain(REAL, os.environ).find(EngineRef("vllm"))
    command = [str(Path(install.command[0]).with_name("python")), "-c", PACKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    slots, plain = json.loads(done.stdout)
    assert set(slots) == {"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"}
    for name, sizes in slots.items():
        assert {size: packed_bytes(name, 1, int(size), int(size)) for size in sizes} == sizes
    for count, left in plain.items():
        wanted = PlanRequest("vllm", (PlannedDevice("gpu0", None),), kv_dtype="turboquant_3bit_nc")
        found = target_token_bytes(wanted, dense(int(count), kv_heads=1, head_dim=64), 1)
        assert [index for index, (_, size) in enumerate(found) if size == 2 * 64 * 2] == left


@pytest.mark.timeout(240)
def test_the_limit_is_the_engine_s_own_for_every_scaling(tmp_path: Path) -> None:
    install = Toolchain(REAL, os.environ).find(EngineRef("vllm"))
    lengths = [4096, 4097, 8192, 8193, 16_384, 16_385]
    expected: dict[str, list[object]] = {}
    for name, scaling in SCALINGS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**CONFIG, **scaling}))
        facts = read_model(tmp_path / name)
        wanted = PlanRequest("vllm", (PlannedDevice("cpu", None),), version=install.version, device_kind="cpu")
        longest = model_longest(wanted, facts) or 0
        taken: list[object] = [length if length <= longest else "refused" for length in lengths]
        expected[str(tmp_path / name)] = [resolve(wanted, facts).context, *taken]
    python = Path(install.command[0]).with_name("python")
    command = [str(python), "-c", PROGRAM, ",".join(map(str, lengths)), *expected]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == expected
