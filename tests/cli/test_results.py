"""What was measured can be listed, shown, compared, exported and written up again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from gearshift.cli.bench.view import render
from gearshift.cli.output import folded_table
from gearshift.store import CellRecord, ExperimentRecord, open_store

Gearshift = Callable[..., Result]
TARGET = {"url": "http://127.0.0.1:1", "model": "m", "engine": "vllm", "engine_version": "0.32.0", "provenance": {}}
PLAN = {"output": 16, "kind": "prose", "dialect": "chat", "exact": True, "cache": "cold", "rate": None}


def cell(concurrency: int, decode: float, *, valid: bool = True) -> CellRecord:
    figures = {
        "concurrency": concurrency,
        "depth": 512,
        "setting": "",
        "trials": 3,
        "decode_tok_s": {"median": decode, "low": decode - 1, "high": decode + 1},
        "valid": valid,
        "flags": [] if valid else ["foreign_requests"],
        "flag_details": {} if valid else {"foreign_requests": "server 9, ours 4"},
    }
    return CellRecord(f"{concurrency} {decode}", "", concurrency, 512, valid, PLAN, figures)


@pytest.fixture
def stored(gearshift_home: Path) -> list[int]:
    """Two sweeps of the same question, the second one slower, and a ladder."""
    kept = open_store(gearshift_home / "gearshift.db").measurements
    numbers = []
    for name, cells in (
        ("concurrency", [cell(1, 50.0), cell(4, 40.0)]),
        ("concurrency", [cell(1, 45.0), cell(4, 39.5, valid=False)]),
        ("ladder", [cell(1, 50.0)]),
    ):
        record = ExperimentRecord(name, 1_790_000_000.0, TARGET, {"cells": []}, model="m", tool_version="0.1.0")
        numbers.append(kept.begin_experiment(record))
        for one in cells:
            kept.add_cell(numbers[-1], one)
        kept.end_experiment(numbers[-1], ended=1_790_000_060.0, state="done", outcome={"advice": ["measure more"]})
    return numbers


def test_results_are_listed_newest_first(gearshift: Gearshift, stored: list[int]) -> None:
    done = gearshift("results", "list")
    assert done.stdout == snapshot("""\
ID  WHEN (UTC)        EXPERIMENT   TOOL       MODEL  CELLS  STATE
3   2026-09-21 14:13  ladder       gearshift  m      1      done
2   2026-09-21 14:13  concurrency  gearshift  m      2      done
1   2026-09-21 14:13  concurrency  gearshift  m      2      done
""")
    rows = json.loads(gearshift("results", "list", "--experiment", "ladder", "--json").stdout)
    assert [row["id"] for row in rows] == [stored[2]]


def test_an_empty_store_says_how_to_fill_it(gearshift: Gearshift) -> None:
    done = gearshift("results", "list", "--json")
    assert json.loads(done.stdout) == []
    assert "gearshift bench" in done.stderr


def test_a_result_is_shown_with_its_cells_flags_and_advice(gearshift: Gearshift, stored: list[int]) -> None:
    assert gearshift("results", "show", str(stored[1])).stdout == snapshot("""\
concurrency, m, vllm 0.32.0, http://127.0.0.1:1

STREAMS  DEPTH  DECODE tok/s       TRIALS  VALID
1        512    45 (44..46)        3       yes
4        512    39.5 (38.5..40.5)  3       NO

foreign_requests in 1 of 2 cells: server 9, ours 4

measure more
""")


def test_a_diff_shows_common_valid_cells_and_whether_intervals_touch(gearshift: Gearshift, stored: list[int]) -> None:
    a, b, _ = map(str, stored)
    assert gearshift("results", "diff", a, b).stdout == snapshot("""\
SETTING  STREAMS  DEPTH  FIGURE        A   B   CHANGE  INTERVALS
-        1        512    decode_tok_s  50  45  -10.0%  apart
""")
    (change,) = json.loads(gearshift("results", "diff", a, b, "--json").stdout)["changes"]
    assert change["change"] == pytest.approx(-0.1)
    assert change["apart"] is True


def test_what_is_not_comparable_is_refused_with_the_reason(gearshift: Gearshift, stored: list[int]) -> None:
    a, _, ladder = map(str, stored)
    done = gearshift("results", "diff", a, ladder)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "the questions differ: concurrency against ladder" in done.stderr


def test_exports_are_documents_or_lines(gearshift: Gearshift, stored: list[int]) -> None:
    documents = json.loads(gearshift("results", "export", *map(str, stored)).stdout)
    assert [found["experiment"] for found in documents] == ["concurrency", "concurrency", "ladder"]
    rows = list(csv.DictReader(io.StringIO(gearshift("results", "export", "1", "--format", "csv").stdout)))
    assert [row["decode_tok_s"] for row in rows] == ["50.0", "40.0"]


def test_a_number_that_is_not_stored_is_an_error(gearshift: Gearshift, stored: list[int]) -> None:
    assert stored
    done = gearshift("results", "show", "99")
    assert done.exit_code == 1
    assert "gearshift results list" in done.stderr


def test_a_table_wider_than_the_terminal_is_folded_with_its_keys_in_every_part() -> None:
    figure = {"median": 1.05, "low": 1.0, "high": 1.1}
    names = ("ttft_s", "tpot_s", "decode_tok_s", "prefill_tok_s", "output_tok_s")
    wide = {"concurrency": 4, "depth": 512, "trials": 3, "valid": True, "flags": ["busy_cores"]}
    document = {"experiment": "ladder", "target": {"model": "m"}, "cells": [wide | dict.fromkeys(names, figure)]}
    assert render(document, width=80) == snapshot("""\
ladder, m

STREAMS  DEPTH  TTFT                  TPOT                  DECODE tok/s
4        512    1.1 s (1.0 s..1.1 s)  1.1 s (1.0 s..1.1 s)  1.05 (1..1.1)

STREAMS  DEPTH  PREFILL tok/s  OUTPUT tok/s   TRIALS  VALID
4        512    1.05 (1..1.1)  1.05 (1..1.1)  3       flagged

\x1b[33mbusy_cores\x1b[0m\
""")
    assert "\n\n\n" not in render(document)
    assert max(map(len, render(document, width=60).splitlines())) <= 60


def test_what_is_not_folded_is_one_table_as_wide_as_it_is() -> None:
    assert folded_table(["A", "B"], [["1", "2"]], keys=1, width=None) == "A  B\n1  2"
    assert folded_table(["A", "B"], [["1", "2" * 99]], keys=1, width=20) == f"A  B\n1  {'2' * 99}"


def test_a_verdict_too_noisy_to_mean_anything_says_so_and_not_in_thousands_of_percent() -> None:
    noisy = {"change": 0.0633, "low": -0.9982, "high": 641.5, "smallest_detectable": 1208.2}
    verdict = {"result": "cannot_tell", **noisy, "pairs": 4}
    document = {"experiment": "ab", "target": {}, "cells": [], "verdict": verdict}
    told = render(document).splitlines()[-1]
    assert told.startswith("cannot tell: B against A +6.33% (-99.82% to 642 times), paired: the mean ratio of 4 pairs")
    assert "neighbouring trials; too noisy, not even" in told
    assert "1,209 times" in told
    assert "at rest" in told
    quiet = verdict | {"low": -0.007, "high": 0.0044, "change": -0.0013, "smallest_detectable": 0.008}
    told = render(document | {"verdict": quiet}).splitlines()[-1]
    assert told.startswith("cannot tell: B against A -0.13% (-0.70% to +0.44%), paired: ")
    assert told.endswith("; a difference of 0.80% would have been seen")


def test_the_head_names_every_variant_that_was_measured_and_a_build_without_git_by_its_number() -> None:
    engine = {"model": "smol", "engine": "llama.cpp", "engine_version": "b11434-unknown"}
    plain, ngram = ({**engine, "provenance": {"variant": name}} for name in ("smol:plain", "smol:ngram"))
    document = {"experiment": "speculation", "target": plain, "cells": []}
    told = render(document | {"findings": {"targets": {"off": plain, "ngram": ngram}}}).splitlines()[0]
    assert told == "speculation, smol, llama.cpp b11434, smol:plain, smol:ngram"
    assert render(document).splitlines()[0] == "speculation, smol, llama.cpp b11434, smol:plain"


def test_a_cells_share_of_the_kv_pool_is_shown_where_the_engine_tells_it() -> None:
    cell = {"depth": 512, "kv_use": 0.37, "valid": True, "flags": []}
    document = {"experiment": "ladder", "target": {}, "cells": [cell, {**cell, "depth": 1024, "kv_use": None}]}
    assert render(document) == snapshot("""\
ladder

DEPTH  KV POOL  VALID
512    37%      yes
1024   -        yes\
""")
