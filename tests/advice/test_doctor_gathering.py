"""What the doctor gathers: tools' output, process tables, model folders; and how findings are placed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.cases import box, setup, vllm
from gearshift.advice.doctor import Case, EngineProcess, Pins, examine
from gearshift.advice.doctor.gather_box import gather_box
from gearshift.advice.doctor.gather_case import gather_case
from gearshift.advice.doctor.gather_pins import gather_pins
from gearshift.advice.doctor.processes import engine_processes
from gearshift.advice.doctor.topology import compute_capabilities, peer_access
from gearshift.advice.recipe import PinnedEngine, PinnedFile, PinnedFiles, Recipe
from gearshift.advice.recipe_places import Places
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB
from gearshift.domain.variant import EngineKind, EngineRef, Speculation, Variant
from gearshift.hardware import FakeMemory

TOPOLOGY = """\
 \t\x1b[4mGPU0\tGPU1\tGPU2\x1b[0m
 GPU0\tX\tCNS\tOK\t
 GPU1\tCNS\tX\tU\t
 GPU2\tOK\tU\tX\t

Legend:

  X    = Self
  OK   = Status Ok
"""
COMMANDS = {
    1: "/sbin/init",
    10: "/opt/vllm/bin/python /opt/vllm/bin/vllm serve m",
    11: "VLLM::EngineCore",
    12: "VLLM::Worker_TP0",
    20: "VLLM::Worker_TP1",
    30: "/usr/bin/gearshift serve",
    31: "/opt/llama-server -m x.gguf",
    40: "vim llama-server.md",
    50: "python batch.py",
    51: "VLLM::EngineCore",
    60: "/lib/systemd/systemd --user",
    61: "VLLM::EngineCore",
}
PARENTS = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 30: 1, 31: 30, 40: 1, 50: 1, 51: 50, 60: 1, 61: 60}


def test_peer_access_is_read_for_the_pairs_that_the_driver_knows() -> None:
    assert peer_access(TOPOLOGY) == {(0, 1): False, (0, 2): True}
    assert peer_access("") == {}


def test_compute_capability_is_read_by_uuid() -> None:
    assert compute_capabilities("GPU-a, 8.6\nGPU-b, [N/A]\nGPU-c, 12.0\n") == {"GPU-a": 8.6, "GPU-c": 12.0}


def test_engines_are_told_by_their_command_lines_and_workers_by_their_ancestors() -> None:
    found = {process.pid: process for process in engine_processes(PARENTS, COMMANDS, {20: {"GPU-0": GIB}})}
    assert sorted(found) == [10, 11, 12, 20, 31, 51, 61]
    assert [pid for pid, process in found.items() if not process.parented] == [20, 61]
    assert [pid for pid, process in found.items() if process.ours] == [31]
    assert found[20].held == {"GPU-0": GIB}


def test_a_server_that_is_the_first_process_of_a_container_owns_its_workers() -> None:
    found = engine_processes({1: 0, 7: 1}, {1: "python3 /usr/bin/vllm serve m", 7: "VLLM::EngineCore"}, {})
    assert [process.parented for process in found] == [True, True]
    (left,) = engine_processes({1: 0, 7: 1}, {1: "sleep infinity", 7: "VLLM::EngineCore"}, {})
    assert not left.parented


def test_a_table_whose_parents_run_in_a_circle_is_read_to_its_end() -> None:
    (process, _) = engine_processes({5: 6, 6: 5}, {5: "VLLM::Worker", 6: "VLLM::EngineCor"}, {})
    assert not process.parented


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with an nvidia-smi that answers as on a box of two cards without peer access."""
    script = tmp_path / "nvidia-smi"
    script.write_text(
        "#!/bin/sh\n"
        'case "$1" in topo) printf "\\tGPU0\\tGPU1\\n GPU0\\tX\\tCNS\\n GPU1\\tCNS\\tX\\n";;'
        ' *) echo "GPU-fake-0, 8.6";; esac\n'
    )
    script.chmod(0o755)
    return tmp_path


def test_a_box_is_described_by_its_devices_and_tools(tools: Path) -> None:
    (tools / "nvcc").write_text("#!/bin/sh\n")
    (tools / "nvcc").chmod(0o755)
    found = gather_box(FakeMemory.parse("2x24GiB"), {"PATH": f"{tools}:/bin", "NCCL_P2P_DISABLE": "1", "SECRET": "x"})
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    assert (found.peers, found.compute) == ({(0, 1): False}, {"GPU-fake-0": 8.6})
    assert found.nvcc == tools / "nvcc"
    assert found.env == {"NCCL_P2P_DISABLE": "1"}
    assert found.memory is not None


def test_a_tool_that_fails_leaves_things_unknown(tools: Path) -> None:
    (tools / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert gather_box(FakeMemory.parse("2x24GiB"), {"PATH": f"{tools}:/bin"}).peers == {}


CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 16,
    "quantization_config": {"quant_method": "auto-round", "bits": 4, "modules_to_not_convert": ["mtp.fc"]},
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder as the hub gives it: config, tokenizer with a truncation, template; no weights."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps({"truncation": {"max_length": 2048}}))
    (folder / "chat_template.jinja").write_text("{{ messages[1].content }}")
    return folder


@pytest.mark.parametrize(
    ("args", "tokens"),
    [({"mm-processor-kwargs": '{"max_pixels": 4014080}'}, 3920), ({"mm-processor-kwargs": "{"}, None), ({}, None)],
)
def test_r1_15_an_image_takes_at_most_its_pixels_over_a_merged_patch(
    model: Path, args: dict[str, str], tokens: int | None
) -> None:
    """The largest image of 4,014,080 pixels was measured at about 3,908 tokens: sides are rounded down."""
    (model / "config.json").write_text(
        json.dumps(CONFIG | {"vision_config": {"patch_size": 16, "spatial_merge_size": 2}})
    )
    case = gathered(Variant("m", "v", EngineRef("vllm"), weights=str(model), args=args), model)
    assert case.image_tokens == tokens
    (cut,) = (finding for finding in examine([case], setup()) if finding.id == "tokenizer-truncation")
    assert cut.what.endswith("one image may take 3920" if tokens else "2048 tokens")
    if tokens:
        assert 0.99 < 3908 / tokens <= 1


def nothing_installed(ref: EngineRef) -> EngineInstall:
    raise GearshiftError(f"{ref} is not installed")


def gathered(variant: Variant, cache: Path) -> Case:
    return gather_case(variant, box=box(1), find_engine=nothing_installed, hub_cache=cache)


def test_a_model_folder_is_read_for_what_the_checks_ask(model: Path) -> None:
    case = gathered(Variant("m", "v", EngineRef("vllm"), weights=str(model)), model)
    assert (case.weight_bits, case.not_quantized, case.truncation) == (4, ("mtp.fc",), 2048)
    assert case.template is not None
    assert case.rendering is not None
    assert case.rendering.lost == (
        "the system prompt", "the tool's definition", "the tool call's arguments", "the tool's answer",
    )  # fmt: skip
    assert case.engine_trouble == "vllm is not installed"


@pytest.mark.parametrize(
    ("section", "bits"),
    [
        ({"quant_algo": "NVFP4", "quant_method": "modelopt"}, 4),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, 8),
        ({"quant_method": "fp8"}, None),
    ],
)
def test_the_bits_of_a_checkpoint_are_where_its_method_writes_them(
    model: Path, section: dict[str, object], bits: int | None
) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": section}))
    assert gathered(Variant("m", "v", EngineRef("vllm"), weights=str(model)), model).weight_bits == bits


def test_weights_by_hub_id_are_looked_for_in_the_cache(model: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("abc123\n")
    (repository / "snapshots").mkdir()
    model.rename(repository / "snapshots/abc123")
    case = gathered(Variant("m", "v", EngineRef("vllm"), weights="org/name"), tmp_path)
    assert case.weights == repository / "snapshots/abc123"
    absent = gathered(Variant("m", "v", EngineRef("vllm"), weights="org/other"), tmp_path)
    assert (absent.weights, absent.model, absent.model_trouble) == (None, None, None)


def test_files_that_cannot_be_read_are_findings_not_failures(tmp_path: Path) -> None:
    variant = Variant(
        "m", "v", EngineRef("vllm"), weights=str(tmp_path / "none"), template=tmp_path / "none.jinja",
        speculation=Speculation("draft", 3, str(tmp_path / "draft")),
    )  # fmt: skip
    case = gathered(variant, tmp_path)
    assert case.model_trouble is not None
    assert case.template_trouble == f"{tmp_path}/none.jinja: cannot be read: No such file or directory"
    assert case.draft is None


@pytest.mark.parametrize(
    ("engine", "args"),
    [
        ("vllm", {"speculative-config": '{"model": "DRAFT", "num_speculative_tokens": 3}'}),
        ("llama.cpp", {"spec-draft-model": "DRAFT"}),
    ],
)
def test_a_drafter_is_read_wherever_the_variant_names_it(engine: EngineKind, args: dict[str, str], model: Path) -> None:
    named = {flag: value.replace("DRAFT", str(model)) for flag, value in args.items()}
    case = gathered(Variant("m", "v", EngineRef(engine), weights=str(model), args=named), model)
    assert case.draft is not None
    assert case.draft.vocab == 16


def test_pins_are_held_against_the_sizes_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"12345")
    files = PinnedFiles((PinnedFile("a.gguf", 5, "x"), PinnedFile("b.gguf", 6, "y")), folder=".")
    pins = gather_pins(Recipe({}, PinnedEngine("llama.cpp", "11434"), {"weights": files}), Places(tmp_path, tmp_path))
    assert pins == Pins("11434", None, None, {"a.gguf": 5, "b.gguf": 6}, {"a.gguf": 5, "b.gguf": None})


def test_findings_come_worst_first_with_the_line_of_the_nearest_key() -> None:
    case = vllm(args={"block-size": 16, "a\\_b": 1}, gpus=(3,), weights="org/name")
    lines = {"models.m.variants.v": 4, "models.m.variants.v.gpus": 7}
    found = examine([case], setup(), file=Path("gearshift.yaml"), lines=lines)
    assert [finding.severity for finding in found] == ["error", "warning", "warning", "note"]
    assert found[0].place == "gearshift.yaml:7: models.m.variants.v.gpus"
    assert found[1].place == "gearshift.yaml:4: models.m.variants.v.args.a\\_b"


def test_what_is_the_same_of_several_variants_is_said_once_with_every_place() -> None:
    first = vllm(gpus=(3,))
    second = replace(first, variant=replace(first.variant, name="w"))
    found = [finding for finding in examine([first, second], setup()) if finding.id == "gpu-absent"]
    assert [finding.place for finding in found] == ["models.m.variants.v.gpus; models.m.variants.w.gpus"]
    other = replace(second, variant=replace(second.variant, gpus=(4,)))
    assert [finding.id for finding in examine([first, other], setup())].count("gpu-absent") == 2


def test_a_living_worker_is_found_by_its_name_with_what_it_holds() -> None:
    renamed = ["/bin/bash", "-c", "exec -a VLLM::Worker_TP0 sleep 60"]
    with subprocess.Popen(renamed) as worker:
        try:
            memory = FakeMemory.parse("1x24GiB")
            memory.held = {"GPU-fake-0": {worker.pid: 9 * GIB}}
            found = worker_of(memory, worker.pid)
        finally:
            worker.kill()
    assert (found.command, found.held) == ("VLLM::Worker_TP0 60", {"GPU-fake-0": 9 * GIB})


def worker_of(memory: FakeMemory, pid: int) -> EngineProcess:
    """The process once it has renamed itself, within ten seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for process in gather_box(memory, {"PATH": "/bin"}).processes:
            if process.pid == pid:
                return process
    raise TimeoutError(pid)


def test_this_very_process_is_no_engine() -> None:
    found = gather_box(FakeMemory.parse("1x24GiB"), {"PATH": "/bin"})
    assert os.getpid() not in {process.pid for process in found.processes}


def test_files_with_weights_are_told_by_their_names_and_what_training_left_is_none(model: Path) -> None:
    variant = Variant("m", "v", EngineRef("vllm"), weights=str(model))
    assert gathered(variant, model).checkpoint == ()
    for name in ("training_args.bin", "optimizer.pt", "pytorch_model.bin", "m.gguf", "notes.txt"):
        (model / name).write_bytes(b"")
    (model / "lost.safetensors").symlink_to(model / "blobs/gone")
    assert gathered(variant, model).checkpoint == ("m.gguf", "pytorch_model.bin")
    (model / "config.json").unlink()
    assert gathered(variant, model).checkpoint is None
