"""`gearshift logs`: an engine's own words, untouched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from fakes.admin import FakeAdmin

Gearshift = Callable[..., Result]


def test_logs_are_passed_through_byte_for_byte(admin: FakeAdmin, gearshift: Gearshift, tmp_path: Path) -> None:
    log = tmp_path / "launch.log"
    log.write_bytes(b"one\n\xff\x1b[31mred\ntail without newline")
    admin.log_paths["qwen:q8"] = log
    assert gearshift("logs", "qwen:q8", "-n", "2").stdout_bytes == b"\xff\x1b[31mred\ntail without newline"


def test_a_log_as_json_is_its_variant_and_lines(admin: FakeAdmin, gearshift: Gearshift, tmp_path: Path) -> None:
    log = tmp_path / "launch.log"
    log.write_bytes(b"one\n\xff two\n\nfour\n")
    admin.log_paths["qwen:q8"] = log
    printed = json.loads(gearshift("logs", "qwen:q8", "--json").stdout)
    assert printed == {"variant": "qwen:q8", "lines": ["one", "\N{REPLACEMENT CHARACTER} two", "", "four"]}
    assert json.loads(gearshift("logs", "qwen:int4", "--json").stdout)["lines"] == []


def test_a_followed_log_is_no_json_document(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert "qwen:q8" in admin.rows
    refused = gearshift("logs", "qwen:q8", "--json", "--follow")
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_a_variant_without_a_log_is_said_on_stderr(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert "qwen:int4" in admin.rows
    done = gearshift("logs", "qwen:int4")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "qwen:int4 has no log yet\n")
