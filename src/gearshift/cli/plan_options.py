"""The options of `gearshift plan` and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from gearshift.advice.plan_flags import parse_acceptance, parse_speculation
from gearshift.artifacts import is_address
from gearshift.domain.units import IN_TOKENS, parse_bytes, parse_tokens
from gearshift.domain.variant import EngineKind, Speculation
from gearshift.planner import DeviceKind, Gpu, parse_gpu
from gearshift.planner.request import Split

Read = TypeVar("Read")
Command = TypeVar("Command", bound=Callable[..., Any])
AUTO: Literal["auto"] = "auto"  # the smallest pool that holds one request of the whole context


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options as they were typed, read: bytes, tokens, tok/s. None = not given."""

    engine: EngineKind | None
    engine_version: str | None
    weights: Path | str | None  # a file or folder here, or a web address
    weights_size: int | None
    device: DeviceKind | None
    gpu: Gpu | None
    gpus: int | None
    context: int | None
    kv_dtype: str | None
    kv_bytes: int | Literal["auto"] | None
    speculation: Speculation | None
    prefix_caching: bool | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    parallel: int | None
    ubatch: int | None
    split: Split | None
    depth: int
    batch: int
    acceptance: tuple[float, ...] | None
    measured: float | None
    config: Path | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> PlanOptions:
        """From what `plan_options` hands to a command."""
        caching = {"on": True, "off": False, None: None}[given["prefix_caching"]]
        return cls(**{**given, "prefix_caching": caching})

    def by_flag(self) -> dict[str, Any]:
        """Every option under its flag's name, underscores for dashes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Parsed(click.ParamType[Read]):
    """A value that a function of text reads; its ValueError is the message of a usage error."""

    def __init__(self, name: str, parse: Callable[[str], Read]) -> None:
        self.name = name
        self._parse = parse

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        del param, ctx  # as it is written, where click would shout
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Read:
        try:
            return self._parse(value)
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)


class Weights(click.Path):
    """A path, or the text of a web address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, str) and is_address(value) else super().convert(value, param, ctx)


def _pool(text: str) -> int | str:
    return AUTO if text == AUTO else parse_bytes(text)


def _context(text: str) -> int:
    if not (tokens := parse_tokens(text)):
        msg = "a context of no tokens"
        raise ValueError(msg)
    return tokens


COUNT = click.IntRange(min=1)
GPUS = click.IntRange(1, 64)
SEQUENCES = click.IntRange(1, 1_000_000)
_OPTIONS = (
    click.option("--engine", type=click.Choice(["vllm", "llama.cpp"]), help="Plan from flags, without a variant."),
    click.option("--engine-version", metavar="V", help="Such as 0.32.0; by default the newest known."),
    click.option(
        "--weights",
        type=Weights(path_type=Path),
        metavar="PATH|URL",
        help="A GGUF file, here or at an address, a Hugging Face folder, or a config.json alone.",
    ),
    click.option(
        "--weights-size",
        type=Parsed("SIZE", parse_bytes),
        help="Size of weights that are not on this box yet, such as 19.8GiB.",
    ),
    click.option(
        "--device",
        type=click.Choice(["cuda", "cpu"]),
        help="By default cuda with --engine, and what this box has with VARIANT.",
    ),
    click.option(
        "--gpu",
        type=Parsed("NAME|GiB:GB/s", parse_gpu),
        help="Card to plan for, such as 'RTX 5090' or 32:1792; by default this box's.",
    ),
    click.option("--gpus", type=GPUS, help="How many such cards (vLLM: tensor parallel)."),
    click.option("--context", type=Parsed("TOKENS", _context), help=f"By default the model's own; {IN_TOKENS}."),
    click.option("--kv-dtype", metavar="TYPE", help="Cache type, such as fp8 or q8_0; llama.cpp takes K,V."),
    click.option(
        "--kv-bytes", type=Parsed("SIZE|auto", _pool), help="vLLM's pool on each GPU; auto: for one full request."
    ),
    click.option(
        "--speculation",
        type=Parsed("off|mtp:N|ngram:N|draft:PATH:N", parse_speculation),
        help="Speculative decoding of N tokens.",
    ),
    click.option("--prefix-caching", type=click.Choice(["on", "off"]), help="vLLM: by default as that version has it."),
    click.option("--max-num-seqs", type=SEQUENCES, help="vLLM: sequences at once."),
    click.option("--max-num-batched-tokens", type=COUNT, help="vLLM: tokens of one step."),
    click.option("--parallel", type=click.IntRange(1, 1024), help="Slots of llama.cpp."),
    click.option("--ubatch", type=COUNT, help="llama.cpp: micro batch, tokens."),
    click.option("--split", type=click.Choice(["none", "layer", "tensor"]), help="llama.cpp: how several cards share."),
    click.option(
        "--depth",
        type=Parsed("TOKENS", parse_tokens),
        default="0",
        help=f"Ceiling: tokens in the context; {IN_TOKENS}.",
        show_default=True,
    ),
    click.option("--batch", type=COUNT, default=1, help="Ceiling: sequences at once.", show_default=True),
    click.option(
        "--acceptance",
        type=Parsed("A0,A1,...", parse_acceptance),
        help="Ceiling: share of drafts accepted, by position.",
    ),
    click.option(
        "--measured",
        type=click.FloatRange(min=0, min_open=True),
        metavar="TOK/S",
        help="Ceiling: a measured speed, to be shown as a share of it.",
    ),
    click.option("--config", "-c", type=click.Path(path_type=Path), help="The configuration that has VARIANT."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document: bytes, tokens and seconds."),
)


def plan_options(command: Command) -> Command:
    """All of them, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
