"""Metadata that llama.cpp printed in public logs, as headers: layers, cache bytes, draft heads."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gearshift.artifacts.facts import LayerKind, ModelFacts
from gearshift.artifacts.gguf import GgufHeader, GgufValue
from gearshift.artifacts.gguf_facts import gguf_facts

SAMPLES = Path(os.environ.get("GEARSHIFT_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples") / "gguf-dumps"
_PAIR = re.compile(r"- kv\s+\d+:\s+(\S+) (\S+)\s+= (.*)")
_ARRAY = re.compile(r"arr\[(\w+),(\d+)\]")

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public dumps are not beside this checkout")


def header_of(dump: str, cut_arrays: dict[str, tuple[int | bool, ...]]) -> GgufHeader:
    """A header from ``- kv N: KEY TYPE = VALUE`` lines; ``cut_arrays`` completes what the log cut short."""
    metadata: dict[str, GgufValue] = {}
    lengths: dict[str, int] = {}
    for key, kind, text in _PAIR.findall(dump):
        array = _ARRAY.match(kind)
        if array:
            lengths[key] = int(array[2])
        elif kind == "str":
            metadata[key] = text.strip()
        elif kind == "bool":
            metadata[key] = text.strip() == "true"
        else:
            metadata[key] = float(text) if "." in text else int(text)
    return GgufHeader(3, {**metadata, **cut_arrays}, lengths, (), 0)


def cache_bytes(facts: ModelFacts, kind: LayerKind) -> int:
    """Bytes of one token in all layers of a kind, in float16."""
    return 2 * sum(layer.kv_elements for layer in facts.layers if layer.kind == kind)


def read(number: str, family: str | None = None, **arrays: tuple[int | bool, ...]) -> ModelFacts:
    (path,) = SAMPLES.glob(f"{number}-*.txt")
    named = {f"gemma4.attention.{key}": value for key, value in arrays.items()}
    header = header_of(path.read_text(), named)
    metadata = {**header.metadata, "general.architecture": family or header.metadata.get("general.architecture", "")}
    return gguf_facts([GgufHeader(3, metadata, header.lengths, (), 0)], name=path.name)


@pytest.mark.parametrize(("number", "drafts"), [("01", 1), ("02", 0)])
def test_the_27b_with_and_without_its_draft_head(number: str, drafts: int) -> None:
    facts = read(number)
    assert (len(facts.layers), len(facts.mtp_layers), facts.vocab) == (64, drafts, 248_320)
    assert (cache_bytes(facts, "full"), facts.count("recurrent")) == (65_536, 48)
    assert facts.recurrent is not None
    assert 4 * 48 * (facts.recurrent.conv_elements() + facts.recurrent.state_elements) == 156_893_184
    assert [2 * layer.kv_elements for layer in facts.mtp_layers] == [4096] * drafts


def test_per_layer_heads_and_a_pattern_of_flags() -> None:
    facts = read("03", head_count_kv=(8, 8, 8, 8, 8, 1) * 8, sliding_window_pattern=(*(True,) * 5, False) * 8)
    assert facts.count("sliding") == 40
    assert (cache_bytes(facts, "full"), cache_bytes(facts, "sliding")) == (16_384, 327_680)


def test_a_window_without_a_pattern_takes_the_sources_period() -> None:
    facts = read("04")
    assert (cache_bytes(facts, "full"), cache_bytes(facts, "sliding")) == (81_920, 425_984)


_TABLE = re.compile(r"^\s+\d+: (\[?\w+\]?)\s+\|\s+(\d+) \| (\S+) = (.*)$", re.MULTILINE)


def test_a_mixture_with_cut_arrays_as_the_dump_tool_tables_it() -> None:
    (path,) = SAMPLES.glob("07-*.txt")
    rows = {key: (kind, int(count), text) for kind, count, key, text in _TABLE.findall(path.read_text())}
    metadata: dict[str, GgufValue] = {
        key: text.strip("'") if kind == "STRING" else float(text) if kind == "FLOAT32" else int(text)
        for key, (kind, _, text) in rows.items()
        if kind in {"STRING", "FLOAT32", "UINT32", "UINT64"}
    }
    heads, flags = (8, 8, 8, 8, 8, 2) * 5, (*(True,) * 5, False) * 5
    metadata |= {"gemma4.attention.head_count_kv": heads, "gemma4.attention.sliding_window_pattern": flags}
    lengths = {key: count for key, (kind, count, _) in rows.items() if kind.startswith("[")}
    facts = gguf_facts([GgufHeader(3, metadata, lengths, (), 0)], name=path.name)
    assert (facts.count("full"), facts.count("sliding"), facts.vocab) == (5, 25, 262_144)
    assert (cache_bytes(facts, "full"), cache_bytes(facts, "sliding")) == (5 * 4096, 25 * 8192)
    assert facts.experts is not None
    assert (facts.experts.count, facts.experts.used, facts.experts.ffn) == (128, 8, 704)


def test_the_dump_tool_s_json_has_the_same_scalars() -> None:
    (table,), (document,) = SAMPLES.glob("07-*.txt"), SAMPLES.glob("08-*.json")
    scalars = {
        key: row["value"]
        for key, row in json.loads(document.read_text())["metadata"].items()
        if row["type"] in {"UINT32", "UINT64"}
    }
    tabled = {
        key: int(text) for kind, _, key, text in _TABLE.findall(table.read_text()) if kind in {"UINT32", "UINT64"}
    }
    assert tabled == scalars
    assert len(scalars) > 20


def test_excerpts_give_their_cache_too() -> None:
    mixture = read("05", "gpt-oss")
    assert (cache_bytes(mixture, "full"), cache_bytes(mixture, "sliding")) == (36_864, 36_864)
    assert cache_bytes(read("06", "llama"), "full") == 32_768
