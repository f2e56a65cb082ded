"""Each shape as SVG: well-formed, text as text, the page's colours, ids of its own, the same every time."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from gearshift.report.charts.shapes import Bars, Chart, Heat, Lines, Point, Series, Stacks
from gearshift.report.drawing import draw

LINES = Lines(
    "Decode <b>", "tokens", "tok/s",
    (Series("a $x$", (Point(1024, 50, 45, 52), Point(131072, 40, None, None))), Series("b", (Point(1024, 5, 6, 7),))),
)  # fmt: skip
BARS = Bars("Acceptance", "share", ("1", "2"), (("off", (0.5, None)), ("on", (0.8, 0.4))))
STACKS = Stacks("Memory", "bytes", ("m:a", "m:b"), (("weights", (3 * 1024**3, 1024**3)), ("KV pool", (1024**3, 0))))
HEAT = Heat("Speculation", "streams", ("1", "2"), ("1", "8"), ((1.5, 0.9), (None, 0.5)), ((True, False), (False, True)))
ALL: list[Chart] = [LINES, BARS, STACKS, HEAT]


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: type(chart).__name__)
def test_a_drawing_is_text_in_the_pages_colours(chart: Chart) -> None:
    svg = draw(chart, number=1).svg
    root = ET.fromstring(svg)  # noqa: S314 - our own drawing
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert chart.title in texts
    assert root.get("viewBox")
    assert root.get("width") is None
    assert "var(--ink)" in svg
    assert not re.search(r"#0[0-9a]0[0-9]0[0-9]", svg)
    assert "<script" not in svg
    assert "<image" not in svg


@pytest.mark.parametrize("chart", ALL, ids=lambda chart: type(chart).__name__)
def test_drawings_of_one_page_share_no_ids_and_each_refers_to_its_own(chart: Chart) -> None:
    one, other = draw(chart, number=1).svg, draw(chart, number=2).svg
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, other)]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', one)) <= ids[0]


def test_the_same_chart_is_drawn_the_same() -> None:
    assert draw(LINES, number=1) == draw(LINES, number=1)


def test_a_legend_has_every_series_and_marks_that_differ_without_colour() -> None:
    legend = draw(LINES, number=1).legend
    assert [key.label for key in legend] == ["a $x$", "b"]
    assert len({key.mark for key in legend}) == 2


def test_bytes_are_shown_in_the_unit_that_suits_them() -> None:
    assert "m:a: 4 GiB" in draw(STACKS, number=1).svg


def test_without_matplotlib_it_says_what_to_install_and_what_does_without() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from gearshift.report.charts.shapes import Bars\n"
        "from gearshift.report.drawing import draw\n"
        "from gearshift.domain.errors import GearshiftError\n"
        "try: draw(Bars('t', 'y', ('1',), (('a', (0.5,)),)), number=1)\n"
        "except GearshiftError as error: print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert "gearshift[report]" in done.stdout
    assert "--format markdown" in done.stdout
