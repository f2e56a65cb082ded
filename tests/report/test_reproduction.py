"""The recipe names what was run, so that it can be run again."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest

from gearshift.cli.root import root
from gearshift.report import assemble, read_documents, to_markdown
from gearshift.report.reproduction import command

CELL = {
    "concurrency": 2, "depth": 512, "output": 64, "requests": 4, "trials": 3, "kind": "prose", "dialect": "chat",
    "exact": True, "setting": "", "needles": [], "shared_prefix": 0,
}  # fmt: skip
VARIANT = {"url": "http://127.0.0.1:1", "provenance": {"variant": "m:a"}}


def document(experiment: str, *plans: dict[str, Any], target: Any = VARIANT, **more: Any) -> dict[str, Any]:
    return {"experiment": experiment, "target": target, "cells": [], "plan": {"cells": list(plans)}, **more}


A, B = {"url": "http://a:1", "model": "plain"}, {"url": "http://b:2", "model": "drafted"}
TARGETS = {"targets": {"off": VARIANT, "2": {"provenance": {"variant": "m:mtp"}}}}
LINES = [
    (
        document("ladder", {**CELL, "needles": [0.1, 0.9]}, {**CELL, "depth": 4096}),
        "gearshift bench ladder --depths 512,4096 --needle 0.1,0.9 --model m:a --output 64 --requests 4 --repeats 3",
    ),
    (
        document("concurrency", CELL, {**CELL, "concurrency": 8, "requests": 8, "kind": "code", "exact": False}),
        "gearshift bench concurrency --levels 2,8 --input 512 --model m:a --output 64 --repeats 3",
    ),
    (
        document("speculation", {**CELL, "setting": "off"}, {**CELL, "setting": "2"}, findings=TARGETS),
        (
            "gearshift bench speculation --tokens off=m:a,2=m:mtp --levels 2 --depths 512"
            " --output 64 --requests 4 --repeats 3"
        ),
    ),
    (
        document(
            "speculation",
            {**CELL, "setting": "off"},
            {**CELL, "setting": "2"},
            target=A,
            findings={"targets": {"off": A, "2": B}},
        ),
        (
            "gearshift bench speculation --tokens off=http://a:1,2=http://b:2 --levels 2 --depths 512"
            " --output 64 --requests 4 --repeats 3"
        ),
    ),
    (
        document(
            "speculation",
            {**CELL, "setting": "off"},
            {**CELL, "setting": "2"},
            target=A,
            findings={"targets": {"off": A, "2": {**A, "model": "drafted"}}},
        ),
        (
            "gearshift bench speculation --tokens off=plain,2=drafted --levels 2 --depths 512 --url http://a:1"
            " --output 64 --requests 4 --repeats 3"
        ),
    ),
    (
        document(
            "ab",
            {**CELL, "setting": "http://a:1"},
            {**CELL, "setting": "http://b:2"},
            target=A,
            findings={"targets": {"http://a:1": A, "http://b:2": B}},
        ),
        "gearshift bench ab http://a:1 http://b:2 --input 512 --streams 2 --output 64 --requests 4 --repeats 3",
    ),
    (
        document(
            "saturate",
            {**CELL, "rate": 0.5},
            {**CELL, "rate": 0.75, "requests": 6},
            {**CELL, "rate": 1.125, "requests": 9},
            findings={"goal": {"ttft_s": 2.0, "tpot_s": 0.05}},
        ),
        (
            "gearshift bench saturate --ttft 2s --tpot 0.05s --rate 0.5 --factor 1.5 --steps 3 --input 512 --model m:a"
            " --output 64 --requests 4 --repeats 3"
        ),
    ),
    (
        document("concurrency", {**CELL, "burst": True}),
        "gearshift bench concurrency --levels 2 --input 512 --model m:a --output 64 --requests 4 --repeats 3 --burst",
    ),
    (
        document("prefix", {**CELL, "shared_prefix": 384, "kind": "code"}),
        "gearshift bench prefix --prefix 384 --suffix 128 --model m:a --output 64 --requests 4 --repeats 3 --text code",
    ),
    (
        document("ab", {**CELL, "setting": "m:a"}, {**CELL, "setting": "m:b"}),
        "gearshift bench ab m:a m:b --input 512 --streams 2 --output 64 --requests 4 --repeats 3",
    ),
    (
        document(
            "ab",
            {**CELL, "setting": "m:a", "concurrency": 1},
            {**CELL, "setting": 'm:a with {"top_k": 1}', "extra": {"top_k": 1}, "concurrency": 1},
            findings={"metric": "ttft_s"},
        ),
        (
            """gearshift bench ab m:a --b-extra '{"top_k": 1}' --input 512 --metric ttft_s"""
            " --output 64 --requests 4 --repeats 3"
        ),
    ),
    (
        document("swap") | {"cells": [{"setting": "m:a > m:b", "trials": 2}, {"setting": "m:b > m:a", "trials": 2}]},
        "gearshift bench swap m:a m:b --repeats 2",
    ),
]


@pytest.mark.parametrize(("found", "line"), LINES, ids=lambda value: value[:30] if isinstance(value, str) else "")
def test_an_experiment_has_the_line_that_repeats_it(found: dict[str, Any], line: str) -> None:
    (experiment,) = read_documents([found])
    assert command(experiment) == line


@pytest.mark.parametrize("line", [line for _, line in LINES])
def test_the_line_is_one_that_the_program_takes(line: str) -> None:
    _, verb, *words = shlex.split(line)
    top = click.Context(root, **root.context_settings)  # commands keep what they are first asked with
    group = root.get_command(top, verb)
    assert isinstance(group, click.Group)
    name, *options = words
    experiment = group.get_command(click.Context(group), name)
    assert experiment is not None
    context = experiment.make_context(name, options, parent=click.Context(group, parent=top))
    assert context.params


def test_a_plan_that_lacks_what_its_line_needs_has_none() -> None:
    for experiment in ("ladder", "concurrency", "prefix", "saturate"):
        (found,) = read_documents([document(experiment, {"output": 64})])
        assert command(found) == ""


def test_without_a_plan_there_is_no_line() -> None:
    (experiment,) = read_documents([document("ladder")])
    assert command(experiment) == ""


def test_the_engines_command_line_is_there_with_its_environment_and_without_the_home() -> None:
    provenance = {
        "variant": "m:a",
        "argv": [
            "/home/anna/bin/llama-server",
            "--model",
            "/home/anna/a b.gguf",
            "--port",
            "PORT",
            "--api-key",
            "s3cret",
        ],
        "env": {"CUDA_VISIBLE_DEVICES": "GPU-1", "HF_HOME": "/home/anna/.cache"},
        "weights": [{"file": "/home/anna/a b.gguf", "bytes": 2048, "sha256": "ab12"}],
        "hardware": {
            "gpus": [
                {"name": "RTX 5090", "bytes": 2**35, "settings": {"max_clock_mhz": 3090, "power_limit_w": 450.0}},
                {"name": "RTX 3090", "bytes": 2**34},
            ],
            "cpu": "x",
            "cpu_governor": "performance",
            "cpu_max_mhz": 3500,
            "cores": 8,
            "ram_bytes": None,
        },
    }
    text = to_markdown(assemble(read_documents([document("ladder", target={"provenance": provenance})])))
    assert (
        "# m:a\nCUDA_VISIBLE_DEVICES=GPU-1 \\\n  HF_HOME=~/.cache \\\n  ~/bin/llama-server \\\n"
        "  --model ~/'a b.gguf' \\\n  --port PORT \\\n  --api-key '[redacted]'\n"
    ) in text
    assert "| weights | ~/a b.gguf, 2 KiB, sha256 ab12 |" in text
    assert "| GPU | RTX 5090, 32 GiB, at most 450 W, up to 3090 MHz |" in text
    assert "| GPU | RTX 3090, 16 GiB |" in text
    assert "| processor | x, 8 cores, up to 3500 MHz, governor performance, unknown of memory |" in text
    assert "anna" not in text


def test_a_swap_beside_other_results_doubles_neither_model_nor_engine() -> None:
    engine = {"engine": "llama.cpp", "engine_version": "b11434-unknown"}
    ladder = document("ladder", CELL, target={**VARIANT, **engine, "model": "m"})
    told = {name: {**engine, "engine_version": "11434", "model": name} for name in ("m:a", "m:b")}
    swaps = document("swap", target={"url": "http://127.0.0.1:1", "model": "m:a, m:b"}, findings={"targets": told})
    cell = {"setting": "m:a > m:b", "trials": 3}
    text = to_markdown(assemble(read_documents([ladder, {**swaps, "cells": [cell]}])))
    rows = [line for line in text.splitlines() if line.startswith(("| model |", "| engine |", "| variants |"))]
    assert rows == ["| model | m |", "| engine | llama.cpp b11434 |", "| variants | m:a, m:b |"]
