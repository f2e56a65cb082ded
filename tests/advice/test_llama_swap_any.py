"""Whatever stands in a llama-swap file, it is imported with what is wrong in its place, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.advice.importers import Imported, import_llama_swap
from gearshift.config import parse_config
from gearshift.domain.errors import ConfigError, Problem

_FILE = Path("/home/me/gearshift.yaml")
_ENV = {"HOME": "/home/me", "SWAP_KEY": "s", "ROOT": "/srv"}

_words = st.sampled_from(
    ["llama-server -m /x.gguf --port ${PORT}", "vllm serve o/n", "docker run x", "'", "${PORT}", "${a}", "-c", "0",
     "--", "env A=b vllm serve", "python3 -m vllm.entrypoints.openai.api_server --model o/n", "A=b", "none", "/health",
     "a", "m"]
)  # fmt: skip
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | _words | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | st.just("members"), inner, max_size=3),
    max_leaves=6,
)
_model_keys = st.sampled_from(
    ["cmd", "cmdStop", "proxy", "checkEndpoint", "ttl", "unloadTimeout", "env", "aliases", "useModelName", "filters",
     "concurrencyLimit", "macros", "name"]
)  # fmt: skip
_file_keys = st.sampled_from(
    ["groups", "hooks", "routing", "macros", "apiKeys", "healthCheckTimeout", "globalTTL", "matrix", "x"]
)


@given(
    st.dictionaries(
        st.sampled_from(["m", "n"]), st.dictionaries(_model_keys, _values, max_size=5) | _values, max_size=2
    ),
    st.dictionaries(_file_keys, _values, max_size=3),
)
@settings(max_examples=100, deadline=None)
def test_any_llama_swap_file_is_imported_or_refused(models: dict[str, Any], rest: dict[str, Any]) -> None:
    text = yaml.safe_dump({"models": models, **rest})
    if any(isinstance(model, dict) and isinstance(model.get("cmd"), str) for model in models.values()):
        assert all(problem.line for problem in _problems(import_llama_swap(text)))
    else:
        with pytest.raises(ConfigError, match="no model has a cmd"):
            import_llama_swap(text)


def test_a_file_without_a_cmd_is_no_llama_swap_file() -> None:
    with pytest.raises(ConfigError, match="no model has a cmd: this is no llama-swap file"):
        import_llama_swap("models: {qwen: {variants: {q8: {engine: llama.cpp}}}}")


def _problems(imported: Imported) -> tuple[Problem, ...]:
    try:
        return parse_config(imported.text, file=_FILE, env=_ENV).warnings
    except ConfigError as error:
        return error.problems
