"""Chat templates: where models keep them, what a conversation loses in them, and patches over a pinned base."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifacts.gguf_bytes import gguf_bytes
from gearshift.artifacts.templates import Template, model_template, read_template
from gearshift.artifacts.templates_apart import try_template_apart
from gearshift.artifacts.templates_patch import apply_patch, make_patch
from gearshift.artifacts.templates_render import try_template
from gearshift.domain.errors import GearshiftError

CHATML = """\
{%- if tools %}<|im_start|>system
{{ messages[0].content }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<tool_response>{{ message.content }}</tool_response>
{%- else %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def test_a_template_that_knows_everything_loses_nothing() -> None:
    assert try_template(CHATML).lost == ()
    assert try_template(CHATML).thinks


@pytest.mark.parametrize(
    ("removed", "lost"),
    [
        ("{{ message.reasoning_content }}", "the reasoning before a tool call"),
        ("{{ call.function | tojson }}", "the tool call's arguments"),
        ("{% for tool in tools %}{{ tool | tojson }}{% endfor %}", "the tool's definition"),
        ("<tool_response>{{ message.content }}</tool_response>", "the tool's answer"),
    ],
)
def test_what_a_template_drops_is_named(removed: str, lost: str) -> None:
    assert try_template(CHATML.replace(removed, "")).lost == (lost,)


def test_reasoning_is_not_missed_in_a_template_that_has_none() -> None:
    plain = "{% for message in messages %}{{ message.content }}{{ message.tool_calls or '' }}{% endfor %}{{ tools }}"
    assert try_template(plain).lost == ()


def test_a_template_with_a_fault_says_which() -> None:
    assert re.match("TemplateSyntaxError: ", try_template("{% for x in %}").failure or "")


def test_refusing_tools_is_told_from_failing_at_all() -> None:
    rendering = try_template("{% if tools %}{{ raise_exception('no tools here') }}{% endif %}{{ messages }}")
    assert (rendering.failure, rendering.tool_failure) == (None, "ValueError: no tools here")


def test_a_strangers_template_gets_no_hold_of_python() -> None:
    assert "SecurityError" in (try_template("{{ ''.__class__.__mro__ }}").failure or "")


def test_a_template_that_never_ends_is_ended() -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxxxxxxxx{% endfor %}{% endfor %}"
    assert "more than 1000000 characters" in (try_template(endless).failure or "")


def test_apart_a_template_loses_what_it_loses_here() -> None:
    dropped = CHATML.replace("{{ message.reasoning_content }}", "")
    assert try_template_apart(dropped) == try_template(dropped)


@pytest.mark.parametrize(
    "hostile",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 99999999999 }}",
    ],
)
def test_a_template_that_takes_everything_is_ended_by_its_limits(hostile: str) -> None:
    assert try_template_apart(hostile, cpu_s=1).failure is not None


def test_the_date_and_loop_controls_that_templates_use_are_there() -> None:
    text = "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}{% continue %}{% endfor %}"
    assert try_template(text).failure is None


def test_a_folder_keeps_its_template_in_one_of_three_places(tmp_path: Path) -> None:
    assert model_template(tmp_path) is None
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert text_of(tmp_path) == "d"
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "processor"}))
    assert text_of(tmp_path) == "processor"
    (tmp_path / "chat_template.jinja").write_text("own file")
    assert text_of(tmp_path) == "own file"


def text_of(path: Path) -> str:
    template = model_template(path)
    assert template is not None
    return template.text


def test_a_gguf_file_keeps_its_template_in_its_metadata(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf_bytes({"tokenizer.chat_template": "from metadata"}))
    assert text_of(file) == "from metadata"


def test_the_hash_of_a_template_is_that_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    file.write_bytes("{{ 'ä' }}\r\n".encode())
    assert read_template(file).sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert Template("a", "x").sha256 == Template("a", "y").sha256


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(GearshiftError, match="is not UTF-8"):
        read_template(file)


BASE = "".join(f"line {number}\n" for number in range(1, 13))


def test_a_patch_changes_only_what_it_says() -> None:
    edited = BASE.replace("line 2\n", "line two\n").replace("line 11\n", "line 11\nextra\n")
    patch = make_patch(BASE, edited)
    assert patch.startswith("--- a/chat_template.jinja\n+++ b/chat_template.jinja\n@@ -1,5 +1,5 @@\n")
    assert apply_patch(BASE, patch) == edited


def test_a_patch_for_another_base_is_refused_with_its_line() -> None:
    patch = make_patch(BASE, BASE.replace("line 6", "line six"))
    with pytest.raises(GearshiftError, match="does not fit its base at line 3"):
        apply_patch(BASE.replace("line 5", "line fünf"), patch)


@pytest.mark.parametrize("patch", ["not a patch\n", "@@ -1,2 +1,2 @@\n line 1\n", "@@ -1 +1 @@\n?line 1\n"])
def test_what_is_no_patch_is_refused(patch: str) -> None:
    with pytest.raises(GearshiftError):
        apply_patch(BASE, patch)


texts = st.text(alphabet="ab\n\r\t+- @\\é\u2028", max_size=60)


@given(texts, texts)
def test_a_patch_turns_any_text_into_any_other(base: str, edited: str) -> None:
    assert apply_patch(base, make_patch(base, edited)) == edited


@given(texts, texts)
def test_any_text_taken_for_a_patch_is_applied_or_refused(base: str, patch: str) -> None:
    with suppress(GearshiftError):
        assert isinstance(apply_patch(base, patch), str)
