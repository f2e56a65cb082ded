"""What the schema cannot say about one variant: fields that contradict each other or belong to another engine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gearshift.config.files import Base
from gearshift.config.keypath import KeyPath
from gearshift.config.presence import PATIENCE_S, presence
from gearshift.config.schema import VariantSection
from gearshift.config.substitution import PORT
from gearshift.domain.errors import ProblemSeverity

_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+")
_ENV_NAME = re.compile(r"[^=\s\0]+")
_COMMAND_ONLY = ("command", "stop", "upstream")
_NOT_FOR_COMMAND = ("weights", "speculation", "kv_dtype", "kv_bytes", "template", "sleep")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a variant; ``field`` is relative to it."""

    field: KeyPath
    message: str
    hint: str | None = None
    severity: ProblemSeverity = "error"


Rule = Callable[[VariantSection, Base], Iterator[Finding]]


def check_variant(section: VariantSection, base: Base) -> Iterator[Finding]:
    """Every finding about a merged variant. Without an engine nothing else is judged."""
    if section.engine is None or section.engine.kind is None:
        missing = "engine is missing" if section.engine is None else "engine has no kind"
        yield Finding(("engine",), missing, "llama.cpp, vllm or command")
        return
    for rule in _RULES:
        yield from rule(section, base)


def _fields_of_engine(section: VariantSection, _: Base) -> Iterator[Finding]:
    kind = _kind(section)
    foreign = _NOT_FOR_COMMAND if kind == "command" else _COMMAND_ONLY
    for field in foreign:
        if getattr(section, field):
            reason = "a command engine brings its own" if kind == "command" else "it belongs to engine: command"
            yield Finding((field,), f"{field} has no meaning for engine {kind}", reason)
    if section.sleep and kind == "llama.cpp":
        yield Finding(("sleep",), "sleep has no meaning for engine llama.cpp", "sleep mode is vLLM's")


def _weights(section: VariantSection, base: Base) -> Iterator[Finding]:
    if _kind(section) == "command":
        return
    if section.weights is None:
        yield Finding(("weights",), "weights is missing", "a GGUF file, a model folder or a Hugging Face id")
    elif not base.is_hub_id(section.weights):
        yield from _looked_for(("weights",), Path(base.weights(section.weights)))
    draft = section.speculation.draft if section.speculation else None
    if draft and not base.is_hub_id(draft):
        yield from _looked_for(("speculation", "draft"), Path(base.weights(draft)))
    if section.template:
        yield from _looked_for(("template",), base.path(section.template))


def _looked_for(field: KeyPath, path: Path) -> Iterator[Finding]:
    state = presence(path)
    if state == "absent":
        yield Finding(field, f"there is no {path}", severity="warning")
    elif state == "silent":
        hint = "its disk or network mount may be dead; mount it again, then gearshift reload"
        yield Finding(field, f"{path} gives no answer within {PATIENCE_S:g} s", hint, severity="warning")


def _engine_pin(section: VariantSection, _: Base) -> Iterator[Finding]:
    engine = section.engine
    if engine and engine.kind == "command" and (engine.version or engine.path):
        yield Finding(("engine",), "a command engine has neither version nor path", "what runs is in command:")
    elif engine and engine.version and engine.path:
        yield Finding(("engine",), "version and path are both given", "a path is used at whatever version it has")


def _command(section: VariantSection, _: Base) -> Iterator[Finding]:
    if _kind(section) != "command":
        return
    if not section.command and not section.upstream:
        hint = "command starts the server; upstream alone is a server that runs already"
        yield Finding(("command",), "command is missing", hint)
        return
    for field in ("command", "stop"):
        if isinstance(line := getattr(section, field), str) and (reason := _unsplittable(line)):
            yield Finding((field,), f"{line!r} cannot be split into arguments: {reason}")
    if not section.upstream and PORT not in f"{section.command}{section.env}":
        message = f"no {PORT} in it and no upstream: it has to read its port from the environment variable PORT"
        yield Finding(("command",), message, severity="warning")
    if section.memory is None:
        message = "no memory is declared: it shares a device with nobody"
        yield Finding(("engine",), message, "declare the bytes it takes on a device", "warning")


def _unsplittable(line: str) -> str | None:
    try:
        return None if shlex.split(line) else "it is empty"
    except ValueError as error:
        return str(error).lower()


def _port(section: VariantSection, _: Base) -> Iterator[Finding]:
    if _kind(section) == "command":
        return
    texts: dict[KeyPath, object] = {("args", flag): value for flag, value in section.args.items()}
    texts |= {("env", name): value for name, value in section.env.items()}
    for place, value in texts.items():
        if PORT in str(value):
            yield Finding(place, f"{PORT} is for command engines", "the port of this engine is set by Gearshift")


def _gpus(section: VariantSection, _: Base) -> Iterator[Finding]:
    gpus = section.gpus
    if gpus is None:
        return
    if not gpus:
        yield Finding(("gpus",), "gpus is empty", "leave it out to use every device")
    for gpu in gpus:
        if isinstance(gpu, int) and gpu < 0:
            yield Finding(("gpus",), f"{gpu} is not a GPU index", "indices count from 0, as nvidia-smi shows them")
        if isinstance(gpu, str) and not _UUID.fullmatch(gpu):
            yield Finding(("gpus",), f"{gpu!r} is not a GPU", "an index, or a UUID such as GPU-0123abcd-...")
    if len(set(gpus)) < len(gpus):
        yield Finding(("gpus",), "a GPU is named twice")


def _speculation(section: VariantSection, _: Base) -> Iterator[Finding]:
    speculation = section.speculation
    if speculation is None:
        return
    if speculation.method is None:
        yield Finding(("speculation",), "speculation has no method", "mtp, ngram or draft")
    elif speculation.method == "draft" and not speculation.draft:
        yield Finding(("speculation",), "method draft needs draft:", "the weights of the draft model")
    elif speculation.method in {"mtp", "ngram"} and speculation.draft:
        yield Finding(("speculation", "draft"), f"method {speculation.method} takes no draft model")


def _flag_names(section: VariantSection, _: Base) -> Iterator[Finding]:
    """Only their spelling: which flags an engine takes is judged against that engine, by `gearshift.engines`."""
    for written in section.args:
        if written.startswith("-"):
            yield Finding(("args", written), f"{written} has dashes in front", f"write {written.lstrip('-')}")


def _env_names(section: VariantSection, _: Base) -> Iterator[Finding]:
    for name, value in section.env.items():
        if not _ENV_NAME.fullmatch(name):
            yield Finding(("env", name), f"{name!r} is not the name of an environment variable")
        if "\0" in value:
            yield Finding(("env", name), "an environment variable cannot hold a NUL character")


def _probe(section: VariantSection, _: Base) -> Iterator[Finding]:
    if section.probe.kind == "http" and not section.probe.path:
        yield Finding(("probe",), "probe http needs a path", "write for example http:/health")
    elif section.probe.kind != "http" and section.probe.path:
        yield Finding(("probe",), f"probe {section.probe.kind} takes no path")


def _waits(section: VariantSection, _: Base) -> Iterator[Finding]:
    stall = section.stall_timeout if "stall_timeout" in section.model_fields_set else None  # a default is no mistake
    if stall is not None and stall > section.load_timeout:
        message = f"stall_timeout ({stall:g} s) never comes before load_timeout ({section.load_timeout:g} s)"
        yield Finding(("stall_timeout",), message, severity="warning")


def _kind(section: VariantSection) -> str:
    return str(section.engine.kind) if section.engine else ""


_RULES: tuple[Rule, ...] = (
    _fields_of_engine, _engine_pin, _weights, _command, _port, _gpus, _speculation, _flag_names, _env_names, _probe,
    _waits,
)  # fmt: skip
