"""An engine's output is drained whatever it is, and whatever the disk, the parser or nobody does with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from fakes.log_fold import FaultyLog, MarkedLog
from gearshift.domain.startup import LogFold
from gearshift.supervisor.launch_log import FILE_BYTES, KEPT_LAUNCHES, LaunchLog, LogFile, new_log_path
from gearshift.supervisor.lines import LINE_BYTES, LineSplitter


def lines_of(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.end()


def test_progress_bars_and_windows_line_ends_are_lines() -> None:
    assert lines_of(b"10 %\r50 %\r100 %\r\ndone\n") == ["10 %", "50 %", "100 %", "done"]


def test_a_line_in_halves_is_one_line() -> None:
    assert lines_of(b"loading te", b"nsors\nnext") == ["loading tensors", "next"]


def test_colours_and_binary_are_harmless() -> None:
    assert lines_of(b"\x1b[31mred\x1b[0m\n\xff\xfe\n") == ["red", "\ufffd\ufffd"]


def test_an_endless_line_comes_in_pieces() -> None:
    pieces = lines_of(b"x" * (3 * LINE_BYTES + 5))
    assert [len(piece) for piece in pieces] == [LINE_BYTES, LINE_BYTES, LINE_BYTES, 5]


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1)), st.data())
def test_lines_do_not_depend_on_where_the_chunks_end(lines: list[str], data: st.DataObject) -> None:
    raw = "".join(line + "\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)))))
    chunks = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert lines_of(*chunks) == [line for line in lines if line.strip()]


def drained(path: Path, data: bytes, fold: LogFold | None = None) -> tuple[LaunchLog, LogFile]:
    """A log that has read ``data`` to its end, written by a process that would block if nobody read."""
    reader, writer = os.pipe()
    file = LogFile(path)
    log = LaunchLog(reader, file, fold or MarkedLog(), lambda: None)
    with os.fdopen(writer, "wb") as source:
        source.write(data)
    assert log.finished.wait(10)
    return log, file


def test_every_byte_goes_to_the_file_and_every_line_to_the_fold(tmp_path: Path) -> None:
    data = b"load_a: 1\r\nload_b: \xff\nerror: first\nerror: second\nhalf"
    log, file = drained(tmp_path / "log", data)
    assert (tmp_path / "log").read_bytes() == data
    assert log.report.stage == "load_b"
    assert log.report.failure
    assert log.report.failure.cause == "first"
    assert log.tail[-1] == "half"
    assert file.lost_bytes == 0


def test_a_full_disk_loses_the_log_and_nothing_else() -> None:
    data = b"load_a: 1\n" * 100_000
    with capture_logs() as told:
        log, file = drained(Path("/dev/full"), data)
    assert file.lost_bytes == len(data)
    assert [line["lost_bytes"] for line in told] == [len(data)]
    assert log.report.stage == "load_a"


def test_a_folder_that_cannot_be_written_loses_the_log_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = new_log_path(tmp_path / "file", "fake:a", "1")
    log, _ = drained(path, b"load_a: 1\n")
    assert log.report.stage == "load_a"


def test_a_faulty_parser_does_not_stop_the_drain(tmp_path: Path) -> None:
    log, _ = drained(tmp_path / "log", b"one\ntwo\n" * 50_000, FaultyLog())
    assert log.tail[-1] == "two"
    assert (tmp_path / "log").stat().st_size == 400_000


def test_a_closed_log_ends_although_the_pipe_is_held(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    log = LaunchLog(reader, LogFile(tmp_path / "log"), MarkedLog(), lambda: None)
    log.close()
    assert log.finished.is_set()
    os.close(writer)


def test_a_log_beyond_its_size_starts_over_and_keeps_the_part_before(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log")
    for _ in range(FILE_BYTES // (1 << 20) + 2):
        file.write(bytes(1 << 20))
    file.close()
    assert (tmp_path / "a.old").stat().st_size > FILE_BYTES
    assert (tmp_path / "a.log").stat().st_size == 1 << 20


@pytest.mark.parametrize("variant", ["qwen:int8", "org/qwen:int8"])
def test_logs_of_the_newest_launches_stay(tmp_path: Path, variant: str) -> None:
    paths = [new_log_path(tmp_path, variant, str(number)) for number in range(3)]
    for number in range(20):
        path = new_log_path(tmp_path, variant, str(number))
        path.write_text("")
    kept = sorted(path.name for path in paths[0].parent.glob("*.log"))
    assert len(kept) == KEPT_LAUNCHES
    assert kept[-1].endswith("-19.log")
