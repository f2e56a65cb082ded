"""The command as a whole: help, exit statuses, what it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import Result
from inline_snapshot import snapshot

from fakes.admin import FakeAdmin
from gearshift.cli.root import VERBS, root

Gearshift = Callable[..., Result]
PROGRAM = [sys.executable, "-m", "gearshift"]


def test_the_help_shows_every_verb(gearshift: Gearshift) -> None:
    assert gearshift("--help").stdout == snapshot("""\
Usage: gearshift [OPTIONS] COMMAND [ARGS]...

  One OpenAI-compatible endpoint that swaps between every way to run a model on
  your own GPUs.

Options:
  --url URL      A server elsewhere; needs GEARSHIFT_OPERATOR_KEY.
  -q, --quiet    Print data and errors only.
  -V, --version  Show the version and exit.
  -h, --help     Show this message and exit.

Commands:
  serve       Run the server in the foreground.
  ps          Show every variant with its state, memory and load.
  load        Make a variant resident, swapping like a request would.
  unload      Drain and stop a variant, or all of them.
  reload      Have the server read its configuration again.
  stop        End the server: drain, stop every engine, verify.
  logs        Print an engine's log.
  run         Chat with a model through the running server.
  plan        Say whether a variant fits, how long, and how fast it can be.
  ledger      Read engines' start-up logs: where memory went, what failed.
  bench       Measure a server honestly: depth, load, speculation, caching,
              swaps.
  results     List, show, compare and export stored measurements.
  report      Write measurements up as a page or a forum post.
  doctor      Find what is wrong or risky, and say what to do about it.
  lock        Pin variants: revisions, file hashes, engine versions and
              templates.
  pull        Fetch exactly the files a lock names, and compare each with it.
  verify      Compare files, templates and engines with a lock, byte by byte.
  config      Check, show, describe and import configurations.
  engine      Install, list and remove engines.
  demo        Swap between variants of a small model and print what happened.
  service     Run the server as a systemd user service.
  completion  Print a shell completion script.

  Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 124 timeout,
  130 interrupted.
""")


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_line_of_a_verb_is_the_first_line_of_its_own_help(verb: str) -> None:
    command = import_module(f"gearshift.cli.{verb}").command
    assert command.help.splitlines()[0] == VERBS[verb]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize(("path", "command"), commands(root), ids=str)
def test_every_option_has_a_help_text(path: tuple[str, ...], command: click.Command) -> None:
    missing = [option.name for option in command.params if isinstance(option, click.Option) and not option.help]
    assert missing == [], path


def test_an_unknown_verb_is_a_usage_error(gearshift: Gearshift) -> None:
    result = gearshift("pss")
    assert (result.exit_code, result.stderr) == snapshot(
        (
            2,
            """\
Usage: gearshift [OPTIONS] COMMAND [ARGS]...
Try 'gearshift --help' for help.

Error: No such command 'pss'. Did you mean 'ps'?
""",
        )
    )


def test_ps_imports_nothing_heavy(admin: FakeAdmin) -> None:
    heavy = {"aiohttp", "asyncio", "pydantic", "rich", "starlette", "structlog", "uvicorn", "yaml", "msgspec"}
    program = "import sys; from gearshift.__main__ import main\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, "-q", "ps"], capture_output=True, text=True, check=True, env=os.environ
    )
    assert "qwen:q8" in done.stdout
    assert heavy & set(done.stdout.split()) == set()
    assert admin.rows


def test_a_plan_from_flags_reads_no_configuration_and_looks_for_no_engine(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}')
    heavy = {
        "aiohttp",
        "pydantic",
        "starlette",
        "uvicorn",
        "yaml",
        "gearshift.config",
        "gearshift.toolchain",
    }
    program = (
        "import sys; from gearshift.__main__ import main\n"
        "try: main()\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    asked = ["plan", "--engine", "vllm", "--weights", str(tmp_path), "--context", "4096", "--gpu", "24:936", "--json"]
    done = subprocess.run([sys.executable, "-c", program, *asked], capture_output=True, text=True, check=True)
    assert '"block_size": 16' in done.stdout
    assert heavy & set(done.stderr.split()) == set()


def test_a_pipe_closed_by_its_reader_is_no_traceback(admin: FakeAdmin) -> None:
    with subprocess.Popen([*PROGRAM, "ps"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert admin.rows


def test_an_interrupt_ends_a_following_log_with_130(admin: FakeAdmin, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first line\n")
    admin.log_paths["qwen:q8"] = log
    with subprocess.Popen(
        [*PROGRAM, "logs", "-f", "qwen:q8"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "first line\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130
        assert process.stderr.read() == ""


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:port", "http://[::1", "//x:1"])
def test_what_is_no_url_of_a_server_is_refused(gearshift: Gearshift, url: str) -> None:
    result = gearshift("--url", url, "ps")
    assert (result.exit_code, f"{url!r} is not a URL" in result.stderr) == (1, True)


def test_a_url_that_is_none_is_refused_with_an_example(gearshift: Gearshift) -> None:
    result = gearshift("--url", "gpu-box", "ps")
    assert (result.exit_code, result.stderr) == snapshot(
        (
            1,
            """\
error: 'gpu-box' is not a URL of a server
hint: write for example http://gpu-box:8888
""",
        )
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(gearshift: Gearshift, shell: str) -> None:
    result = gearshift("completion", shell)
    assert (result.exit_code, "_GEARSHIFT_COMPLETE" in result.stdout) == (0, True)


def completed(words: str) -> list[str]:
    words_env = {
        "_GEARSHIFT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(PROGRAM, capture_output=True, text=True, env=os.environ | words_env, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_offers_the_running_servers_variants(admin: FakeAdmin) -> None:
    assert completed("gearshift load qwen") == ["plain,qwen:q8", "plain,qwen:int4"]
    assert admin.rows


def test_completion_without_a_server_offers_nothing(gearshift_home: Path) -> None:
    assert completed("gearshift load q") == []
    assert gearshift_home.exists()


@pytest.mark.parametrize(
    "verb",
    ["plan", *(f"bench {name}" for name in ("ladder", "concurrency", "speculation", "prefix", "ab", "saturate"))],
)
def test_a_verb_that_takes_tokens_says_what_k_is(gearshift: Gearshift, verb: str) -> None:
    assert "8k = 8000, 8K = 8192" in " ".join(gearshift(*verb.split(), "--help").stdout.split())
