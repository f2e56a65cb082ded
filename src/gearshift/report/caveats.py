"""What the data says against itself, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.documents import OURS, Experiment
from gearshift.report.words import place

MEANINGS = {
    "nothing_succeeded": "No request succeeded.",
    "requests_failed": "Too many requests failed for the rest to stand for them.",
    "some_requests_failed": "A few requests failed; the figures are of the others.",
    "server_restarted": "The server was restarted in the middle.",
    "foreign_requests": "Somebody else used the server at the same time.",
    "cache_was_warm": "Prompts that should have been new came from the cache.",
    "cache_was_cold": "Prompts that should have been cached were not.",
    "client_overloaded": "The load generator itself was too slow.",
    "no_steady_state": "Requests came for too short a time to fill the server: a lasting rate may do worse.",
    "not_streamed": "Answers were not streamed, or something between gathered what was.",
    "keys_refused": "The server does not take everything that was to be asked of it.",
    "trials_run_again": "Repeats in which the load generator was late were thrown away and run again.",
    "single_run": "Measured once: how much it varies is not known.",
    "busy_cores": "Other programs used the processor meanwhile, which slows an engine on it and delays a client.",
    "ttft_uncertain": "The client's clock was late by a share of the time to the first token.",
    "first_trial_odd": "The first repeat differs from the others, as after a start.",
    "outlier_trial": "One repeat is far from the others.",
    "drift": "The repeats rise or fall in order.",
    "gpu_throttled": "The GPU slowed itself down.",
    "silent_speculation": "Speculation is configured, but nothing was drafted.",
    "preempted": "The engine ran out of cache and computed some requests twice.",
    "tokens_do_not_reconcile": "Sources disagree on how many tokens there were.",
    "ttft_below_server": "The client saw a first token before the server says it sent one.",
    "prompt_length_off": "Prompts were not as long as planned.",
    "answers_short": "Answers ended before their planned length.",
    "tokens_unknown": "The server does not count tokens.",
    "cache_unknown": "The server does not say what came from its cache.",
    "woke_cold": "It slept but did not wake, and was started anew: this is a load, not a waking.",
    "nothing_stopped": "Both variants fit beside each other: this is a load, not a swap.",
}


SPOILING = frozenset({
    "nothing_succeeded", "requests_failed", "server_restarted", "foreign_requests", "cache_was_warm", "cache_was_cold",
    "client_overloaded", "not_streamed", "tokens_do_not_reconcile",
})  # fmt: skip


def caveats(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Every caveat once, with where it holds and the figures of its first case."""
    return (*_flags(experiments), *_imports(experiments), *_axes(experiments), *_interrupted(experiments))


def _flags(experiments: Sequence[Experiment]) -> Iterator[str]:
    found: dict[str, list[tuple[str, str]]] = {}
    for experiment in experiments:
        for cell in experiment.cells:
            for name, detail in cell.flags.items():
                where = f"{experiment.kind} of {experiment.label}, {place(cell)}"
                found.setdefault(name, []).append((where, detail))
    total = sum(len(experiment.cells) for experiment in experiments)
    for name, cases in sorted(found.items(), key=lambda item: item[0] not in SPOILING):
        yield _sentence(name, cases, total)


def _sentence(name: str, cases: Sequence[tuple[str, str]], total: int) -> str:
    where, detail = cases[0]
    meaning = MEANINGS.get(name, name.replace("_", " ") + ".")
    places = f"{len(cases)} of {total} cells, for instance {where}" if len(cases) > 1 else where
    worth = " Not valid." if name in SPOILING else ""
    return f"{name}: {meaning}{worth} In {places}{f' ({detail})' if detail else ''}."


def _imports(experiments: Sequence[Experiment]) -> Iterator[str]:
    for experiment in experiments:
        for check in experiment.invariants:
            if check.get("ok") is False:
                yield f"{experiment.tool}: the invariant {check['name']} fails: {check.get('detail', '')}."
        for note in experiment.notes:
            yield f"{experiment.tool}: {note}."


def _axes(experiments: Sequence[Experiment]) -> Iterator[str]:
    tools = dict.fromkeys(experiment.tool for experiment in experiments)
    if len({experiment.axis for experiment in experiments}) > 1:
        yield f"{', '.join(tools)} define their figures differently: they are never drawn together or compared."


def _interrupted(experiments: Sequence[Experiment]) -> Iterator[str]:
    for experiment in experiments:
        if experiment.interrupted:
            yield f"The {experiment.kind} of {experiment.label} was interrupted: not every planned cell is there."
    if any(experiment.tool == OURS and not experiment.provenance for experiment in experiments):
        yield "A server at a URL was measured from outside: its command line, files and hardware are not known."
