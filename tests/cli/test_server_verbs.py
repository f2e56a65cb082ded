"""Verbs that talk to a running server, each by its whole output."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from click.testing import Result
from inline_snapshot import snapshot

from fakes.admin import FakeAdmin
from gearshift.domain.admin import ReloadReport
from gearshift.domain.errors import Failure, LoadFailedError, Problem, QueueFullError, StopIncompleteError
from gearshift.domain.paths import resolve_paths
from gearshift.supervisor import StateLock

Gearshift = Callable[..., Result]


def seen(result: Result) -> tuple[int, str, str]:
    """Exit status, stdout, stderr, with durations in parentheses replaced."""
    return int(result.exit_code), result.stdout, re.sub(r"\([\d.]+ m?s\)", "(TIME)", result.stderr)


def test_ps_shows_every_variant_and_why_one_failed(admin: FakeAdmin, gearshift: Gearshift) -> None:
    admin.set_state("qwen:int4", "loading", "loading weights 40 %")
    assert seen(gearshift("ps")) == snapshot(
        (
            0,
            """\
VARIANT    ENGINE            STATE                 MEM(plan/real)   CTX     IN-FLIGHT  QUEUED  PID   PORT   UNLOAD-IN
qwen:q8    llama.cpp b11434  ready                 30 GiB / 31 GiB  131072  2          1       4100  41001  9m00s
qwen:int4  vllm              loading weights 40 %  -                -       0          0       -     -      -
smol:q4    llama.cpp         failed                -                -       0          0       -     -      -
  cause: the weights file is not a GGUF file
  log:   E gguf_init: invalid magic
  fix:   download it again
""",
            "",
        )
    )


def test_the_table_in_the_docs_is_what_ps_prints(admin: FakeAdmin, gearshift: Gearshift) -> None:
    admin.set_state("qwen:int4", "loading", "loading weights 40 %")
    page = Path(__file__).parents[2] / "docs/cli.md"
    assert f"$ gearshift ps\n{gearshift('ps').stdout}```" in page.read_text()


def test_ps_as_json_is_the_rows_of_the_contract(admin: FakeAdmin, gearshift: Gearshift) -> None:
    result = gearshift("ps", "--json")
    rows = json.loads(result.stdout)
    assert [row["variant"] for row in rows] == list(admin.rows)
    assert list(rows[0]) == snapshot(
        [
            "variant",
            "engine",
            "engine_version",
            "state",
            "pids",
            "port",
            "gpus",
            "planned_bytes",
            "measured_bytes",
            "context",
            "in_flight",
            "queued",
            "stage",
            "since_s",
            "unload_in_s",
            "failure",
        ]
    )
    assert rows[0]["planned_bytes"] == 30 * 1024**3


def test_without_a_server_each_verb_says_how_to_start_one(gearshift: Gearshift, gearshift_home: Path) -> None:
    code, out, err = seen(gearshift("ps"))
    assert (code, out, err.replace(str(gearshift_home), "HOME")) == snapshot(
        (
            1,
            "",
            """\
error: no server is running (nothing answers at HOME/admin.sock)
hint: start one: gearshift serve
""",
        )
    )


def test_a_server_without_its_socket_is_told_from_none(gearshift: Gearshift, gearshift_home: Path) -> None:
    paths = resolve_paths({"GEARSHIFT_HOME": str(gearshift_home)})

    def said() -> str:
        return seen(gearshift("ps"))[2].replace(str(gearshift_home), "HOME").replace(str(os.getpid()), "PID")

    with StateLock(paths):
        assert said() == snapshot("""\
error: a server runs (pid PID), but its admin socket HOME/admin.sock is gone
hint: unless it is just starting or ending, make it again: kill -HUP PID (this also reloads)
""")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(paths.admin_socket))  # and nobody listens
            assert said() == snapshot("""\
error: a server runs (pid PID), but does not answer at HOME/admin.sock
hint: unless it is just starting or ending, restart it: kill -TERM PID, then gearshift serve
""")
        paths.admin_socket.unlink()
        paths.lock.unlink()
        assert said() == snapshot("""\
error: a server runs (pid PID), but its state folder was removed under it: HOME/admin.sock is gone
hint: it still serves requests; restart it: kill -TERM PID, then gearshift serve
""")


def test_load_shows_the_stages_and_ends_when_it_is_ready(admin: FakeAdmin, gearshift: Gearshift) -> None:
    admin.hold_load = threading.Event()
    threading.Timer(0.5, admin.hold_load.set).start()
    assert seen(gearshift("load", "qwen:int4")) == snapshot(
        (
            0,
            "",
            """\
loading weights
qwen:int4 is ready (TIME)
""",
        )
    )


def test_load_as_json_prints_the_row_on_stdout(admin: FakeAdmin, gearshift: Gearshift) -> None:
    result = gearshift("load", "qwen:int4", "--json")
    assert json.loads(result.stdout)["state"] == "ready"
    assert admin.rows["qwen:int4"].state == "ready"


def test_a_failed_load_gives_the_cause_the_line_and_the_fix(admin: FakeAdmin, gearshift: Gearshift) -> None:
    failure = Failure("out of GPU memory", "CUDA error: out of memory", "lower context to 65536")
    admin.load_error = LoadFailedError("qwen:int4 did not start: out of GPU memory", failure=failure)
    assert seen(gearshift("load", "qwen:int4")) == snapshot(
        (
            1,
            "",
            """\
error: qwen:int4 did not start: out of GPU memory (lower context to 65536)
  log: CUDA error: out of memory
hint: the whole log: gearshift logs qwen:int4
""",
        )
    )


def test_a_full_queue_is_passed_on_as_the_server_says_it(admin: FakeAdmin, gearshift: Gearshift) -> None:
    admin.load_error = QueueFullError("the queue of qwen:int4 is full (100)", retry_after_s=3)
    assert seen(gearshift("load", "qwen:int4")) == snapshot((1, "", "error: the queue of qwen:int4 is full (100)\n"))


def test_a_load_that_takes_too_long_ends_with_124(admin: FakeAdmin, gearshift: Gearshift) -> None:
    admin.hold_load = threading.Event()
    result = gearshift("load", "qwen:int4", "--timeout", "10ms")
    assert admin.cancelled() == ["qwen:int4"]
    assert seen(result) == snapshot(
        (
            124,
            "",
            """\
error: not done after 0.01 s
hint: a load goes on only while others wait for it; see gearshift ps
""",
        )
    )


def test_an_unknown_variant_is_named_with_those_that_exist(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert seen(gearshift("load", "qwen:int5")) == snapshot(
        (1, "", "error: there is no variant 'qwen:int5' (known are: qwen:q8, qwen:int4, smol:q4)\n")
    )
    assert "qwen:int5" not in admin.rows


def test_a_model_of_one_variant_stands_for_it_and_one_of_several_is_asked_about(
    admin: FakeAdmin, gearshift: Gearshift
) -> None:
    assert seen(gearshift("load", "smol")) == snapshot((0, "", "smol:q4 is ready (TIME)\n"))
    assert seen(gearshift("unload", "smol")) == snapshot((0, "", "smol:q4 is stopped (TIME)\n"))
    assert admin.rows["smol:q4"].state == "stopped"
    assert seen(gearshift("load", "qwen")) == snapshot(
        (1, "", "error: 'qwen' is a model of several variants (name one: qwen:q8, qwen:int4)\n")
    )


def test_a_wrong_duration_is_a_usage_error(gearshift: Gearshift) -> None:
    assert seen(gearshift("load", "qwen:int4", "--timeout", "soon")) == snapshot(
        (
            2,
            "",
            """\
Usage: gearshift load [OPTIONS] VARIANT
Try 'gearshift load --help' for help.

Error: Invalid value for '--timeout': 'soon' is not a duration; write for example 90s, 10m or 1h30m
""",
        )
    )


def test_quiet_prints_data_and_errors_only(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert seen(gearshift("-q", "load", "qwen:int4")) == (0, "", "")
    assert admin.rows["qwen:int4"].state == "ready"


def test_reload_says_what_it_did_with_each_variant(admin: FakeAdmin, gearshift: Gearshift) -> None:
    problem = Problem("changed to 8889, which takes a restart of the server", "listen", severity="warning")
    admin.reload_report = ReloadReport(
        applied=True, added=("a:b",), changed=("qwen:q8",), untouched=("smol:q4",), problems=(problem,)
    )
    assert seen(gearshift("reload")) == snapshot(
        (
            0,
            """\
added: a:b
changed, restarted once idle: qwen:q8
untouched: smol:q4
""",
            "warning: listen: changed to 8889, which takes a restart of the server\n",
        )
    )
    assert json.loads(gearshift("reload", "--json").stdout)["changed"] == ["qwen:q8"]


def test_reload_of_a_broken_file_tells_every_problem_and_ends_with_2(admin: FakeAdmin, gearshift: Gearshift) -> None:
    problems = (
        Problem("'10x' is not a duration", "defaults.load_timeout", 5, file=Path("/g.yaml")),
        Problem("unknown key 'modls'", "modls", 9, "did you mean models?", file=Path("/g.yaml")),
    )
    admin.reload_report = ReloadReport(applied=False, problems=problems)
    assert seen(gearshift("reload")) == snapshot(
        (
            2,
            "",
            """\
error: nothing was changed
error: /g.yaml:5: defaults.load_timeout: '10x' is not a duration
error: /g.yaml:9: modls: unknown key 'modls' (did you mean models?)
""",
        )
    )


def test_unload_says_that_it_is_stopped(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert seen(gearshift("unload", "qwen:q8")) == snapshot((0, "", "qwen:q8 is stopped (TIME)\n"))
    assert admin.rows["qwen:q8"].state == "stopped"


def test_an_unload_that_leaves_something_names_it(admin: FakeAdmin, gearshift: Gearshift) -> None:
    async def incomplete(variant: str) -> None:
        raise StopIncompleteError(f"{variant}: pid 4101 (VLLM::Worker) still holds 300 MiB")

    admin.unload = incomplete  # type: ignore[method-assign]  # one scripted answer
    assert seen(gearshift("unload", "qwen:q8")) == snapshot(
        (1, "", "error: qwen:q8: pid 4101 (VLLM::Worker) still holds 300 MiB\n")
    )


def test_unload_all_stops_every_variant_that_is_not_stopped(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert seen(gearshift("unload", "--all")) == snapshot(
        (
            0,
            "",
            """\
qwen:q8 is stopped (TIME)
smol:q4 is stopped (TIME)
""",
        )
    )
    assert {row.state for row in admin.rows.values()} == {"stopped"}
    assert seen(gearshift("unload", "--all")) == snapshot((0, "", "every variant was stopped already\n"))


def test_unload_all_as_json_is_a_list_of_rows(admin: FakeAdmin, gearshift: Gearshift) -> None:
    rows = json.loads(gearshift("unload", "--all", "--json").stdout)
    assert [(row["variant"], row["state"]) for row in rows] == [("qwen:q8", "stopped"), ("smol:q4", "stopped")]
    assert json.loads(gearshift("unload", "--all", "--json").stdout) == []
    assert admin.rows["qwen:q8"].state == "stopped"


def test_unload_all_goes_on_after_one_that_leaves_something_and_fails_in_the_end(
    admin: FakeAdmin, gearshift: Gearshift
) -> None:
    whole = admin.unload

    async def incomplete(variant: str) -> None:
        if variant == "qwen:q8":
            raise StopIncompleteError(f"{variant}: pid 4101 (VLLM::Worker) still holds 300 MiB")
        await whole(variant)

    admin.unload = incomplete  # type: ignore[method-assign]  # one scripted answer
    assert seen(gearshift("unload", "--all")) == snapshot(
        (
            1,
            "",
            """\
error: qwen:q8: pid 4101 (VLLM::Worker) still holds 300 MiB
smol:q4 is stopped (TIME)
error: not stopped: qwen:q8
hint: what is left is named above; see gearshift ps
""",
        )
    )
    assert admin.rows["smol:q4"].state == "stopped"


def test_unload_takes_a_variant_or_all(gearshift: Gearshift) -> None:
    assert seen(gearshift("unload")) == snapshot(
        (
            2,
            "",
            """\
Usage: gearshift unload [OPTIONS] [VARIANT]
Try 'gearshift unload --help' for help.

Error: name a variant, or give --all
""",
        )
    )
    assert seen(gearshift("unload", "qwen:q8", "--all")) == snapshot(
        (
            2,
            "",
            """\
Usage: gearshift unload [OPTIONS] [VARIANT]
Try 'gearshift unload --help' for help.

Error: name a variant or give --all, not both
""",
        )
    )


def test_stop_waits_until_the_server_is_gone(admin: FakeAdmin, gearshift: Gearshift, gearshift_home: Path) -> None:
    def shutdown() -> None:
        (gearshift_home / "admin.sock").unlink()

    admin.shutdown = shutdown  # type: ignore[method-assign]  # a server that ends at once
    assert seen(gearshift("stop")) == snapshot((0, "", "the server is stopped (TIME)\n"))


def test_stop_does_not_wait_for_a_server_that_took_the_place(admin: FakeAdmin, gearshift: Gearshift) -> None:
    before = admin.status()

    def shutdown() -> None:
        admin.status = lambda: replace(before, pid=before.pid + 1)  # type: ignore[method-assign]  # its successor

    admin.shutdown = shutdown  # type: ignore[method-assign]  # likewise
    assert gearshift("stop").exit_code == 0


def test_stop_gives_up_waiting_after_its_timeout(admin: FakeAdmin, gearshift: Gearshift) -> None:
    assert seen(gearshift("stop", "--timeout", "10ms")) == snapshot(
        (
            124,
            "",
            """\
stopping qwen:q8
error: the server (pid 4194305) still runs after 0.01 s
hint: it goes on stopping; see gearshift ps
""",
        )
    )
    assert admin.stopped
