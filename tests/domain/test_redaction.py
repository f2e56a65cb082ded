"""Nothing that is private leaves in a report."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.redaction import HIDDEN, redacted, redacted_text

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=12)
SECRETS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", min_size=20, max_size=40)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/anna/models/q8.gguf", "~/models/q8.gguf"),
        ("/Users/anna/q8.gguf", "~/q8.gguf"),
        ("/root", "~"),
        ("/root/x and '/home/b/y'", "~/x and '~/y'"),
        ("/opt/root/x", "/opt/root/x"),
        ("/rooted/x", "/rooted/x"),
        ("http://anna:pw@box:8000/v1", "http://box:8000/v1"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {HIDDEN}"),
        ("sk-abcdefgh12345678", HIDDEN),
        ("--api-key=hunter2 --port 1", f"--api-key={HIDDEN} --port 1"),
        ("HF_TOKEN=hunter2", f"HF_TOKEN={HIDDEN}"),
        ("max_tokens=128 tokenizer=x", "max_tokens=128 tokenizer=x"),
    ],
)
def test_homes_and_keys_are_taken_out_of_a_text(text: str, clean: str) -> None:
    assert redacted_text(text) == clean


def test_the_word_after_a_flag_for_a_key_is_hidden() -> None:
    argv = ["vllm", "serve", "--api-key", "hunter2", "--port", "8000"]
    assert redacted(argv) == ["vllm", "serve", "--api-key", HIDDEN, "--port", "8000"]


def test_every_key_of_a_flag_that_takes_several_is_hidden() -> None:
    argv = ["vllm", "--api-key", "-first", "second", "third", "--admin-key", "fourth", "-v", "--max-tokens", "5"]
    expected = ["vllm", "--api-key", HIDDEN, HIDDEN, HIDDEN, "--admin-key", HIDDEN, "-v", "--max-tokens", "5"]
    assert redacted(argv) == expected


def test_fields_named_after_secrets_are_hidden_wherever_they_are() -> None:
    found = redacted({"target": {"headers": {"Authorization": "x"}, "api_key": "y", "max_tokens": 3}})
    assert found == {"target": {"headers": {"Authorization": HIDDEN}, "api_key": HIDDEN, "max_tokens": 3}}


@given(name=NAMES, secret=SECRETS)
def test_no_form_of_a_secret_survives(name: str, secret: str) -> None:
    document = {
        "url": f"https://{name}:{secret}@host/v1?api_key={secret}",
        "argv": ["x", "--api-key", secret, f"--hf-token={secret}"],
        "env": {"HF_TOKEN": secret, "line": f"OPENAI_API_KEY={secret}", "header": f"bearer {secret}"},
        "flags": [f"401 for sk-{secret}"],
    }
    assert secret not in json.dumps(redacted(document))


@given(name=NAMES)
def test_no_home_folder_keeps_its_name(name: str) -> None:
    found = redacted_text(f"/home/{name}/m.gguf:/Users/{name} '/home/{name}'")
    assert found == "~/m.gguf:~ '~'"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_redacting_twice_changes_nothing_more(value: object) -> None:
    once = redacted(value)
    assert redacted(once) == once
