"""From bytes to values that know their lines and origins: files, scalars, places."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.reading import Load
from gearshift.config import load_config
from gearshift.config.document import read_document
from gearshift.config.scalars import plain_scalar
from gearshift.domain.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("no", "no"), ("yes", "yes"), ("12:30", "12:30"), ("2001-01-01", "2001-01-01"),
        ("1_000", "1_000"),
        (".inf", ".inf"), ("1e999", "1e999"), ("9" * 30, "9" * 30), ("true", True), ("False", False), ("~", None),
        ("null", None), ("", None), ("010", 10), ("0x10", 16), ("0o10", 8), ("-3", -3), ("1.5", 1.5), ("1e3", 1000.0),
        (".5", 0.5), ("24,24", "24,24"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    result = plain_scalar(text)
    assert result == value
    assert type(result) is type(value)


def test_quoted_text_stays_text() -> None:
    assert read_document("a: '1'\nb: \"true\"\nc: |\n  null\n").tree == {"a": "1", "b": "true", "c": "null\n"}


def test_lines_are_known_for_what_is_written_and_for_what_is_inherited(load: Load) -> None:
    text = """\
models:
  m:
    variants:
      a:
        engine: vllm
        weights: o/n
        args: {x: 1}
      b:
        extends: a
        context: 8K
"""
    places = load(text).places
    assert places["models.m.variants.a.args.x"] == 7
    assert places["models.m.variants.b.args.x"] == 7
    assert places["models.m.variants.b.context"] == 10
    assert places["models.m.variants.b"] == 8


def test_origins_say_who_gave_each_value(load: Load) -> None:
    text = """\
defaults: {max_wait: 1s}
models:
  m:
    sampling: {t: 1}
    variants:
      a: {engine: vllm, weights: o/n, args: {x: 1}}
      b: {extends: a, env: {SECRET: "${env:S}"}}
"""
    origins = load(text, {"S": "hidden"}).origins
    at = "models.m.variants.b"
    said = {key: str(origins[f"{at}.{key}"]) for key in ("max_wait", "sampling.t", "args.x", "meter", "context")}
    assert said == {
        "max_wait": "defaults, gearshift.yaml:1",
        "sampling.t": "model, gearshift.yaml:4",
        "args.x": "extends a, gearshift.yaml:6",
        "meter": "default",
        "context": "engine",
    }
    assert str(origins[f"{at}.env.SECRET"]) == "gearshift.yaml:7"
    assert origins[f"{at}.env.SECRET"].value == "${env:S}"
    assert str(origins["listen"]) == "default"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "absent.yaml", {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(Path("nul\0"), {})


def test_a_file_that_is_not_utf_8_or_too_long_is_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "gearshift.yaml"
    file.write_bytes(b"models: {}\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"gearshift\.yaml:2: byte 0xe9 is not UTF-8"):
        load_config(file, {})
    file.write_bytes(b"#" * (1024**2 + 1))
    with pytest.raises(ConfigError, match="too long for a configuration"):
        load_config(file, {})


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "gearshift.yaml"
    file.write_bytes(b"\xef\xbb\xbflisten: 9000\n")
    assert load_config(file, {}).settings.port == 9000
