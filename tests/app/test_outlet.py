"""The log's way out: a reader that stops or goes costs lines, never the server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gearshift.app.outlet import Outlet

LINE = "x" * 1023 + "\n"


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        os.close(writer)


def rest_of(reader: int) -> str:
    """Everything up to the end of the pipe."""
    with os.fdopen(reader) as text:
        return text.read()


def test_lines_come_out_in_order_and_whole() -> None:
    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        for number in range(100):
            outlet.write(f"{number}\n")
        outlet.close()
    assert rest_of(reader) == "".join(f"{number}\n" for number in range(100))


def test_a_reader_that_has_stopped_holds_up_nobody_and_is_told_what_it_missed() -> None:
    with pipe() as (reader, writer):
        outlet = Outlet(writer, capacity=10)
        for _ in range(1000):  # ten times what a pipe and the outlet hold
            outlet.write(LINE)
        missed = outlet._refused
        assert missed > 0
        got = os.read(reader, 900 * len(LINE))
        while outlet._lines.qsize():
            got += os.read(reader, len(LINE))
        outlet.write("last\n")
        outlet.close()
    text = got.decode() + rest_of(reader)
    assert f"{missed} lines of this log were lost\n" in text
    assert text.endswith("last\n")
    assert text.count(LINE) == 1000 - missed


def test_a_reader_that_has_gone_raises_nothing() -> None:
    with pipe() as (reader, writer):
        os.close(reader)
        outlet = Outlet(writer)
        outlet.write(LINE)
        outlet.write(LINE)
        outlet.close()
        assert outlet._failed == 2


def test_what_no_encoding_can_write_is_written_escaped() -> None:
    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        outlet.write("\ud800\n")
        outlet.close()
    assert rest_of(reader) == "\\ud800\n"
