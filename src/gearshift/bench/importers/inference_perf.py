"""inference-perf: a stage's lifecycle metrics (the client's view) and its Prometheus metrics (the server's view)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.bench.importers.imported import Document, Imported, ImportedRow, Summary, merge, number, summary, whole
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

CLIENT, SERVER = "inference-perf", "inference-perf (server view)"
DEFINITIONS = {
    "ttft_s": "request start to the first content chunk",
    "tpot_s": "its own time_per_output_token, whose divisor is not stated",
    "chunk_gap_s": "its inter token latency: gaps between content chunks, pooled",
    "e2e_s": "request start to its end",
}
_SERVER_DEFINITIONS = {
    "ttft_s": "the server's histogram over the query window, which need not be the stage",
    "tpot_s": "the server's histogram",
    "e2e_s": "the server's histogram",
}
_NAMES = {name: name for name in ("mean", "median", "p90", "p95", "p99", "min", "max")}


def matches(rows: Sequence[Document]) -> bool:
    """Either of a stage's two files."""
    return {"load_summary", "successes", "failures"} <= rows[0].keys()


def read(rows: Sequence[Document]) -> Imported:
    """One row: the stage."""
    stage = rows[0]
    return _client(stage) if "latency" in stage["successes"] else _server(stage)


def _client(stage: Document) -> Imported:
    good, load = stage["successes"], stage["load_summary"]
    latency, throughput = good["latency"], good.get("throughput", {})
    row = ImportedRow(
        requests=whole(load.get("count")),
        completed=whole(good.get("count")),
        ttft_s=_figure(latency, "time_to_first_token"),
        tpot_s=_figure(latency, "time_per_output_token"),
        chunk_gap_s=_figure(latency, "inter_token_latency"),
        e2e_s=_figure(latency, "request_latency"),
        output_tok_s=number(throughput.get("output_tokens_per_sec")),
        request_s=number(throughput.get("requests_per_sec")),
        depth=whole(_mean(good, "prompt_len")),
        output=_mean(good, "output_len"),
        setting=f"open loop, {load['requested_rate']:g}/s" if "requested_rate" in load else "",
    )
    conditions = {key: load.get(key) for key in ("requested_rate", "achieved_rate", "send_duration")}
    return Imported(CLIENT, None, None, DEFINITIONS, (row,), merge([tuple(_client_checks(row))]), conditions=conditions)


def _server(stage: Document) -> Imported:
    good = stage["successes"]
    row = ImportedRow(
        completed=whole(good.get("count")),
        ttft_s=_figure(good, "time_to_first_token"),
        tpot_s=_figure(good, "time_per_output_token"),
        e2e_s=_figure(good, "request_latency"),
        output_tok_s=number(good.get("output_len", {}).get("rate")),
        request_s=number(good.get("rate")),
        setting="server view",
    )
    return Imported(SERVER, None, None, _SERVER_DEFINITIONS, (row,), merge([tuple(_server_checks(stage, row))]))


def _client_checks(row: ImportedRow) -> Iterator[Check]:
    gap, tpot, ttft, e2e = (
        (figure or {}).get("mean") for figure in (row.chunk_gap_s, row.tpot_s, row.ttft_s, row.e2e_s)
    )
    yield invariants.completed_gt_0(row.completed)
    yield invariants.itl_over_length_is_tpot(gap, None, tpot)
    yield invariants.latency_is_ttft_plus_decode(e2e, ttft, tpot, row.output)
    yield _gaps_are_even(row.chunk_gap_s)


def _gaps_are_even(gaps: Summary | None) -> Check:
    """Tokens come at steps; a median gap far below the mean says that they come in bursts, as chunks of one step."""
    if gaps is None or "median" not in gaps or "mean" not in gaps:
        return Check("gaps_are_token_times", None, "not stated: gaps between chunks")
    ok = gaps["median"] > 0.2 * gaps["mean"]
    return Check(
        "gaps_are_token_times", ok, f"gap median {gaps['median'] * 1e3:.3g} ms, mean {gaps['mean'] * 1e3:.3g} ms"
    )


def _server_checks(stage: Document, row: ImportedRow) -> Iterator[Check]:
    good = stage["successes"]
    yield invariants.completed_gt_0(row.completed)
    for name in ("prompt_len", "output_len"):
        length = good.get(name, {})
        rate = number(length.get("rate"))
        by_rate = rate / row.request_s if rate is not None and row.request_s else None
        yield invariants.tokens_reconcile({f"{name}.mean": number(length.get("mean")), "by rates": by_rate})


def cross_check(client: Imported, server: Imported) -> tuple[Check, ...]:
    """Whether the two views saw the same requests."""
    ours, theirs = client.rows[0], server.rows[0]
    ttfts = [(row.ttft_s or {}).get("mean") for row in (ours, theirs)]
    tpots = [(row.tpot_s or {}).get("mean") for row in (ours, theirs)]
    return (
        invariants.requests_are_ours(theirs.completed, ours.completed),
        invariants.client_ttft_ge_server(*ttfts),
        invariants.tokens_reconcile({
            "client's tokens a second of decode": 1 / tpots[0] if tpots[0] else None,
            "server's": 1 / tpots[1] if tpots[1] else None,
        }),
    )  # fmt: skip


def _figure(source: Document, name: str) -> Summary | None:
    found = source.get(name)
    return summary(found, _NAMES) if isinstance(found, dict) else None


def _mean(source: Document, name: str) -> float | None:
    found = source.get(name)
    return number(found.get("mean")) if isinstance(found, dict) else None
