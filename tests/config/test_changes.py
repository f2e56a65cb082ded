"""What a reload sees: differences in effect, not in writing."""

from __future__ import annotations

from config.reading import Load
from gearshift.config import Diff, diff

_BEFORE = """\
models:
  m:
    variants:
      stays: {engine: vllm, weights: o/n, context: 8K}
      moves: {engine: vllm, weights: o/n}
      goes: {engine: vllm, weights: o/n}
"""


def test_only_what_differs_in_effect_counts(load: Load) -> None:
    after = """\
models:
  m:
    variants:
      comes: {engine: vllm, weights: o/n}
      moves: {engine: vllm, weights: o/n, context: 4K}
      stays: {context: 8192, extends: comes}
"""
    assert diff(load(_BEFORE).settings, load(after).settings) == Diff(
        added=("m:comes",), removed=("m:goes",), changed=("m:moves",), untouched=("m:stays",)
    )


def test_a_default_that_moves_changes_the_variants_that_use_it(load: Load) -> None:
    after = f"defaults: {{stop_grace: 1s}}\n{_BEFORE}"
    assert diff(load(_BEFORE).settings, load(after).settings).untouched == ()


def test_a_variant_without_a_pin_changes_with_the_default_engine(load: Load) -> None:
    pinned = "      pinned: {engine: vllm==0.32.0, weights: o/n}\n"
    before = load(_BEFORE + pinned).settings
    after = load("engines: {vllm: {version: 0.33.0}}\n" + _BEFORE + pinned).settings
    found = diff(before, after)
    assert found.changed == ("m:stays", "m:moves", "m:goes")
    assert found.untouched == ("m:pinned",)
    assert found.server == ("engines",)


def test_keys_of_the_server_are_named(load: Load) -> None:
    found = diff(load(_BEFORE).settings, load(f"listen: 9000\npreload: [m]\n{_BEFORE}").settings)
    assert found.server == ("port", "preload")
    assert found.changed == ()
