from __future__ import annotations

import pytest

from control.conftest import settings_of
from gearshift.control.names import NameResolver
from gearshift.domain.errors import UnknownModelError

TEXT = """
side: {aliases: [titles]}
models:
  qwen:
    aliases: [q, titles]
    route: b
    variants:
      a: {engine: command, command: [x]}
      b: {engine: command, command: [x]}
  "llama:7b":
    variants:
      q8: {engine: command, command: [x]}
  auto:
    variants:
      cold: {engine: command, command: [x]}
      warm: {engine: command, command: [x]}
"""


def names(warmth: dict[str, int] | None = None) -> NameResolver:
    return NameResolver(settings_of(TEXT), lambda variant: (warmth or {}).get(variant, 9))


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("qwen", "qwen:b"),
        ("q", "qwen:b"),
        ("qwen:a", "qwen:a"),
        ("q:a", "qwen:a"),
        ("llama:7b", "llama:7b:q8"),
        ("llama:7b:q8", "llama:7b:q8"),
    ],
)
def test_a_name_resolves_exactly_before_it_is_split_at_a_colon(name: str, variant: str) -> None:
    assert names().resolve(name).variant.id == variant


def test_auto_takes_the_warmest_variant_and_file_order_where_they_are_equal() -> None:
    assert names().resolve("auto").variant.id == "auto:cold"
    assert names({"auto:warm": 0}).resolve("auto").variant.id == "auto:warm"


def test_a_side_alias_marks_its_requests() -> None:
    assert names().resolve("titles").side
    assert not names().resolve("q").side


def test_an_unknown_name_is_answered_with_what_is_near() -> None:
    with pytest.raises(UnknownModelError, match="'qwem'") as caught:
        names().resolve("qwem")
    assert caught.value.hint is not None
    assert "qwen" in caught.value.hint


def test_no_name_is_enough_only_where_there_is_one_model() -> None:
    with pytest.raises(UnknownModelError, match="names no model"):
        names().resolve(None)
    alone = NameResolver(settings_of("models: {m: {variants: {a: {engine: command, command: [x]}}}}"), lambda _: 0)
    assert alone.resolve(None).variant.id == "m:a"
