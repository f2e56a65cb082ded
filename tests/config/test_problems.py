"""Whole messages for bad files: what a person sees when something is wrong."""
# ruff: noqa: E501 - messages are kept whole, as a terminal shows them

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from config.reading import Complaints, Load, one_model
from gearshift.domain.errors import ConfigError


def test_every_problem_of_a_file_is_reported_in_one_pass(complaints: Complaints) -> None:
    text = """\
listen: 0.0.0.0:8888
defaults: {load_timeout: 10x, idle: {unload_aftr: 10m}}
modls: {}
models:
  qwen:
    aliases: [q, q]
    route: q9
    variants:
      q8: {engine: llama.ccp, contxt: 1, max-model-len: 3}
      q8: {engine: vllm}
      int8: {engine: vllm, weights: org/name, gpus: [0, 0, a], args: {x: "${env:NOPE}", "--y": 1}}
      one: {extends: two}
      two: {extends: one}
      lost: {extends: int9}
      box: {engine: command, weights: org/name}
groups: {g: {members: [qwen, nope]}}
preload: [qwen:int9]
side: {aliases: [titles]}
"""
    assert complaints(text) == snapshot("""\
error gearshift.yaml:1: listen: 0.0.0.0 can be reached by others and there are no keys (add api_keys:, or allow_open: true if that is meant)
error gearshift.yaml:2: defaults.idle.unload_aftr: unknown key 'unload_aftr' (did you mean unload_after?)
error gearshift.yaml:2: defaults.load_timeout: '10x' is not a duration (write for example 90s, 10m or 1h30m)
error gearshift.yaml:3: modls: unknown key 'modls' (did you mean models?)
error gearshift.yaml:6: models.qwen.aliases[1]: 'q' means two things (it already names something in line 6)
error gearshift.yaml:7: models.qwen.route: there is no variant 'q9' (auto, q8, int8, one, two, lost, box)
error gearshift.yaml:9: models.qwen.variants.q8.contxt: unknown key 'contxt' (did you mean context?)
error gearshift.yaml:9: models.qwen.variants.q8.engine: 'llama.ccp' is not llama.cpp, vllm or command (did you mean llama.cpp?)
error gearshift.yaml:9: models.qwen.variants.q8.max-model-len: unknown key 'max-model-len' (the engine's own flags go under args:)
error gearshift.yaml:10: models.qwen.variants.q8: key 'q8' is given twice, first in line 9
error gearshift.yaml:11: models.qwen.variants.int8.args.x: ${env:NOPE} is not set (export NOPE before the start)
error gearshift.yaml:11: models.qwen.variants.int8.gpus: 'a' is not a GPU (an index, or a UUID such as GPU-0123abcd-...)
error gearshift.yaml:11: models.qwen.variants.int8.gpus: a GPU is named twice
error gearshift.yaml:11: models.qwen.variants.int8.args.--y: --y has dashes in front (write y)
error gearshift.yaml:12: models.qwen.variants.one.extends: extends goes in a circle: qwen:two -> qwen:one -> qwen:two
error gearshift.yaml:13: models.qwen.variants.two.extends: extends goes in a circle: qwen:one -> qwen:two -> qwen:one
error gearshift.yaml:14: models.qwen.variants.lost.extends: there is no variant 'int9' (did you mean int8?)
error gearshift.yaml:15: models.qwen.variants.box.weights: weights has no meaning for engine command (a command engine brings its own)
error gearshift.yaml:15: models.qwen.variants.box.command: command is missing (command starts the server; upstream alone is a server that runs already)
error gearshift.yaml:16: groups.g.members[1]: there is no variant or model 'nope'
error gearshift.yaml:17: preload[0]: there is no variant or model 'qwen:int9' (did you mean qwen:int8?)
error gearshift.yaml:18: side.aliases[0]: no model is called 'titles' (name it among a model's aliases: first)\
""")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", snapshot("error gearshift.yaml: the file is empty (write a first one: gearshift config init)")),
        ("# nothing\n", snapshot("error gearshift.yaml: the file is empty (write a first one: gearshift config init)")),
        ("- a\n- b\n", snapshot("error gearshift.yaml:1: the top of the file is not a mapping of keys (write for example models: ...)")),
        ("just words", snapshot("error gearshift.yaml:1: the top of the file is not a mapping of keys (write for example models: ...)")),
        ("models: [\n", snapshot("error gearshift.yaml:2: not YAML: while parsing a flow node, expected the node content, but found '<stream end>'")),
        ("models:\n\tq8: 1\n", snapshot("error gearshift.yaml:2: not YAML: while scanning for the next token, found character '\\t' that cannot start any token (YAML indents by spaces, never by tabs)")),
        ("models: {a: *b}\n", snapshot("error gearshift.yaml:1: not YAML: found undefined alias 'b'")),
        ("models: &m {a: *m}\n", snapshot("error gearshift.yaml:1: an alias refers to itself")),
        ("a: 1\n---\nb: 2\n", snapshot("error gearshift.yaml:2: not YAML: expected a single document in the stream, but found another document")),
        ("models: !!python/object:os.system {}\n", snapshot("error gearshift.yaml:1: models: tag tag:yaml.org,2002:python/object:os.system is not known")),
        ("listen: \x07\n", snapshot("error gearshift.yaml:1: not YAML: character 7 is not allowed")),
        ("models:\n  ? [a, b]\n  : 1\n", snapshot("error gearshift.yaml:2: models: a key must be plain text")),
        ("<<: 3\nmodels: {}\n", snapshot("error gearshift.yaml:1: <<: takes an alias of a mapping")),
        ("models: {a: ${port}}\n", snapshot("error gearshift.yaml:1: not YAML: while parsing a flow mapping, expected ',' or '}', but got '{' (inside { } and [ ] a text with ${...} needs quotes)")),
        ("models: " + "[" * 100 + "]" * 100, snapshot("error gearshift.yaml:1: not YAML: nested deeper than 40 levels")),
        ("models: " + "{a: " * 1000, snapshot("error gearshift.yaml:1: not YAML: nested deeper than 40 levels")),
    ],
    ids=[
        "empty", "comments only", "a list", "a word", "an open bracket", "a tab", "an unknown alias", "an endless alias",
        "two documents", "a Python object", "a control character", "a key that is a list", "a merge of a number",
        "an unquoted placeholder", "deep lists", "deep open mappings",
    ],
)  # fmt: skip
def test_what_is_not_a_configuration_gets_one_plain_problem(complaints: Complaints, text: str, said: str) -> None:
    assert complaints(text) == said


@pytest.mark.parametrize("escape", [r"\ud800", r"\0", r"\ude00\ud83d"])
def test_an_escape_that_no_answer_or_argument_can_hold_is_refused(complaints: Complaints, escape: str) -> None:
    text = one_model(f'a: {{engine: command, command: [x, "${{port}}", "y{escape}"]}}')
    said = "error gearshift.yaml:4: models.m.variants.a.command[2]: a text cannot hold this escape"
    assert complaints(text).splitlines()[0] == said


def test_a_character_written_as_json_writes_it_is_read_whole(load: Load) -> None:
    text = one_model(r'a: {engine: command, command: [x, "${port}"], filters: {force: {user: "\ud83d\ude00"}}}')
    assert load(text).settings.variants()["m:a"].filters.force == {"user": "\U0001f600"}


def test_aliases_that_multiply_are_refused_before_they_fill_the_memory(complaints: Complaints) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert complaints("\n".join(lines)) == snapshot("error gearshift.yaml:1: more than 50000 values (aliases multiply)")


def test_aliases_that_nest_without_end_are_refused(complaints: Complaints) -> None:
    lists = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 2000))]
    merges = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 2000))]
    assert complaints("\n".join(lists)) == snapshot("error gearshift.yaml:1: aliases nest deeper than 40 levels")
    assert complaints("\n".join(merges)) == snapshot("error gearshift.yaml:1: aliases nest deeper than 40 levels")
    assert complaints("models: &m {<<: *m}") == snapshot("error gearshift.yaml:1: an alias refers to itself")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen: 8888.5", snapshot("error gearshift.yaml:1: listen: 8888.5 is not text or a whole number")),
        (
            "listen: nowhere",
            snapshot(
                "error gearshift.yaml:1: listen: 'nowhere' is not an address (write for example 127.0.0.1:8888, [::1]:8888 or 8888)"
            ),
        ),
        (
            "listen: ::1:80",
            snapshot(
                "error gearshift.yaml:1: listen: '::1:80' is not an address (write for example 127.0.0.1:8888, [::1]:8888 or 8888)"
            ),
        ),
        (
            "listen: 127.0.0.1:65536",
            snapshot(
                "error gearshift.yaml:1: listen: '127.0.0.1:65536' is not an address (write for example 127.0.0.1:8888, [::1]:8888 or 8888)"
            ),
        ),
        (
            "listen: 192.168.1.2:80",
            snapshot(
                "error gearshift.yaml:1: listen: 192.168.1.2 can be reached by others and there are no keys (add api_keys:, or allow_open: true if that is meant)"
            ),
        ),
        (
            "listen: '[::]:80'",
            snapshot(
                "error gearshift.yaml:1: listen: :: can be reached by others and there are no keys (add api_keys:, or allow_open: true if that is meant)"
            ),
        ),
        ("api_keys: [{key_env: A}]", snapshot("error gearshift.yaml:1: api_keys[0]: name is missing")),
        ("api_keys: [{name: a}]", snapshot("error gearshift.yaml:1: api_keys[0]: needs one of key_env and key_file")),
        (
            "api_keys: [{name: a, key_env: A, key_file: b}]",
            snapshot("error gearshift.yaml:1: api_keys[0]: needs one of key_env and key_file"),
        ),
        (
            "api_keys: [{name: a, key_env: SET}, {name: a, key_env: SET}]",
            snapshot("error gearshift.yaml:1: api_keys[1].name: key 'a' is named twice"),
        ),
        (
            "api_keys: [{name: a, key_env: UNSET}]",
            snapshot(
                "warning gearshift.yaml:1: api_keys[0].key_env: UNSET is not set (until then this key admits nobody)"
            ),
        ),
        (
            "api_keys: [{name: a, key_file: absent.key}]",
            snapshot(
                "warning gearshift.yaml:1: api_keys[0].key_file: absent.key: No such file or directory (until then this key admits nobody)"
            ),
        ),
        (
            "api_keys: [{name: a, key_env: SET, role: root}]",
            snapshot("error gearshift.yaml:1: api_keys[0].role: 'root' is not client or operator"),
        ),
        ("api_keys: {a: b}", snapshot('error gearshift.yaml:1: api_keys: {"a": "b"} is not a list')),
        (
            "cors_origins: ['*', 'https://a.b', a.b]",
            snapshot("""\
error gearshift.yaml:1: cors_origins[0]: '*' is not an origin (name each page that may call, such as https://chat.example.org)
error gearshift.yaml:1: cors_origins[2]: 'a.b' is not an origin (name each page that may call, such as https://chat.example.org)\
"""),
        ),
        (
            "allowed_hosts: ['a.b:80', a.b]",
            snapshot("error gearshift.yaml:1: allowed_hosts[0]: 'a.b:80' is not a host (a name, without port)"),
        ),
        ("body_limit: 0", snapshot("error gearshift.yaml:1: body_limit: 0 is not above 0")),
        ("keepalive: 0", snapshot("error gearshift.yaml:1: keepalive: 0 must be above zero")),
        (
            "defaults: {idle: {unload_after: 0}}",
            snapshot(
                "error gearshift.yaml:1: defaults.idle.unload_after: 0 must be above zero (write off to switch it off)"
            ),
        ),
        (
            "body_limit: much",
            snapshot(
                "error gearshift.yaml:1: body_limit: 'much' is not a size (write for example 24GiB, 9.15GB or a number of bytes)"
            ),
        ),
        (
            "engines: {command: {version: 1}, vlm: {}}",
            snapshot("""\
error gearshift.yaml:1: engines.command: unknown key 'command'
error gearshift.yaml:1: engines.vlm: unknown key 'vlm' (did you mean vllm?)\
"""),
        ),
        (
            "defaults: {keepalive: 5s}",
            snapshot(
                "error gearshift.yaml:1: defaults.keepalive: unknown key 'keepalive' (it belongs at the top of the file)"
            ),
        ),
        (
            "healthCheckTimeout: 360\nmodels: {a: {cmd: x, ttl: 600}}",
            snapshot("""\
error gearshift.yaml:1: healthCheckTimeout: unknown key 'healthCheckTimeout' (llama-swap's key; here defaults: {load_timeout: 10m})
error gearshift.yaml:2: models.a: variants is missing
error gearshift.yaml:2: models.a.cmd: unknown key 'cmd' (llama-swap's key; here engine: and args:; `gearshift config import FILE` carries a whole file over)
error gearshift.yaml:2: models.a.ttl: unknown key 'ttl' (llama-swap's key; here idle: {unload_after: 10m})\
"""),
        ),
        (
            "models: {a: {}, b: 3, c: {variants: {}}, d: }",
            snapshot("""\
error gearshift.yaml:1: models.a: variants is missing
error gearshift.yaml:1: models.b: 3 is not a mapping
error gearshift.yaml:1: models.c.variants: variants is empty
error gearshift.yaml:1: models.d: null is not a mapping\
"""),
        ),
        (
            "groups: {a: {}, b: {members: []}, c: }",
            snapshot("""\
error gearshift.yaml:1: groups.a: members is missing
error gearshift.yaml:1: groups.b.members: members is empty
error gearshift.yaml:1: groups.c: null is not a mapping\
"""),
        ),
    ],
)
def test_what_is_wrong_with_the_file_itself_is_said_with_its_place(
    complaints: Complaints, text: str, said: str
) -> None:
    assert complaints(text, {"SET": "secret"}) == said


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (
            "groups: {g: {members: [m:z]}}",
            snapshot(
                "error gearshift.yaml:6: groups.g.members[0]: there is no variant or model 'm:z' (did you mean m:b?)"
            ),
        ),
        (
            "groups: {g: {members: [m]}, h: {members: ['m:a']}}",
            snapshot("error gearshift.yaml:6: groups.h.members[0]: m:a is in group 'g' already"),
        ),
        (
            "groups: {g: {members: [m], swap: maybe}}",
            snapshot("error gearshift.yaml:6: groups.g.swap: 'maybe' is not true or false"),
        ),
        (
            "groups: {g: {members: [m]}}\npreload: ['m:a', 'm:b']",
            snapshot("warning gearshift.yaml:7: preload: m:a and m:b cannot both stay: group 'g' keeps one resident"),
        ),
        ("preload: [n]", snapshot("error gearshift.yaml:6: preload[0]: there is no variant or model 'n'")),
        (
            "side: {aliases: [mm]}",
            snapshot("error gearshift.yaml:6: side.aliases[0]: no model is called 'mm' (did you mean m?)"),
        ),
        ("side: {headers: [x]}", snapshot('error gearshift.yaml:6: side.headers: ["x"] is not a mapping')),
    ],
)
def test_a_name_that_refers_to_nothing_is_reported_with_the_nearest_one(
    complaints: Complaints, rest: str, said: str
) -> None:
    variants = "a: {engine: vllm, weights: o/n}\nb: {engine: vllm, weights: o/n}"
    assert complaints(f"{one_model(variants)}\n{rest}") == said


def test_no_name_may_mean_two_things(complaints: Complaints) -> None:
    text = """\
models:
  m:
    aliases: [n, m, "m:a", free, free]
    variants: {a: {engine: vllm, weights: o/n}}
  n:
    variants: {a: {engine: vllm, weights: o/n}}
  m:a:
    variants: {a: {engine: vllm, weights: o/n}}
"""
    assert complaints(text) == snapshot("""\
error gearshift.yaml:3: models.m.aliases[0]: 'n' means two things (it already names something in line 5)
error gearshift.yaml:3: models.m.aliases[1]: 'm' means two things (it already names something in line 2)
error gearshift.yaml:3: models.m.aliases[2]: 'm:a' means two things (it already names something in line 4)
error gearshift.yaml:3: models.m.aliases[4]: 'free' means two things (it already names something in line 3)
error gearshift.yaml:7: models.m:a: 'm:a' means two things (it already names something in line 4)\
""")


def test_one_fault_of_a_base_is_reported_once_however_many_variants_extend_it(complaints: Complaints) -> None:
    variants = """
        a: {engine: vllm, weights: o/n, gpus: [0, 0], contxt: 3}
        b: {extends: a}
        c: {extends: b, context: 32K}
        """
    assert complaints(one_model(variants)) == snapshot("""\
error gearshift.yaml:4: models.m.variants.a.contxt: unknown key 'contxt' (did you mean context?)
error gearshift.yaml:4: models.m.variants.a.gpus: a GPU is named twice\
""")


def test_a_misfit_does_not_make_a_second_problem_of_what_refers_to_it(complaints: Complaints) -> None:
    text = """\
models:
  m:
    route: a
    variants: {a: {engine: vllmm, weights: o/n}, b: {extends: a}}
groups: {g: {members: ["m:a"]}}
preload: [m]
"""
    assert complaints(text) == snapshot(
        "error gearshift.yaml:4: models.m.variants.a.engine: 'vllmm' is not llama.cpp, vllm or command (did you mean vllm?)"
    )


def test_what_extends_a_misfit_is_not_blamed_for_it(complaints: Complaints) -> None:
    variants = """
        a: 3
        b: {extends: a}
        c: {extends: [a]}
        d: {extends: c}
        """
    assert complaints(one_model(variants)) == snapshot("""\
error gearshift.yaml:4: models.m.variants.a: 3 is not a mapping
error gearshift.yaml:6: models.m.variants.c.extends: ["a"] is not text\
""")


def test_problems_know_their_file_place_line_and_severity(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load(one_model("a: {engine: vllm, weights: o/n, contxt: 3}"))
    problem = caught.value.problems[0]
    assert problem.file is not None
    assert problem.file.name == "gearshift.yaml"
    assert (problem.path, problem.line, problem.severity) == ("models.m.variants.a.contxt", 4, "error")
    assert problem.hint == "did you mean context?"
