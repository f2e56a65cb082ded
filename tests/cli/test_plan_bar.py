"""The stacked bar: as wide as asked for, in proportion, readable without colour and without block characters."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.cli.memory_bar import ASCII, BLOCKS, Glyphs, cells, glyphs_for, keys, memory_bar

SIZES = st.lists(st.integers(0, 2**40), max_size=12)
WIDTHS = st.integers(1, 120)


@settings(deadline=None)
@given(SIZES, st.integers(0, 2**42), WIDTHS)
def test_cells_are_those_of_the_sum_however_it_is_cut(sizes: list[int], spare: int, width: int) -> None:
    scale = sum(sizes) + spare
    together = cells([sum(sizes)], scale, width)
    assert sum(cells(sizes, scale, width)) == sum(together) <= width
    assert all(count >= 0 for count in cells(sizes, scale, width))


@settings(deadline=None)
@given(SIZES, st.none() | st.integers(0, 2**42), WIDTHS, st.sampled_from([BLOCKS, ASCII]))
def test_a_bar_is_as_wide_as_asked_for(sizes: list[int], total: int | None, width: int, glyphs: Glyphs) -> None:
    assert len(memory_bar(sizes, total, width, glyphs)) == width


@pytest.mark.parametrize(
    ("sizes", "total", "bar"),
    [
        ([4, 2, 2], 16, "████▓▓▒▒········"),
        ([4, 0, 4], 16, "████▒▒▒▒········"),
        ([8, 8], 16, "████████▓▓▓▓▓▓▓▓"),
        ([8, 8], None, "████████▓▓▓▓▓▓▓▓"),
        ([16, 16], 16, "████████|▓▓▓▓▓▓▓"),  # twice the device: it ends in the middle
        ([], 16, "················"),
        ([], None, "················"),
    ],
)
def test_a_bar_shows_each_use_and_where_the_device_ends(sizes: list[int], total: int | None, bar: str) -> None:
    assert memory_bar(sizes, total, 16, BLOCKS).plain == bar


def test_neighbours_differ_in_glyph_and_in_colour() -> None:
    legend = keys(12, BLOCKS)
    for before, after in pairwise(legend):
        assert before.plain != after.plain
        assert before.style != after.style


@pytest.mark.parametrize(
    ("encoding", "glyphs"),
    [("utf-8", BLOCKS), ("ascii", ASCII), ("latin-1", ASCII), (None, BLOCKS), ("no such", ASCII)],
)
def test_blocks_are_drawn_where_the_encoding_has_them(encoding: str | None, glyphs: Glyphs) -> None:
    assert glyphs_for(encoding) == glyphs
