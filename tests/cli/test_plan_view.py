"""`plan` as a person sees it: in every width, in colour and without."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from advice.plan_models import DENSE, HYBRID, write_config, write_hybrid, write_hybrid_gguf
from cli.planning import FLAGS, Gearshift
from fakes.terminal import on_terminal
from gearshift.cli.plan_view import WIDEST


@pytest.fixture
def shown(gearshift: Gearshift, tmp_path: Path) -> Callable[[int], str]:
    """What `plan` prints of one variant on a terminal of that many columns."""
    flags = ("--weights", str(write_hybrid(tmp_path)), "--gpu", "RTX 3090", "--context", "65536", "--kv-bytes", "auto")

    def show(width: int) -> str:
        printed = gearshift(*FLAGS, *flags, "--speculation", "mtp:3", env={"COLUMNS": str(width)})
        assert printed.exit_code == 0
        return printed.stdout

    return show


def test_a_plan_is_told_as_an_answer_a_ledger_and_what_else_could_be(shown: Callable[[int], str]) -> None:
    assert shown(80) == snapshot("""\
fits: hybrid on vllm 0.27.1, 65,536 tokens

gpu0: 22.4 GiB of 24 GiB
█████████████████████████████████████████████████████████████▓▒░░▓▓▓▓▓▓▓▓▓▓·····
  █  weights          18.2 GiB  exact
  ▓  cuda context      410 MiB  modelled +- 205 MiB
  ▒  libraries         256 MiB  modelled +- 205 MiB
  ░  peak activation   614 MiB  modelled +- 307 MiB
  █  cuda graphs       205 MiB  modelled +- 205 MiB
  ▓  kv pool           2.8 GiB  exact
  ·  free             1.56 GiB  +- 922 MiB in all

cache
  blocks           1,600 tokens, 55,705,600 bytes each (exact)
  one request      53 blocks; least pool 2,952,396,800 bytes, safe 3,008,102,400
  pool             3,008,102,400 bytes a device, 54 blocks
  longest request  67,200
  its log says     66,772 tokens, 1.02x (times the whole context, not a length
                   to ask for)

what would fit
                               1 device                2 of these
  fits                              yes                       yes
  longest context                84,800  262,144 (trained length)
  at once, 65,536 tokens each         1                         1
  at once, 8,192 tokens each          1                         1

what frees most on a device, with kv_bytes cut to what one request needs
  1.39 GiB  mtp off
  1.04 GiB  context 65,536 -> 32,768

ceiling at depth 0, batch 1: 34.6 tok/s with no draft accepted, 138.2 with all
(--acceptance says which)
  a step takes 28.94 ms, bound by weights: weights 60%, state 3%, draft 38%
  RTX 3090: 936 GB/s (servcalc 0.1.0 (MIT): vendor data sheets, dense)
  measured: nothing yet (--measured TOK/S shows its share)
""")


@pytest.mark.parametrize("width", [60, 100, 120])
def test_the_same_words_are_wrapped_to_the_terminal(shown: Callable[[int], str], width: int) -> None:
    bar = re.compile(r"^[█▓▒░·]+$", re.MULTILINE)
    assert sorted(bar.sub("", shown(width)).split()) == sorted(bar.sub("", shown(80)).split())
    used = min(width, WIDEST)
    assert [len(drawn) for drawn in bar.findall(shown(width))] == [used]
    assert max(map(len, shown(width).splitlines())) == used


def test_a_wrapped_figure_stays_under_its_column(shown: Callable[[int], str]) -> None:
    cache = shown(60).partition("\n\ncache\n")[2].partition("\n\n")[0]
    assert cache == snapshot("""\
  blocks           1,600 tokens, 55,705,600 bytes each
                   (exact)
  one request      53 blocks; least pool 2,952,396,800
                   bytes, safe 3,008,102,400
  pool             3,008,102,400 bytes a device, 54 blocks
  longest request  67,200
  its log says     66,772 tokens, 1.02x (times the whole
                   context, not a length to ask for)\
""")


def test_a_length_that_memory_does_not_bound_is_said_to_be_the_models(gearshift: Gearshift, tmp_path: Path) -> None:
    weights = str(write_config(tmp_path, DENSE))
    printed = gearshift(*FLAGS, "--weights", weights, "--kv-bytes", "1GiB", "--gpu", "RTX 3090", env={"COLUMNS": "100"})
    assert "longest request  8,192 (trained length)" in printed.stdout
    small = gearshift(*FLAGS, "--weights", weights, "--kv-bytes", "50MB", "--gpu", "RTX 3090", env={"COLUMNS": "100"})
    assert "trained length" not in small.stdout


def test_colour_is_for_terminals_only(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = (*FLAGS, "--weights", str(write_config(tmp_path, HYBRID)))
    assert "\x1b" not in gearshift(*flags, env={"NO_COLOR": ""}).stdout


def test_llama_cpp_s_caches_are_told_in_words(gearshift: Gearshift, tmp_path: Path) -> None:
    weights = str(write_hybrid_gguf(tmp_path / "q.gguf"))
    flags = ("--gpu", "RTX 3090", "--gpus", "2", "--context", "131072", "--kv-dtype", "q8_0", "--speculation", "mtp:3")
    printed = gearshift("plan", "--engine", "llama.cpp", "--weights", weights, *flags)
    assert printed.stdout == snapshot("""\
cannot be told (the weights are not here): q.gguf on llama.cpp, 131,072 tokens

gpu0: 5.74 GiB of 24 GiB
███████▓▓▓▓▒▒░█████·····························································
  █  kv cache         2.12 GiB  exact
  ▓  recurrent state  1.22 GiB  exact
  ▒  compute           644 MiB  modelled +- 322 MiB
  ░  driver            300 MiB  modelled +- 150 MiB
  █  fill reserve     1.48 GiB  modelled
  ·  free             18.3 GiB  +- 472 MiB in all

gpu1: 6.76 GiB of 24 GiB
███████▓▓▒▒▒░░░██▓▒▒▒▒▒·························································
  █  kv cache         2.12 GiB  exact
  ▓  draft kv cache    512 MiB  exact
  ▒  recurrent state  1.12 GiB  exact
  ░  compute           644 MiB  modelled +- 322 MiB
  █  draft compute     634 MiB  modelled +- 317 MiB
  ▓  driver            300 MiB  modelled +- 150 MiB
  ▒  fill reserve     1.48 GiB  modelled
  ·  free             17.2 GiB  +- 789 MiB in all

host memory beside the cards: pinned inputs 1.04 GiB
host memory that fills as it serves, at most: prompt cache 8 GiB, context
checkpoints 6.61 GiB

cache
  attention        4.25 GiB: 131,072 cells, one cache for all slots, 34,816
                   bytes a token
  draft head       512 MiB
  recurrent state  2.34 GiB: 16 rows

what would fit
                                1 device  2 of these
  fits                           unknown     unknown
  longest context                unknown     unknown
  at once, 131,072 tokens each         1           1
  at once, 8,192 tokens each           4           4

what frees most on a device
   2.3 GiB  context 131,072 -> 65,536
  1.93 GiB  mtp off
  1.36 GiB  kv_dtype q8_0 -> q4_0
   860 MiB  parallel 4 -> 1
   639 MiB  ubatch 512 -> 256

ceiling: unknown, the weights are not here
note: context checkpoints take up to 6.6 GiB of host memory: see -ctxcp and -cms
""")


def test_a_terminal_gets_colours_unless_it_asks_for_none(tmp_path: Path) -> None:
    weights = str(write_config(tmp_path, HYBRID))
    command = [sys.executable, "-m", "gearshift", *FLAGS, "--weights", weights, "--gpu", "24:936", "--kv-bytes", "4GiB"]
    with on_terminal(command, os.environ, tmp_path) as terminal:
        assert terminal.end() == 1
    assert "\x1b[1;31mdoes not fit\x1b[0m" in terminal.screen
    assert "\x1b[32m▓" in terminal.screen
    with on_terminal(command, os.environ | {"NO_COLOR": "1"}, tmp_path) as plain:
        assert plain.end() == 1
    assert "\x1b" not in plain.screen
