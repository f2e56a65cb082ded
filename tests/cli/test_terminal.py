"""What a person at a terminal sees: live progress, a conversation, the offer of a first configuration."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.admin import FakeAdmin
from fakes.chat import FakeChat, chunk, ending
from fakes.serving import serving_in_thread
from fakes.terminal import on_terminal

PROGRAM = [sys.executable, "-m", "gearshift"]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def chat(admin: FakeAdmin) -> Iterator[FakeChat]:
    fake = FakeChat([chunk(reasoning_content="Hmm."), chunk(content="Hello."), *ending()])
    with serving_in_thread(fake) as listener:
        admin.listen = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield fake


def test_a_load_is_shown_live_and_leaves_one_line(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.hold_load = threading.Event()
    with on_terminal([*PROGRAM, "load", "qwen:int4"], os.environ, tmp_path) as terminal:
        terminal.wait_for("loading weights")
        admin.hold_load.set()
        assert terminal.end() == 0
    assert "\x1b[2K" in terminal.screen  # the live line is taken away
    assert re.search(r"qwen:int4 is ready \(.*\)\r\n$", ESCAPES.sub("", terminal.screen))


def test_ps_gives_up_columns_rather_than_wrap(admin: FakeAdmin, tmp_path: Path) -> None:
    with on_terminal([*PROGRAM, "ps"], os.environ | {"COLUMNS": "80"}, tmp_path) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert lines[0] == "VARIANT    STATE    MEM(plan/real)   CTX     IN-FLIGHT  QUEUED  UNLOAD-IN"
    assert max(map(len, lines)) <= 80
    assert len(lines) == len(admin.rows) + 4  # the heading, and three lines about the failed one


def test_an_interrupted_load_leaves_the_queue(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.hold_load = threading.Event()
    with on_terminal([*PROGRAM, "load", "qwen:int4"], os.environ, tmp_path) as terminal:
        terminal.wait_for("loading weights")
        terminal.process.send_signal(2)
        assert terminal.end() == 130
    assert admin.cancelled() == ["qwen:int4"]
    assert "Traceback" not in terminal.screen


def test_a_conversation_remembers_what_was_said(chat: FakeChat, tmp_path: Path) -> None:
    with on_terminal([*PROGRAM, "run", "qwen"], os.environ, tmp_path) as terminal:
        terminal.wait_for(">>> ")
        terminal.type("first\n")
        terminal.wait_for("3 tokens")
        terminal.wait_for(">>> ")
        terminal.type("second\n")
        terminal.wait_for("3 tokens")
        terminal.wait_for(">>> ")
        terminal.type("\n")
        assert terminal.end() == 0
    assert [message["content"] for message in chat.asked[-1]["messages"]] == ["first", "Hello.", "second"]


def test_no_colour_means_no_escapes(chat: FakeChat, tmp_path: Path) -> None:
    with on_terminal([*PROGRAM, "run", "qwen", "hi"], os.environ | {"NO_COLOR": "1"}, tmp_path) as terminal:
        assert terminal.end() == 0
    assert "Hmm.\r\nHello.\r\n" in terminal.screen
    assert "\x1b" not in terminal.screen
    assert chat.asked


def test_an_error_is_red_on_a_terminal_unless_no_colour_is_wanted(gearshift_home: Path, tmp_path: Path) -> None:
    assert gearshift_home.exists()
    with on_terminal([*PROGRAM, "ps"], os.environ | {"NO_COLOR": ""}, tmp_path) as terminal:
        assert terminal.end() == 1
    assert "\x1b[31m" in terminal.screen
    with on_terminal([*PROGRAM, "ps"], os.environ | {"NO_COLOR": "1"}, tmp_path) as terminal:
        assert terminal.end() == 1
    assert "\x1b" not in terminal.screen


def test_a_failed_turn_does_not_end_the_conversation(chat: FakeChat, tmp_path: Path) -> None:
    chat.lines = [chunk(content="Hel")]
    with on_terminal([*PROGRAM, "run", "qwen"], os.environ, tmp_path) as terminal:
        terminal.wait_for(">>> ")
        terminal.type("first\n")
        terminal.wait_for("broke off")
        chat.lines = [chunk(content="Hello."), *ending()]
        terminal.wait_for(">>> ")
        terminal.type("again\n")
        terminal.wait_for("3 tokens")
        terminal.wait_for(">>> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [message["content"] for message in chat.asked[-1]["messages"]] == ["again"]


def without_configuration(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": "/usr/bin:/bin"}


def test_serve_without_a_configuration_offers_one_and_takes_no_for_an_answer(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/Tiny-Q8_0.gguf").write_bytes(b"GGUF")
    with on_terminal([*PROGRAM, "serve"], without_configuration(tmp_path), tmp_path) as terminal:
        terminal.wait_for("[Y/n]")
        assert "Tiny-Q8_0.gguf" in terminal.screen
        terminal.type("n\n")
        assert terminal.end() == 1
    assert not (tmp_path / "gearshift.yaml").exists()


def test_the_offered_configuration_is_written_and_sound(tmp_path: Path) -> None:
    with on_terminal([*PROGRAM, "serve", "--check"], without_configuration(tmp_path), tmp_path) as terminal:
        terminal.wait_for("[Y/n]")
        terminal.type("\n")
        assert terminal.end() == 0
    assert "listen: 127.0.0.1:8888" in (tmp_path / "gearshift.yaml").read_text()
