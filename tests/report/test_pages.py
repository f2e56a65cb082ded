"""Whole reports: what recorded measurements become, and what no text in them can do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import external_file

from gearshift.bench.validity import INVALIDATING
from gearshift.domain.errors import GearshiftError
from gearshift.report import assemble, read_documents, to_html, to_markdown
from gearshift.report.caveats import MEANINGS, SPOILING, caveats

RECORDED = json.loads((Path(__file__).parent / "fixtures" / "recorded.json").read_text())


def test_recorded_measurements_become_this_post() -> None:
    assert to_markdown(assemble(read_documents([RECORDED]))) == external_file("fixtures/recorded.md", format=".txt")


def test_recorded_measurements_become_this_page() -> None:
    """Without its drawings, which change with matplotlib, and its style sheet, which is a file of its own."""
    page = to_html(assemble(read_documents([RECORDED])))
    page = re.sub(r'(<svg role="img" aria-label="[^"]*").*?</svg>', r"\1></svg>", page, flags=re.DOTALL)
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert page == external_file("fixtures/recorded.html", format=".txt")


class Tags(HTMLParser):
    """Counts elements and collects whatever could fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.fetched += [
            str(value)
            for name, value in attrs
            if name in {"src", "href", "xlink:href"} and not str(value).startswith("#")
        ]


def tags(page: str) -> Tags:
    found = Tags()
    found.feed(page)
    return found


def test_a_page_fetches_and_runs_nothing() -> None:
    page = to_html(assemble(read_documents([RECORDED])))
    found = tags(page)
    assert found.fetched == []
    assert not found.names & {"script", "link", "iframe", "img", "object"}
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page


def hostile(text: str) -> dict[str, Any]:
    return {
        "experiment": "ladder",
        "model": text,
        "target": {"engine": text, "engine_version": text, "provenance": {"variant": text, "argv": [text, text]}},
        "cells": [{"setting": text, "depth": 1, "flags": [text], "flag_details": {text: text}}],
        "advice": [text],
    }


@settings(deadline=None)
@given(st.text(max_size=40) | st.sampled_from(["<script>alert(1)</script>", '"><img src=x>', "```\n# x", "| a | b |"]))
def test_no_text_of_a_document_becomes_markup(text: str) -> None:
    report = assemble(read_documents([hostile(text)]))
    plain = assemble(read_documents([hostile("plain")]))
    assert tags(to_html(report)).names <= tags(to_html(plain)).names | {"small"}  # what is bracketed in a table
    headings = [line for line in to_markdown(report).splitlines() if line.startswith("## ")]
    assert headings == ["## What context costs", "## Caveats", "## How to repeat it"]
    assert "<script" not in re.sub(r"```.*?```|~~~~.*?~~~~", "", to_markdown(report), flags=re.DOTALL)


@given(st.text(alphabet="ab|\n\r*<`", max_size=12))
def test_a_table_of_a_post_keeps_its_columns(text: str) -> None:
    lines = to_markdown(assemble(read_documents([hostile(text)]))).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| ") and "depth" in line)
    widths = {len(re.split(r"(?<!\\)\|", line)) for line in lines[start : start + 3]}
    assert len(widths) == 1


@pytest.mark.parametrize("document", [{}, {"experiment": "ladder"}, {"cells": [1], "experiment": "x"}, 3, "text"])
def test_what_is_no_result_is_refused_with_a_hint(document: Any) -> None:
    with pytest.raises(GearshiftError, match="this is no result") as caught:
        read_documents([document])
    assert "--json" in str(caught.value.hint)


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (key,)
        yield from ((key, *deeper) for deeper in places(value[key]))


PLACES = list(places(RECORDED))


@settings(max_examples=60)
@given(
    st.sampled_from(PLACES),
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([]) | st.just([None]) | st.just({"a": 1}),
)
def test_a_document_with_any_one_value_spoiled_is_written_up_or_refused(place: tuple[Any, ...], value: Any) -> None:
    spoiled = json.loads(json.dumps(RECORDED))
    inner = spoiled
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with suppress(GearshiftError):
        assert to_markdown(assemble(read_documents([spoiled])))


def test_a_damaged_document_is_refused_with_the_place_of_the_damage() -> None:
    cell = {"depth": 512, "tpot_s": {"median": "fast"}}
    with pytest.raises(GearshiftError, match=r"a damaged one .*\$\[0\]\.tpot_s\.median"):
        read_documents([{"experiment": "ladder", "cells": [cell]}])


def test_a_report_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one result"):
        assemble(())


def test_every_flag_that_a_cell_can_have_is_explained() -> None:
    """By the names that Measuring lists, so that the page and the report cannot part."""
    page = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text()
    table = page[page.index("## What a cell says") : page.index("## Repeats")]
    named = {name for name in re.findall(r"`([a-z_]+)`", table) if "_" in name and not name.endswith("_s")}
    assert named <= MEANINGS.keys()


def test_experiments_of_one_name_are_told_apart_by_what_was_asked_or_when() -> None:
    """Their tables and lines would be headed alike."""
    plan = {"output": 64, "dialect": "chat", "kind": "prose", "exact": True}
    cells: list[dict[str, Any]] = [
        {"concurrency": level, "output_tok_s": {"median": 9.0 * level}, "flags": []} for level in (1, 2)
    ]
    documents = [
        {
            "experiment": "concurrency", "target": {}, "model": "m", "cells": cells, "plan": {"cells": [asked]},
            "started": 1_790_000_000.0 + number,
        }
        for number, asked in enumerate([plan, {**plan, "dialect": "completions"}, {**plan, "output": 32}, plan])
    ]  # fmt: skip
    post = to_markdown(assemble(read_documents(documents)))
    assert "\nm, answers of 64 tokens, the completions endpoint:\n" in post
    assert "\nm, answers of 32 tokens, the chat endpoint:\n" in post
    assert post.count("\nm, answers of 64 tokens, the chat endpoint, 2026-09-21 14:13:2") == 2
    alone = to_markdown(assemble(read_documents(documents[:1])))
    assert "answers of 64 tokens" not in alone


def test_a_flag_that_spoils_nothing_is_not_said_to() -> None:
    """A cell that is invalid has other flags too, which are not why."""
    cell = {"depth": 512, "valid": False, "flags": ["cache_unknown", "client_overloaded"]}
    found = caveats(read_documents([{"experiment": "ladder", "target": {}, "cells": [cell]}]))
    assert [name for words in found if "Not valid." in words for name in [words.partition(":")[0]]] == [
        "client_overloaded"
    ]
    assert SPOILING == INVALIDATING


def test_a_rate_shows_the_share_of_its_requests_that_were_good() -> None:
    rows = [
        {"rate": 0.5, "share": 1.0, "low": 0.84, "high": 1.0},
        {"rate": 0.75, "share": 0.9, "low": 0.7, "high": 0.97},
    ]
    cells = [{"setting": f"{row['rate']}/s", "valid": True, "flags": []} for row in rows]
    document = {"experiment": "saturate", "target": {}, "cells": cells, "findings": {"goodput": rows}}
    lines = to_markdown(assemble(read_documents([document]))).splitlines()
    assert "| 0.5/s | 100 % (84 % to 100 %) | yes |" in lines
    assert "| 0.75/s | 90 % (70 % to 97 %) | yes |" in lines


def test_a_nested_condition_of_another_tool_is_told_without_what_says_nothing() -> None:
    conditions = {"data": [{"prompt_tokens": 32, "stdev": None, "branches": []}], "seed": 42, "of": None}
    document = {
        "tool": "guidellm",
        "conditions": conditions,
        "rows": [{"depth": 1}],
        "definitions": {},
        "invariants": [],
    }
    post = to_markdown(assemble(read_documents([document])))
    assert '| guidellm: data | [{"prompt_tokens": 32}] |' in post
    assert "| guidellm: of" not in post


def test_results_of_two_tools_are_told_to_be_two() -> None:
    rows = [{"concurrency": level, "output_tok_s": 10.0 * level} for level in (1, 4)]
    documents = [
        {"tool": tool, "model": "m", "definitions": {"tpot": tool}, "rows": rows, "invariants": []}
        for tool in ("guidellm", "vllm bench serve")
    ]
    text = to_markdown(assemble(read_documents(documents)))
    assert "guidellm, vllm bench serve define their figures differently" in text
    assert to_html(assemble(read_documents(documents))).count("<svg") == 2


def test_an_imports_failing_invariant_is_a_caveat_and_invalidates_its_rows() -> None:
    check = {"name": "little", "ok": False, "detail": "9 in flight on average, limit 2"}
    document = {"tool": "t", "definitions": {}, "rows": [{"depth": 1}], "invariants": [check]}
    text = to_markdown(assemble(read_documents([document])))
    assert "the invariant little fails: 9 in flight on average, limit 2" in text
    assert "| NO |" in text


def test_a_rung_shows_what_it_took_of_the_kv_pool_and_of_each_card() -> None:
    """What one owner of two cards wrote down by hand at every depth (field report 3)."""
    cell = {
        "depth": 8192,
        "kv_use": 0.05,
        "gpus": [{"used_bytes": 23 * 2**30}, {"used_bytes": 21 * 2**30}],
        "flags": [],
    }
    document = {"experiment": "ladder", "target": {}, "cells": [cell, {"depth": 512, "flags": []}]}
    lines = to_markdown(assemble(read_documents([document]))).splitlines()
    assert "| depth | KV pool used | VRAM used | valid |" in lines
    assert "| 8,192 | 5 % | 23 GiB + 21 GiB | yes |" in lines
    assert "| 512 | - | - | yes |" in lines


def test_a_conclusion_names_its_variant_where_there_are_several() -> None:
    def ladder(variant: str) -> dict[str, Any]:
        target = {"provenance": {"variant": variant}}
        return {"experiment": "ladder", "target": target, "cells": [], "advice": [f"decode falls {len(variant)} %"]}

    several = to_markdown(assemble(read_documents([ladder("m:a"), ladder("m:long")])))
    assert "- m:a: decode falls 3 %.\n- m:long: decode falls 6 %.\n" in several
    assert "- Decode falls 3 %.\n" in to_markdown(assemble(read_documents([ladder("m:a")])))


def test_a_comparison_with_the_engines_own_figures_names_the_variant_where_there_are_several() -> None:
    def ladder(variant: str) -> dict[str, Any]:
        cell = {"concurrency": 1, "depth": 128, "flags": [], "engine": {"ttft_later_s": 0.005, "tpot_ratio": 0.999}}
        return {"experiment": "ladder", "target": {"provenance": {"variant": variant}}, "cells": [cell]}

    several = to_markdown(assemble(read_documents([ladder("m:a"), ladder("m:b")])))
    assert "\n| ladder of m:a, 1 stream, 128 tokens | - | - | +5 ms | - | - | 0.9990 |\n" in several
    assert "\n| ladder of m:b, 1 stream, 128 tokens | - | - | +5 ms | - | - | 0.9990 |\n" in several
    alone = to_markdown(assemble(read_documents([ladder("m:a")])))
    assert "\n| 1 stream, 128 tokens | - | - | +5 ms | - | - | 0.9990 |\n" in alone
