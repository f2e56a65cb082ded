"""`config check`: engines judge the flags, and every finding has its line."""
# ruff: noqa: E501 - messages are kept whole, as a terminal shows them

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from gearshift.advice.check import check_config
from gearshift.config import LoadedConfig, parse_config
from gearshift.domain.device import Device
from gearshift.domain.engine import EngineInstall, Flag, FlagMap
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineRef

_FILE = Path("gearshift.yaml")


class Installed:
    """A box with a vLLM whose flags were read from its binary, and nothing else."""

    def __init__(self, *flags: Flag, version: str = "0.99.0") -> None:
        self.asked: list[EngineRef] = []
        table = {flag.name: flag for flag in flags}
        self.install = EngineInstall(
            kind="vllm",
            version=version,
            command=("vllm", "serve"),
            path=Path("/opt/vllm"),
            managed=True,
            flags=FlagMap("vllm", version, table, verified=True) if flags else None,
        )

    def find(self, engine: EngineRef) -> EngineInstall:
        self.asked.append(engine)
        if engine.kind == "vllm":
            return self.install
        msg = f"{engine} is not installed"
        raise GearshiftError(msg)


def _load(text: str) -> LoadedConfig:
    return parse_config(text, file=_FILE, env={"HOME": "/home/me"})


def _said(text: str, box: Installed, *, strict: bool = False) -> str:
    problems = check_config(_load(text), find_engine=box.find, strict=strict)
    return "\n".join(f"{problem.severity} {problem}" for problem in problems)


_FLAGS = (
    Flag("max-model-len"),
    Flag("enable-prefix-caching", takes_value=False),
    Flag("dtype", choices=("auto", "half")),
)

_TEXT = """\
models:
  m:
    variants:
      a:
        engine: vllm
        weights: o/n
        context: 8K
        args:
          max-model-len: 8192
          enable-prefix-cachin: true
      b:
        extends: a
        args: {dtype: float99}
      c:
        engine: llama.cpp
        weights: o/n
        args: {no-mmap: true}
"""


def test_flags_are_held_against_the_installed_engine_and_placed_by_line() -> None:
    assert _said(_TEXT, Installed(*_FLAGS)) == snapshot("""\
error gearshift.yaml:9: models.m.variants.a.args.max-model-len: max-model-len repeats the variant's context (keep context and remove max-model-len)
error gearshift.yaml:13: models.m.variants.b.args.dtype: dtype does not take 'float99' (one of auto, half)
warning gearshift.yaml:15: models.m.variants.c.engine: llama.cpp is not installed (not verified against a binary)
warning gearshift.yaml:17: models.m.variants.c.args.no-mmap: llama.cpp 11434 no longer takes no-mmap (write args load-mode: none; not verified against a binary)\
""")


def test_strict_makes_every_warning_an_error() -> None:
    said = _said(_TEXT, Installed(), strict=True)
    assert "warning" not in said
    assert said.count("error") == said.count("\n") + 1


def test_an_engine_without_a_readable_flag_map_is_judged_by_the_packaged_table() -> None:
    text = "models: {m: {variants: {a: {engine: vllm, weights: o/n, args: {max-modle-len: 1}}}}}"
    assert _said(text, Installed()) == snapshot("""\
warning gearshift.yaml:1: models.m.variants.a.engine: vllm: its flags could not be read (not verified against a binary)
warning gearshift.yaml:1: models.m.variants.a.args.max-modle-len: vllm 0.32.0 has no flag max-modle-len (did you mean max-model-len?; not verified against a binary)\
""")


def test_the_default_installation_is_asked_for_variants_without_a_pin() -> None:
    text = """\
engines: {vllm: {version: 0.30.0}}
models:
  m:
    variants:
      a: {engine: vllm, weights: o/n}
      b: {engine: vllm==0.25.1, weights: o/n}
      c: {engine: vllm@/own, weights: o/n}
      d: {engine: command, command: "x ${port}", memory: 1GiB}
"""
    box = Installed(*_FLAGS)
    assert _said(text, box) == ""
    assert box.asked == [EngineRef("vllm", "0.30.0"), EngineRef("vllm", "0.25.1"), EngineRef("vllm", path=Path("/own"))]


def test_a_clash_of_an_inherited_flag_with_an_own_field_is_reported_where_it_arises() -> None:
    text = """\
models:
  m:
    variants:
      a:
        engine: vllm
        weights: o/n
        args: {max-model-len: 8192}
      b: {extends: a, context: 8K}
"""
    assert _said(text, Installed(*_FLAGS)) == snapshot(
        "error gearshift.yaml:7: models.m.variants.b.args.max-model-len: max-model-len repeats the variant's context (keep context and remove max-model-len)"
    )


def test_gpus_that_this_box_lacks_are_warned_of() -> None:
    text = "models: {m: {variants: {a: {engine: vllm, weights: o/n, gpus: [0, 1, GPU-ff]}}}}"
    box = Installed(*_FLAGS)

    def said(*devices: Device) -> list[str]:
        return [
            str(problem) for problem in check_config(_load(text), find_engine=box.find, strict=False, devices=devices)
        ]

    one = Device("GPU-aa", 0, "RTX 3090", 24)
    assert said(one) == snapshot(
        [
            "gearshift.yaml:1: models.m.variants.a.gpus: GPU 1 is not on this box (0: RTX 3090)",
            "gearshift.yaml:1: models.m.variants.a.gpus: GPU GPU-ff is not on this box (0: RTX 3090)",
        ]
    )
    assert said(one, Device("GPU-ff", 1, "RTX 3090", 24)) == []
    assert "(it has none)" in said(Device("cpu", None, "host", 24))[0]


def test_warnings_of_the_load_come_along() -> None:
    text = "models: {m: {variants: {a: {engine: vllm, weights: /nowhere/x}}}}"
    assert _said(text, Installed(*_FLAGS)) == snapshot(
        "warning gearshift.yaml:1: models.m.variants.a.weights: there is no /nowhere/x"
    )


def test_a_folder_with_its_configuration_alone_is_warned_of(tmp_path: Path) -> None:
    text = f"models: {{m: {{variants: {{a: {{engine: vllm, weights: {tmp_path}}}}}}}}}"
    (tmp_path / "config.json").write_text("{}")
    said = _said(text, Installed(*_FLAGS))
    assert said.startswith("warning gearshift.yaml:1: models.m.variants.a.weights: ")
    assert "no .safetensors or .bin or .pt file with weights" in said
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert _said(text, Installed(*_FLAGS)) == ""
