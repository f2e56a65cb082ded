"""Whether the books agree: our requests and tokens against the server's counters, and its clock against ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.bench.counters import Counters
from gearshift.bench.engine_view import engine_view
from gearshift.bench.trial import Trial
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

_PARSER_SHARE, _PARSER_CHUNKS = 0.05, 2  # a tool parser may make more than one event of a token
_LOST_SHARE = 0.005


def isolation(trials: Sequence[Trial]) -> Check:
    """The server finished our requests and no others; by generated tokens where it does not count requests."""
    counted = [trial.counted for trial in trials if trial.counted is not None]
    if len(counted) < len(trials) or not counted:
        return invariants.requests_are_ours(None, None)
    if all(found.counters.requests is not None for found in counted):
        server = sum(found.counters.requests or 0 for found in counted)
        good = sum(len(trial.good) for trial in trials)
        return invariants.requests_are_ours(server, good, sum(len(trial.samples) for trial in trials) - good)
    if not all(_all_counted(trial) for trial in trials):
        return invariants.requests_are_ours(None, None)
    generated = sum(found.counters.generated_tokens or 0 for found in counted)
    ours = sum(trial.output_tokens or 0 for trial in trials)
    alien = generated - ours - _slack(trials) > max(2.0, 0.005 * ours)
    return Check("requests_are_ours", not alien, f"server generated {generated:g} tokens, ours {ours}")


def _all_counted(trial: Trial) -> bool:
    """Whether every token that we had generated is counted: an answer that broke off has some that are not."""
    broke_off = any(sample.chunk_s for sample in trial.samples if not sample.ok)
    return trial.output_tokens is not None and not broke_off


def reconciliation(trials: Sequence[Trial]) -> Check:
    """Usage, the server's counter and, where the server sends ids, the client count the same tokens."""
    usage, server, ids = token_counts(trials)
    good = [sample for trial in trials for sample in trial.good]
    chunks = sum(len(sample.chunk_s) for sample in good)
    if usage is not None and chunks > usage * (1 + _PARSER_SHARE) + _PARSER_CHUNKS * len(good):
        detail = f"usage {usage}, but {chunks} chunks came, each with a token or more"
        return Check("tokens_reconcile", ok=False, detail=detail)
    if usage is not None and server is not None and abs(server - usage) <= _slack(trials):
        server = float(usage)  # no nearer than it can be told
    return invariants.tokens_reconcile({"usage": usage, "server": server, "ids": ids})


def _slack(trials: Sequence[Trial]) -> float:
    """Tokens by which the server's counter may differ from ours: its rounding, and what it made of failed requests."""
    rounding = sum(trial.counted.resolution for trial in trials if trial.counted is not None)
    failed = sum(len(trial.samples) - len(trial.good) for trial in trials)
    most = max((sample.tokens or 0 for trial in trials for sample in trial.good), default=0)
    return rounding + failed * most


def uncounted(trials: Sequence[Trial]) -> str | None:
    """Where the server counted less than we had of it: its counters began anew and have passed where they were."""
    for trial in trials:
        found = trial.counted.counters if trial.counted is not None else None
        if found is None or trial.counted is None:
            continue
        if found.requests is not None and round(found.requests) < len(trial.good):
            return f"the server counted {found.requests:g} of our {len(trial.good)} requests"
        short = (_fewer(had, ours, trial.counted.resolution) for had, ours in _both(found, trial))
        if all(short):
            return "the server counted fewer tokens than it read and wrote for us"
    return None


def _both(found: Counters, trial: Trial) -> Iterator[tuple[float | None, int | None]]:
    """Tokens written and tokens read: by the server's counters, and by the usage of our answers."""
    usages = [sample.usage for sample in trial.good]
    read = sum(usage.prompt for usage in usages if usage) if all(usages) else None
    known = found.prompt_tokens
    if known is None and found.evaluated_tokens is not None and found.cached_tokens is not None:
        known = found.evaluated_tokens + found.cached_tokens
    yield found.generated_tokens, trial.output_tokens
    yield known, read


def _fewer(server: float | None, ours: int | None, rounding: float) -> bool:
    return server is not None and ours is not None and server + rounding < ours * (1 - _LOST_SHARE)


def token_counts(trials: Sequence[Trial]) -> tuple[int | None, float | None, int | None]:
    """Generated tokens by usage, by the server's counters, and by the ids received; None = not counted."""
    good = [sample for trial in trials for sample in trial.good]
    usage = [sample.usage.completion if sample.usage else None for sample in good]
    ids = [sample.token_ids for sample in good]
    counted = [trial.counted.counters.generated_tokens if trial.counted else None for trial in trials]
    return _sum_int(usage), _sum(counted), _sum_int(ids)


def server_first(trials: Sequence[Trial]) -> Check:
    """Mean TTFT of the client against the engine's own."""
    view = engine_view(trials)
    if view.client_ttft_s is None:
        return invariants.client_ttft_ge_server(None, None)
    return invariants.client_ttft_ge_server(view.client_ttft_s, view.ttft_s)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _sum_int(values: Sequence[int | None]) -> int | None:
    total = _sum(values)
    return None if total is None else int(total)
