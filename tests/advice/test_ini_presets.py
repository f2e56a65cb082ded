"""llama-server presets carried over."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from gearshift.advice.importers import import_ini_presets
from gearshift.config import parse_config
from gearshift.domain.errors import ConfigError
from gearshift.domain.variant import Speculation

_PRESETS = """\
version = 1

; for every model
[*]
c = 8192
n-gpu-layers = 99
jinja = true
stop-timeout = 20

[ggml-org/gemma-3-4b-it-GGUF:Q8_0]
ctx-size = 4096
no-mmap = true

[my model]
model = ./models/my.gguf
no-jinja = true
load-on-startup = true
spec-type = draft-mtp
spec-draft-n-max = 2
LLAMA_ARG_CACHE_TYPE_K = q8_0
LLAMA_ARG_CACHE_TYPE_V = q8_0
embeddings = off
new-flag = 3
dedup-cache-models = true
"""


def test_sections_become_models_and_keys_become_fields() -> None:
    assert import_ini_presets(_PRESETS).text == snapshot("""\
# Imported from llama-server presets.
# Not carried over as it was:
#   - ggml-org/gemma-3-4b-it-GGUF:Q8_0: no-mmap became load-mode: none; builds before June 2026 know the old
#     name only
#   - my model: llama.cpp has no flag new-flag that we know of; kept, to be judged by config check
#   - my model: dedup-cache-models has no counterpart
#   - models stay together wherever their memory fits, instead of up to --models-max at once

listen: 127.0.0.1:8080
models:
  ggml-org/gemma-3-4b-it-GGUF:Q8_0:
    variants:
      main:
        engine: llama.cpp
        weights: ggml-org/gemma-3-4b-it-GGUF:Q8_0
        context: 4096
        args:
          jinja: true
          load-mode: none
        stop_grace: 20s
  my model:
    variants:
      main:
        engine: llama.cpp
        weights: ./models/my.gguf
        context: 8192
        kv_dtype: q8_0
        speculation:
          method: mtp
          tokens: 2
        args:
          jinja: false
          embedding: false
          new-flag: 3
        stop_grace: 20s
preload: [my model]
""")


def test_what_comes_out_of_it_loads() -> None:
    text = import_ini_presets(_PRESETS).text
    loaded = parse_config(text, file=Path("/home/me/gearshift.yaml"), env={}).settings
    hub = loaded.variants()["ggml-org/gemma-3-4b-it-GGUF:Q8_0:main"]
    assert (hub.weights, hub.context) == ("ggml-org/gemma-3-4b-it-GGUF:Q8_0", 4096)
    own = loaded.variants()["my model:main"]
    assert own.weights == "/home/me/models/my.gguf"
    assert own.speculation == Speculation("mtp", 2)
    assert own.kv_dtype == "q8_0"
    assert own.args["jinja"] is False
    assert own.timing.stop_grace_s == 20.0
    assert loaded.preload == ("my model:main",)


def test_what_stands_above_every_section_is_named_as_lost() -> None:
    assert import_ini_presets("version = 1\nstray\n").notes[0] == "stray: stands above every section and was left out"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[a]\nx = 1\nx = 2\n",
            snapshot("presets.ini:3: [a]: key 'x' is given twice"),
        ),
        (
            "[a]\n[a]\n",
            snapshot("presets.ini:2: [a]: section [a] is given twice"),
        ),
        (
            "x\n[a]\ny\n  [b\n= 3\ny\n",
            snapshot("""\
presets.ini:4: [a]: neither a section nor a key
presets.ini:5: [a]: neither a section nor a key
presets.ini:6: [a]: key 'y' is given twice\
"""),
        ),
        ("[a]\n= 3\n", snapshot("presets.ini:2: [a]: neither a section nor a key")),
    ],
)
def test_what_is_no_ini_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_ini_presets(text, file=Path("presets.ini"))
    assert str(caught.value) == said


_words = st.sampled_from(
    ["*", "m", "model", "c", "ctx-size", "0", "true", "off", "=", "[", "]", ";", "#", "/x.gguf", "ngl"]
)


@given(st.lists(_words | st.sampled_from([" ", "\n", " = "]), max_size=30).map("".join))
@settings(max_examples=150, deadline=None)
def test_any_text_is_imported_or_refused(text: str) -> None:
    try:
        imported = import_ini_presets(text)
    except ConfigError as error:
        assert error.problems[0].line  # noqa: PT017 - either outcome is right, each has its own claim
    else:
        assert imported.text.startswith("# Imported from llama-server presets.")
