"""From experiments to a report: what was found first, then each question, then what limits it and how to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime

from gearshift.engines.llamacpp_build import engine_name
from gearshift.report.agreement import agreement
from gearshift.report.apart import told_apart
from gearshift.report.blocks import Block, Bullets, Figure, Report, Section, Text
from gearshift.report.caveats import caveats
from gearshift.report.charts import acceptance, ceiling, depth, load, memory, speculation, swaps
from gearshift.report.documents import OURS, Experiment, name_of
from gearshift.report.reproduction import recipe
from gearshift.report.tables import cell_table, tail_table
from gearshift.report.words import LABELS
from gearshift.stats.wording import format_change, format_detectable, format_paired

_TITLES = {
    "ladder": "What context costs",
    "concurrency": "Several streams",
    "speculation": "Speculative decoding",
    "prefix": "Prefix cache",
    "ab": "A against B",
    "swap": "Swaps",
    "saturate": "How much traffic it takes",
    "import": "Other tools' results",
}
_FIGURES: dict[str, tuple[Callable[[Sequence[Experiment]], Iterator[Figure]], ...]] = {
    "ladder": (depth.figures, acceptance.figures, ceiling.figures),
    "concurrency": (load.figures, acceptance.figures, ceiling.figures),
    "speculation": (speculation.figures, acceptance.figures),
    "swap": (swaps.figures,),
    "import": (depth.figures, load.figures, acceptance.figures),
}
_OF_SEVERAL = {"ab", "speculation", "swap"}  # variants
_READING = (
    "TTFT is the time to the first token of any kind; TPOT is (last token - first token) / (tokens - 1), and decode "
    "is its inverse: one stream's rate. Output is all streams' tokens over the wall time. Medians, with 95 % intervals "
    "over repeats in brackets."
)


def assemble(experiments: Sequence[Experiment], *, title: str | None = None) -> Report:
    """The report of these experiments, in the order of the questions.

    Raises:
        ValueError: there are none.
    """
    if not experiments:
        msg = "a report needs at least one result"
        raise ValueError(msg)
    order = list(_TITLES)
    experiments = sorted(experiments, key=lambda e: order.index(e.kind) if e.kind in order else len(order))
    experiments = told_apart(experiments)
    sections = [_question(kind, experiments) for kind in dict.fromkeys(e.kind for e in experiments)]
    if found := tuple(memory.figures(experiments)):
        sections.append(Section("Memory", found))
    if compared := tuple(agreement(experiments)):
        sections.append(Section("Client and engine", compared))
    sections.append(Section("Caveats", (_bulleted(caveats(experiments), "The data raises none."),)))
    sections.append(Section("How to repeat it", tuple(recipe(experiments))))
    return Report(title or _title(experiments), tuple(_lead(experiments)), tuple(sections))


def _title(experiments: Sequence[Experiment]) -> str:
    served = [experiment for experiment in experiments if experiment.kind != "swap"] or experiments
    names = list(dict.fromkeys(experiment.model or experiment.name for experiment in served))
    return f"Measured: {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"  # noqa: PLR2004 - a title is short


def _lead(experiments: Sequence[Experiment]) -> Iterator[Block]:
    yield Text(_conditions(experiments))
    variants = {_variant(experiment) for experiment in experiments} - {""}
    found = [
        f"{_variant(experiment)}: {words}" if len(variants) > 1 and _variant(experiment) else words
        for experiment in experiments
        for words in (*_verdict(experiment), *experiment.advice)
    ]
    if found:
        names = {cell.setting for experiment in experiments for cell in experiment.cells} | variants
        yield Bullets(tuple(dict.fromkeys(_sentence(words, names) for words in found)))
    if any(experiment.tool == OURS for experiment in experiments):
        yield Text(_READING)


def _variant(experiment: Experiment) -> str:
    """The one variant that an experiment is about; empty for several, which its words name themselves."""
    return "" if experiment.kind in _OF_SEVERAL else name_of(experiment.target)


def _conditions(experiments: Sequence[Experiment]) -> str:
    engines = dict.fromkeys(
        engine_name(experiment.target["engine"], experiment.target.get("engine_version"))
        for experiment in experiments
        if experiment.target.get("engine")
    )
    tools = dict.fromkeys(f"{e.tool} {e.tool_version or ''}".strip() for e in experiments)
    parts = [*engines, f"measured with {', '.join(tools)}", *_when(experiments)]
    return _sentence(", ".join(parts), {engine.partition(" ")[0] for engine in engines})


def _when(experiments: Sequence[Experiment]) -> Iterator[str]:
    times = [experiment.started for experiment in experiments if experiment.started is not None]
    if times:
        days = [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d") for at in (min(times), max(times))]
        yield " to ".join(dict.fromkeys(days))


def _verdict(experiment: Experiment) -> Iterator[str]:
    verdict, findings = experiment.verdict, experiment.findings
    if not verdict:
        return
    metric = LABELS.get(findings.get("metric", ""), findings.get("metric", ""))
    a, b = findings.get("a", "A"), findings.get("b", "B")
    ends = (
        ""
        if None in (verdict["low"], verdict["high"])
        else f" ({format_change(verdict['low'])} to {format_change(verdict['high'])})"
    )
    words = {"better": f"{b} is better than {a}", "worse": f"{b} is worse than {a}"}
    told = words.get(verdict["result"], f"{b} and {a} cannot be told apart")
    seen = verdict.get("smallest_detectable")
    least = "" if seen is None else f"; {format_detectable(seen)}"
    change = f"{format_change(verdict['change'])}{ends}, {format_paired(verdict['pairs'])}"
    yield f"{told} in {metric}: {change}{least}".replace("%", " %")


def _question(kind: str, experiments: Sequence[Experiment]) -> Section:
    """The charts of each axis, then each experiment's table."""
    asked = [experiment for experiment in experiments if experiment.kind == kind]
    blocks: list[Block] = []
    for axis in dict.fromkeys(experiment.axis for experiment in asked):
        alike = [experiment for experiment in asked if experiment.axis == axis]
        blocks += [figure for make in _FIGURES.get(kind, ()) for figure in make(alike)]
    for experiment in asked:
        named = f"{experiment.label}, {experiment.tool}" if experiment.tool != OURS else experiment.label
        if len(asked) > 1 or experiment.tool != OURS:
            blocks.append(Text(f"{named}:"))
        blocks.append(cell_table(experiment))
        if (slow := tail_table(experiment)) is not None:
            blocks += [Text("The slow requests, all repeats together:"), slow]
    return Section(_TITLES.get(kind, kind), tuple(blocks))


def _bulleted(items: Sequence[str], nothing: str) -> Block:
    return Bullets(tuple(items)) if items else Text(nothing)


def _sentence(words: str, names: Collection[str]) -> str:
    """Begun with a capital and ended with a stop; the name of a setting keeps its own spelling."""
    begin = words[:1] if words.partition(" ")[0].removesuffix(":") in names else words[:1].upper()
    return begin + words[1:] + ("" if words.endswith(".") else ".")
