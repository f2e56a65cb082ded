"""`gearshift bench import`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from gearshift.bench.importers import Imported, cross_check, keep, read_file
from gearshift.cli.bench.running import plain
from gearshift.cli.bench.view import figure
from gearshift.cli.output import table
from gearshift.cli.session import Session, pass_session
from gearshift.stats.invariants import Check
from gearshift.store import Measurements

_COLUMNS = ("STREAMS", "DEPTH", "REQUESTS", "TTFT", "TPOT", "CHUNK GAP", "OUTPUT tok/s", "DECODE tok/s")


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--no-store", is_flag=True, help="Do not keep the results.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; a list of them for several files.")
@pass_session
def command(session: Session, files: tuple[Path, ...], *, no_store: bool, as_json: bool) -> None:
    """Read other tools' result files and check them.

    Of vllm bench serve (its sweeps and multi-turn mode too), llama-bench, llama-batched-bench, guidellm, aiperf,
    llama-benchy, inference-perf and sglang. Each tool's figures keep its own definitions, which are stated, and are
    held against what must be true of any measurement.
    """
    results = [read_file(file) for file in files]
    between = cross_check(results)
    for file, result in zip(files, results, strict=True):
        if not no_store:
            number = keep(result, Measurements(session.paths.database), file=file, at=time.time())
            session.output.say(f"{file} is result {number}")
    documents = [plain(result.to_json()) for result in results]
    if between:
        documents[0]["invariants"] = [*_listed(documents[0]["invariants"]), *(asdict(check) for check in between)]
    shown = documents[0] if len(documents) == 1 else documents
    session.output.emit(shown, as_json=as_json, human=lambda: _text(files, results, between))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(files: Sequence[Path], results: Sequence[Imported], between: Sequence[Check]) -> str:
    parts = [_one(file, result) for file, result in zip(files, results, strict=True)]
    return "\n\n".join([*parts, *(["\n".join(map(_checked, between))] if between else [])])


def _one(file: Path, result: Imported) -> str:
    head = " ".join(part for part in (result.tool, result.tool_version, result.model) if part)
    lines = [f"{file}: {head}", "", table(_COLUMNS, [_row(row.to_json()) for row in result.rows]), ""]
    lines += [_checked(check) for check in result.invariants if check.ok is not None]
    return "\n".join([*lines, *result.notes])


def _row(row: dict[str, Any]) -> list[str]:
    counts = [row["concurrency"], row["depth"], row["completed"] if row["completed"] is not None else row["requests"]]
    figures = [figure(row[name], name) for name in ("ttft_s", "tpot_s", "chunk_gap_s", "output_tok_s", "decode_tok_s")]
    return ["-" if count is None else str(count) for count in counts] + figures


def _checked(check: Check) -> str:
    word = click.style("holds", fg="green") if check.ok else click.style("FAILS", fg="red")
    return f"{word}  {check.name}: {check.detail}"
