"""Whole messages for what is wrong with one variant, each with its line and place."""
# ruff: noqa: E501 - messages are kept whole, as a terminal shows them

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from config.reading import Complaints, one_model


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        (
            "a: {}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.engine: engine is missing (llama.cpp, vllm or command)"
            ),
        ),
        ("a:", snapshot("error gearshift.yaml:4: models.m.variants.a: null is not a mapping")),
        (
            "a: {engine: vllm}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.weights: weights is missing (a GGUF file, a model folder or a Hugging Face id)"
            ),
        ),
        (
            "a: {engine: vllm, weights: 3}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.weights: 3 is not text"),
        ),
        (
            "a: {engine: {version: 1}, weights: o/n}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.engine: engine has no kind (llama.cpp, vllm or command)"
            ),
        ),
        (
            "a: {engine: 3, weights: o/n}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.engine: 3 is not a mapping"),
        ),
        (
            "a: {engine: {kind: vllm, version: 1, path: /x}, weights: o/n}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.engine: version and path are both given (a path is used at whatever version it has)"
            ),
        ),
        (
            "a: {engine: command==3, command: srv, memory: 1GiB}",
            snapshot("""\
error gearshift.yaml:4: models.m.variants.a.engine: a command engine has neither version nor path (what runs is in command:)
warning gearshift.yaml:4: models.m.variants.a.command: no ${port} in it and no upstream: it has to read its port from the environment variable PORT\
"""),
        ),
        (
            "a: {engine: command, memory: 1GiB}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.command: command is missing (command starts the server; upstream alone is a server that runs already)"
            ),
        ),
        (
            "a: {engine: command, command: 'a \"b', memory: 1GiB}",
            snapshot("""\
error gearshift.yaml:4: models.m.variants.a.command: 'a "b' cannot be split into arguments: no closing quotation
warning gearshift.yaml:4: models.m.variants.a.command: no ${port} in it and no upstream: it has to read its port from the environment variable PORT\
"""),
        ),
        (
            "a: {engine: command, command: srv}",
            snapshot("""\
warning gearshift.yaml:4: models.m.variants.a.command: no ${port} in it and no upstream: it has to read its port from the environment variable PORT
warning gearshift.yaml:4: models.m.variants.a.engine: no memory is declared: it shares a device with nobody (declare the bytes it takes on a device)\
"""),
        ),
        (
            "a: {engine: command, command: 'srv --port ${port}', kv_bytes: auto, sleep: true, memory: 1GiB}",
            snapshot(
                """\
error gearshift.yaml:4: models.m.variants.a.kv_bytes: kv_bytes has no meaning for engine command (a command engine brings its own)
error gearshift.yaml:4: models.m.variants.a.sleep: sleep has no meaning for engine command (a command engine brings its own)\
"""
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, command: srv, upstream: 'http://x'}",
            snapshot("""\
error gearshift.yaml:4: models.m.variants.a.command: command has no meaning for engine vllm (it belongs to engine: command)
error gearshift.yaml:4: models.m.variants.a.upstream: upstream has no meaning for engine vllm (it belongs to engine: command)\
"""),
        ),
        (
            "a: {engine: vllm, weights: o/n, upstream: 'ftp://x'}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.upstream: 'ftp://x' is not of the form ^https?://"),
        ),
        (
            "a: {engine: llama.cpp, weights: o/n, sleep: true}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.sleep: sleep has no meaning for engine llama.cpp (sleep mode is vLLM's)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, context: 0}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.context: 0 is not above 0"),
        ),
        (
            "a: {engine: vllm, weights: o/n, context: true}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.context: true is not a token count"),
        ),
        (
            "a: {engine: vllm, weights: o/n, context: 32Q}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.context: '32Q' is not a token count (write for example 32768, 32K (32,768) or 32k (32,000))"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, kv_bytes: 3 apples}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.kv_bytes: '3 apples' is not a size (write for example 24GiB, 9.15GB or a number of bytes)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, gpus: []}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.gpus: gpus is empty (leave it out to use every device)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, gpus: [-1]}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.gpus: -1 is not a GPU index (indices count from 0, as nvidia-smi shows them)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, gpus: [1.5]}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.gpus[0]: 1.5 is not a whole number or text"),
        ),
        (
            "a: {engine: vllm, weights: o/n, gpus: {a: 1}}",
            snapshot('error gearshift.yaml:4: models.m.variants.a.gpus: {"a": 1} is not a whole number or text'),
        ),
        (
            "a: {engine: vllm, weights: o/n, parallel: 0, queue_limit: -1}",
            snapshot("""\
error gearshift.yaml:4: models.m.variants.a.parallel: 0 is not at least 1
error gearshift.yaml:4: models.m.variants.a.queue_limit: -1 is not at least 1\
"""),
        ),
        (
            "a: {engine: vllm, weights: o/n, speculation: {tokens: 3}}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.speculation: speculation has no method (mtp, ngram or draft)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, speculation: {method: draft}}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.speculation: method draft needs draft: (the weights of the draft model)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, speculation: {method: mtp, draft: o/d}}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.speculation.draft: method mtp takes no draft model"),
        ),
        (
            "a: {engine: vllm, weights: o/n, speculation: mtp}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.speculation: 'mtp' is not a mapping"),
        ),
        (
            "a: {engine: vllm, weights: o/n, probe: http}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.probe: probe http needs a path (write for example http:/health)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, probe: chatt}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.probe: 'chatt' is not chat, completion, embedding, rerank, http or none (did you mean chat?)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, probe: 'chat:/x'}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.probe: probe chat takes no path"),
        ),
        (
            "a: {engine: vllm, weights: o/n, sleep: 3}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.sleep: 3 is not 1 or 2"),
        ),
        (
            "a: {engine: vllm, weights: o/n, memory: {GPU-1: lots}}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.memory: 'lots' is not a size (write for example 24GiB, 9.15GB or a number of bytes)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, memory: [1]}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.memory: [1] is not a size"),
        ),
        (
            "a: {engine: vllm, weights: o/n, meter: none}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.meter: 'none' is not active or passive"),
        ),
        (
            "a: {engine: vllm, weights: o/n, load_timeout: 0}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.load_timeout: 0 must be above zero"),
        ),
        (
            "a: {engine: vllm, weights: o/n, probe_every: 0, stall_timeout: 0s, drain_timeout: 0}",
            snapshot("""\
error gearshift.yaml:4: models.m.variants.a.probe_every: 0 must be above zero (write off to switch it off)
error gearshift.yaml:4: models.m.variants.a.stall_timeout: '0s' must be above zero (write off to switch it off)\
"""),
        ),
        (
            "a: {engine: vllm, weights: o/n, load_timeout: -3}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.load_timeout: -3 is negative"),
        ),
        ("a: {engine: vllm, weights: o/n, load_timeout: 1m}", snapshot("")),
        (
            "a: {engine: vllm, weights: o/n, load_timeout: 1m, stall_timeout: 2m}",
            snapshot(
                "warning gearshift.yaml:4: models.m.variants.a.stall_timeout: stall_timeout (120 s) never comes before load_timeout (60 s)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, max_wait: off}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.max_wait: 'off' is not a duration (write for example 90s, 10m or 1h30m)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, args: {x: '${port}'}}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.args.x: ${port} is for command engines (the port of this engine is set by Gearshift)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, args: {x: '${PORT}'}}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.args.x: ${PORT} means nothing here (write ${port})"),
        ),
        (
            "a: {engine: vllm, weights: o/n, args: {enable-x: }}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.args.enable-x: enable-x has no value and nothing to take away (write true for a flag without a value; null only takes away what extends brought)"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, args: [x]}",
            snapshot('error gearshift.yaml:4: models.m.variants.a.args: ["x"] is not a mapping'),
        ),
        (
            "a: {engine: vllm, weights: o/n, env: {A: [1]}}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.env.A: [1] is not text"),
        ),
        (
            "a: {engine: vllm, weights: o/n, env: {'A=B': c}}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a.env.A=B: 'A=B' is not the name of an environment variable"
            ),
        ),
        (
            "a: {engine: vllm, weights: o/n, filters: {drop: x}}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.filters.drop: 'x' is not a list"),
        ),
        (
            "'a:b': {engine: vllm, weights: o/n}",
            snapshot(
                "error gearshift.yaml:4: models.m.variants.a:b: 'a:b' cannot be a variant's name (letters, digits and . _ + - after the first)"
            ),
        ),
        (
            "a: {engine: llama.cpp, weights: /nowhere/a.gguf, template: /nowhere/t.jinja}",
            snapshot("""\
warning gearshift.yaml:4: models.m.variants.a.weights: there is no /nowhere/a.gguf
warning gearshift.yaml:4: models.m.variants.a.template: there is no /nowhere/t.jinja\
"""),
        ),
        (
            "a: {extends: a}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.extends: extends goes in a circle: m:a -> m:a"),
        ),
        (
            "a: {extends: x:y}",
            snapshot("error gearshift.yaml:4: models.m.variants.a.extends: there is no variant 'x:y'"),
        ),
        (
            "a: {extends: [a]}",
            snapshot('error gearshift.yaml:4: models.m.variants.a.extends: ["a"] is not text'),
        ),
    ],
)
def test_what_is_wrong_with_a_variant_is_said_with_its_place(complaints: Complaints, variants: str, said: str) -> None:
    assert complaints(one_model(variants)) == said
