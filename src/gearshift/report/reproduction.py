"""The exact recipe: versions, command lines, files, hardware, and the commands that measured it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gearshift.domain.units import format_bytes
from gearshift.engines.llamacpp_build import engine_name
from gearshift.report.blocks import Block, Code, Table, Text
from gearshift.report.documents import OURS, Experiment, Json, name_of

_ELSEWHERE = (
    "The lines below are for a Gearshift that serves these variants. Against an engine started by hand as above, give "
    "each of them --url http://127.0.0.1:PORT and its --alias or --served-model-name as --model; only swap needs a "
    "Gearshift."
)
Plan = Mapping[str, Any]


def recipe(experiments: Sequence[Experiment]) -> Iterator[Block]:
    """What was served, each target once, and then how it was measured."""
    yield Table(("what", "value"), tuple(_once(row for experiment in experiments for row in _conditions(experiment))))
    targets = [target for experiment in experiments for target in experiment.targets]
    served = dict.fromkeys(text for target in targets if (text := _served(target)))
    yield from (Code(text) for text in served)
    commands = list(dict.fromkeys(text for experiment in experiments if (text := command(experiment))))
    if commands:
        if served:
            yield Text(_ELSEWHERE)
        yield Code("\n".join(commands))


def _once(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each row once; of a build that is named with its commit and without, the one with it."""
    found = dict.fromkeys(rows)
    for name, value in found:
        if not any(name == other and longer.startswith(f"{value}-") for other, longer in found if name == "engine"):
            yield name, value


def _conditions(experiment: Experiment) -> Iterator[tuple[str, str]]:
    yield "measured with", _joined(experiment.tool, experiment.tool_version)
    if experiment.model:
        yield "variants" if experiment.kind == "swap" else "model", str(experiment.model)
    for target in experiment.targets:
        yield from _target(target)
    if experiment.tool != OURS:
        conditions = experiment.target.get("conditions") or {}
        yield from (
            (f"{experiment.tool}: {key}", _plainly(value)) for key, value in conditions.items() if value is not None
        )
        yield from ((f"{experiment.tool}: {key} means", text) for key, text in experiment.definitions.items())


def _plainly(value: Any) -> str:
    """A value of another tool's file; of a nested one what it states."""
    return json.dumps(_stated(value), ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _stated(value: Any) -> Any:
    """Without what says nothing: nulls and empty lists."""
    if isinstance(value, dict):
        return {key: _stated(inner) for key, inner in value.items() if inner is not None and inner not in ([], {})}
    return [_stated(inner) for inner in value] if isinstance(value, list) else value


def _target(target: Json) -> Iterator[tuple[str, str]]:
    if target.get("engine"):
        yield "engine", engine_name(target["engine"], target.get("engine_version"))
    provenance = target.get("provenance") or {}
    if provenance.get("through"):
        yield "requests to", str(provenance["through"])
    for file in provenance.get("weights") or ():
        digest = f"sha256 {file['sha256']}" if file.get("sha256") else "not hashed"
        yield "weights", f"{file['file']}, {format_bytes(file['bytes'])}, {digest}"
    if provenance.get("template_sha256"):
        yield "chat template", f"sha256 {provenance['template_sha256']}"
    yield from _hardware(provenance.get("hardware") or {})


def _hardware(hardware: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for gpu in hardware.get("gpus") or ():
        yield "GPU", ", ".join([gpu["name"], format_bytes(gpu["bytes"]), *_allowed(gpu.get("settings") or {})])
    if hardware.get("driver"):
        yield "driver", str(hardware["driver"])
    if hardware:
        ram = format_bytes(hardware["ram_bytes"]) if hardware.get("ram_bytes") else "unknown"
        core = "".join(f", {told}" for told in _core(hardware))
        yield "processor", f"{hardware.get('cpu') or 'unknown'}, {hardware.get('cores')} cores{core}, {ram} of memory"
        yield "kernel", str(hardware.get("kernel"))


def _allowed(settings: Mapping[str, Any]) -> Iterator[str]:
    """The clocks and the power that a GPU is allowed, as far as it says."""
    told = {
        "power_limit_w": "at most {:g} W",
        "max_clock_mhz": "up to {} MHz",
        "application_clock_mhz": "set to {} MHz",
        "max_memory_clock_mhz": "memory up to {} MHz",
    }
    return (words.format(settings[key]) for key, words in told.items() if settings.get(key) is not None)


def _core(hardware: Mapping[str, Any]) -> Iterator[str]:
    """How the cores are set, as far as the kernel says."""
    if hardware.get("cpu_max_mhz") is not None:
        yield f"up to {hardware['cpu_max_mhz']} MHz"
    if hardware.get("cpu_governor"):
        yield f"governor {hardware['cpu_governor']}"


def _served(target: Json) -> str:
    """The engine's environment and command line, to be run as it stands but for its port."""
    provenance = target.get("provenance") or {}
    if not provenance.get("argv"):
        return ""
    env = [f"{name}={_quoted(value)}" for name, value in (provenance.get("env") or {}).items()]
    words = [_quoted(word) for word in provenance["argv"]]
    return f"# {name_of(target)}\n" + " \\\n  ".join([*env, *_paired(words)])


def _paired(words: Sequence[str]) -> Iterator[str]:
    """A flag and its values on one line."""
    line: list[str] = []
    for word in words:
        if word.startswith("-") and line:
            yield " ".join(line)
            line = []
        line.append(word)
    yield " ".join(line)


def _quoted(word: str) -> str:
    """For a shell, which must still expand ``~``."""
    return "~/" + shlex.quote(word[2:]) if word.startswith("~/") else shlex.quote(word)


def command(experiment: Experiment) -> str:
    """The `gearshift bench` line that measures it again; empty where its plan is not known, or lacks what it needs."""
    try:
        return _command(experiment)
    except (KeyError, TypeError):  # not there, or null
        return ""


def _command(experiment: Experiment) -> str:
    if experiment.kind == "swap":
        names = dict.fromkeys(name for cell in experiment.cells for name in cell.setting.split(" > "))
        return shlex.join(["gearshift", "bench", "swap", *names, "--repeats", str(experiment.cells[0].trials)])
    if not experiment.plan or experiment.kind not in _OWN:
        return ""
    first = experiment.plan[0]
    words = ["gearshift", "bench", experiment.kind, *_OWN[experiment.kind](experiment)]
    if experiment.kind not in {"ab", "speculation"}:
        words += ["--model", experiment.name]
    if not experiment.provenance and not _urls(experiment):
        words += ["--url", str(experiment.target.get("url"))]
    words += ["--output", str(first["output"]), *_requests(experiment), "--repeats", str(first["trials"])]
    return shlex.join([*words, *_shape(first)])


def _shape(plan: Plan) -> Iterator[str]:
    """Options that differ from what they are by default."""
    if plan.get("file"):
        yield from ("--prompts", str(plan["file"]))
    elif plan.get("kind") != "prose":
        yield from ("--text", str(plan["kind"]))
    if plan.get("dialect") != "chat" and plan.get("kind") != "ids":
        yield from ("--api", str(plan["dialect"]))
    if not plan.get("exact", True):
        yield "--natural-end"
    if plan.get("burst"):
        yield "--burst"
    if plan.get("extra"):
        yield from ("--extra", json.dumps(plan["extra"]))


def _requests(experiment: Experiment) -> list[str]:
    """The least of all cells, which the others raise to their level; a sweep that was not told how many has none."""
    counts = [int(cell["requests"]) for cell in experiment.plan]
    if experiment.kind == "concurrency" and len(set(counts)) > 1:
        return []
    return ["--requests", str(min(counts))]


def _ladder(experiment: Experiment) -> list[str]:
    plan = experiment.plan
    needles = _several(plan[0].get("needles") or ())
    return ["--depths", _column(plan, "depth"), *(["--needle", needles] if needles else [])]


def _concurrency(experiment: Experiment) -> list[str]:
    plan = experiment.plan
    return ["--levels", _column(plan, "concurrency"), "--input", str(plan[0]["depth"])]


def _speculation(experiment: Experiment) -> list[str]:
    plan = experiment.plan
    urls = _urls(experiment)
    named = {
        setting: name_of(target) or str(target["url"] if urls else target.get("model"))
        for setting, target in (experiment.findings.get("targets") or {}).items()
    }
    settings = dict.fromkeys(str(cell["setting"]) for cell in plan)
    tokens = ",".join(f"{setting}={named[setting]}" if named.get(setting) else setting for setting in settings)
    return ["--tokens", tokens, "--levels", _column(plan, "concurrency"), "--depths", _column(plan, "depth")]


def _urls(experiment: Experiment) -> bool:
    """Whether each setting was a server of its own, that no Gearshift speaks for."""
    return len({target.get("url") for target in experiment.targets}) > 1 and not experiment.provenance


def _saturate(experiment: Experiment) -> list[str]:
    plan, goal = experiment.plan, experiment.findings.get("goal") or {}
    limits = [("--ttft", goal.get("ttft_s")), ("--tpot", goal.get("tpot_s"))]
    first, second = plan[0]["rate"], plan[min(1, len(plan) - 1)]["rate"]
    factor = ["--factor", f"{second / first:.6g}"] if len(plan) > 1 else []
    return [
        *(word for name, limit in limits if limit is not None for word in (name, f"{limit:g}s")),
        *("--rate", f"{first:.6g}", *factor, "--steps", str(len(plan)), "--input", str(plan[0]["depth"])),
    ]


def _prefix(experiment: Experiment) -> list[str]:
    plan = experiment.plan
    prefix = int(plan[0]["shared_prefix"])
    return ["--prefix", str(prefix), "--suffix", str(int(plan[0]["depth"]) - prefix)]


def _ab(experiment: Experiment) -> list[str]:
    plan, metric = experiment.plan, experiment.findings.get("metric")
    a, b = (str(cell["setting"]) for cell in plan)
    extra = plan[1].get("extra") or {}
    sides = [a, "--b-extra", json.dumps(extra)] if b == f"{a} with {json.dumps(extra)}" else [a, b]
    streams = ["--streams", str(plan[0]["concurrency"])] if plan[0]["concurrency"] > 1 else []
    judged = ["--metric", str(metric)] if metric and metric != "decode_tok_s" else []
    return [*sides, "--input", str(plan[0]["depth"]), *streams, *judged]


def _column(plan: Sequence[Plan], name: str) -> str:
    return _several(dict.fromkeys(cell[name] for cell in plan))


def _several(values: Any) -> str:
    return ",".join(str(value) for value in values)


def _joined(name: object, version: object) -> str:
    return f"{name} {version}" if version else str(name)


_OWN = {
    "ladder": _ladder,
    "concurrency": _concurrency,
    "speculation": _speculation,
    "prefix": _prefix,
    "ab": _ab,
    "saturate": _saturate,
}
