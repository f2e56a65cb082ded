"""Whatever stands in a file, reading it ends in settings or in a ConfigError, and what is shown loads again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gearshift.config import LoadedConfig, parse_config, show
from gearshift.config.document import read_document
from gearshift.config.schema import FileSection, ModelSection, VariantSection
from gearshift.config.writing import flow
from gearshift.domain.errors import ConfigError

_FILE = Path("/nowhere/gearshift.yaml")
_ENV = {"HOME": "/home/me", "A": "a"}

_words = st.sampled_from(
    ["vllm", "llama.cpp", "command", "auto", "off", "on", "m", "v", "m:v", "o/n", "10m", "8GiB", "32K", "${env:A}",
     "${env:NOPE}", "${port}", "http://x", "GPU-1", "", "null", "1e5", "~", "[::1]:80", "0.0.0.0:80"]
)  # fmt: skip
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | _words | st.text(max_size=8)
_fields = sorted({*VariantSection.model_fields, *ModelSection.model_fields, *FileSection.model_fields})
_keys = st.sampled_from(_fields) | st.text(max_size=6)
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4), max_leaves=12
)
_sections = st.dictionaries(st.sampled_from(sorted(VariantSection.model_fields)), _values, max_size=6)
_models = st.dictionaries(
    st.sampled_from(["m", "n", "m:v"]),
    st.fixed_dictionaries(
        {"variants": st.dictionaries(st.sampled_from(["v", "w", "x"]), _sections | _values, max_size=3)},
        optional={"aliases": _values, "route": _values, "sampling": _values, "filters": _values},
    )
    | _values,
    max_size=2,
)
_files = st.fixed_dictionaries(
    {"models": _models | _values},
    optional={key: _values for key in FileSection.model_fields if key != "models"},
)


def _load(text: str) -> LoadedConfig | ConfigError:
    try:
        return parse_config(text, file=_FILE, env=_ENV)
    except ConfigError as error:
        return error


@given(_files)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_tree_gives_settings_or_problems_with_places(tree: dict[str, Any]) -> None:
    outcome = _load(yaml.safe_dump(tree))
    if isinstance(outcome, ConfigError):
        assert any(problem.severity == "error" for problem in outcome.problems)
        assert all(problem.path and problem.message for problem in outcome.problems)
    else:
        assert all(problem.severity == "warning" for problem in outcome.warnings)


@given(st.text(alphabet=st.sampled_from("a:-[]{}&*!|>'\"#% \n\t,<?@`\\0\u00e9\u0085"), max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_gives_settings_or_problems(text: str) -> None:
    outcome = _load(text)
    assert isinstance(outcome, LoadedConfig) or outcome.problems


_plain_text = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
_json = st.recursive(
    st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False) | _plain_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_plain_text, inner, max_size=3),
    max_leaves=6,
)


@given(_json)
@settings(max_examples=80, deadline=None)
def test_what_we_write_on_one_line_reads_back_the_same(value: Any) -> None:
    line = flow(value)
    assert "\n" not in line
    assert read_document(f"a: {line}  # comment\n").tree == {"a": value}


_flags = st.from_regex(r"[a-z]{1,6}(-[a-z]{1,6})?", fullmatch=True)
_sound_variants = st.fixed_dictionaries(
    {"engine": st.sampled_from(["vllm", "llama.cpp", "vllm==0.32.0"]), "weights": st.just("o/n")},
    optional={
        "context": st.sampled_from(["8K", 4096]),
        "gpus": st.sampled_from([[0], [1, 0], 0]),
        "speculation": st.sampled_from(["off", {"method": "mtp", "tokens": 2}, {"method": "draft", "draft": "d/d"}]),
        "args": st.dictionaries(_flags, _json, max_size=4),
        "env": st.dictionaries(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), _plain_text, max_size=3),
        "sampling": st.dictionaries(_flags, _json, max_size=3),
        "idle": st.fixed_dictionaries({"unload_after": st.sampled_from(["off", "5m", 30])}),
        "stall_timeout": st.sampled_from(["off", None, "1m"]),
        "probe": st.sampled_from(["none", "http:/x", {"kind": "completion"}]),
        "filters": st.fixed_dictionaries({"force": st.dictionaries(_flags, _json | st.none(), max_size=2)}),
    },
)


@given(_sound_variants, _sound_variants)
@settings(max_examples=60, deadline=None)
def test_a_shown_file_loads_to_the_same_settings(base: dict[str, Any], own: dict[str, Any]) -> None:
    tree = {"models": {"m": {"variants": {"base": base, "own": {**own, "extends": "base"}}}}}
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).replace("${", "$${")
    first = _load(text)
    if isinstance(first, LoadedConfig):
        again = _load(show(first))
        assert isinstance(again, LoadedConfig), again
        assert again.settings == first.settings
