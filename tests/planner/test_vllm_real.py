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
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm_start import resolve
from gearshift.toolchain import Toolchain

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
