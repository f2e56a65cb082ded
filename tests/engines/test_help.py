"""Reading help texts: excerpts in the formats of both engines; the real binaries are in test_real.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.engine import Flag
from gearshift.domain.variant import EngineKind
from gearshift.engines import parse_help

LLAMACPP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
--rope-scaling {none,linear,yarn}       RoPE frequency scaling method
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
--no-host                               bypass host buffer
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, q8_0
                                        (default: f16)
-ts,   --tensor-split N0,N1,N2,...      fraction of the model to offload to each GPU
--poll <0...100>                        use polling level to wait for work

----- speculative params -----

--spec-draft-type-k, -ctkd, --cache-type-k-draft TYPE
                                        KV cache data type for K for the draft model
--spec-type none,draft-simple,draft-mtp,ngram-mod
                                        comma-separated list of types of speculative decoding to use
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
"""
ARGPARSE = """\
usage: api_server.py [-h] [--headless] [--host HOST]
                     [--kv-cache-dtype {auto,fp8}]

vLLM OpenAI-Compatible RESTful API server.

options:
  -h, --help            show this help message and exit
  --headless            Run in headless mode. (default: False)

Frontend:
  --api-key API_KEY [API_KEY ...]
                        If provided, the server will require one of these keys.
  --config-format ['auto', 'hf', 'mistral']
                        The format of the model config to load.
  --tool-call-parser {hermes,qwen3_coder} or name registered in --tool-parser-plugin
                        Select the tool call parser.
  --hf-token [HF_TOKEN]
                        The token to use.
  --kv-cache-dtype {auto,fp8}
                        Data type for kv cache storage.
  --collect-detailed-traces {all,model,None} [{all,model,None} ...]
                        Collect traces.
  --enable-expert-parallel, --no-enable-expert-parallel, -ep
                        Use expert parallelism.
  --gpu-memory-utilization GPU_MEMORY_UTILIZATION, --device-memory-utilization GPU_MEMORY_UTILIZATION
                        The fraction of GPU memory.
  --speculative-config SPECULATIVE_CONFIG, -sc SPECULATIVE_CONFIG
                        Speculative decoding configuration.
"""


@pytest.mark.parametrize(
    "flag",
    [
        Flag("ctx-size", aliases=("c",)),
        Flag("flash-attn", aliases=("fa",), choices=("on", "off", "auto")),
        Flag("rope-scaling", choices=("none", "linear", "yarn")),
        Flag(
            "kv-offload",
            aliases=("kvo", "nkvo", "no-kv-offload"),
            negations=("nkvo", "no-kv-offload"),
            takes_value=False,
        ),
        Flag("no-host", takes_value=False),
        Flag("cache-type-k", aliases=("ctk",), choices=("f32", "f16", "q8_0")),
        Flag("tensor-split", aliases=("ts",), repeatable=True),
        Flag("poll"),
        Flag("spec-draft-type-k", aliases=("ctkd", "cache-type-k-draft")),
        Flag("spec-type", choices=("none", "draft-simple", "draft-mtp", "ngram-mod"), repeatable=True),
    ],
    ids=lambda flag: flag.name,
)
def test_a_llamacpp_entry_is_read(flag: Flag) -> None:
    flags = parse_help("llama.cpp", "11434", LLAMACPP)
    assert [flags.flags[name] for name in (flag.name, *flag.aliases)] == [flag] * (1 + len(flag.aliases))


def test_flags_that_llamacpp_lists_only_to_refuse_are_not_flags() -> None:
    assert not {"draft", "draft-n", "draft-max"} & parse_help("llama.cpp", None, LLAMACPP).flags.keys()


@pytest.mark.parametrize(
    "flag",
    [
        Flag("headless", takes_value=False),
        Flag("api-key", repeatable=True),
        Flag("config-format"),
        Flag("tool-call-parser"),
        Flag("hf-token", value_optional=True),
        Flag("kv-cache-dtype", choices=("auto", "fp8")),
        Flag("collect-detailed-traces", choices=("all", "model", "None"), repeatable=True),
        Flag(
            "enable-expert-parallel",
            aliases=("no-enable-expert-parallel", "ep"),
            negations=("no-enable-expert-parallel",),
            takes_value=False,
        ),
        Flag("gpu-memory-utilization", aliases=("device-memory-utilization",)),
        Flag("speculative-config", aliases=("sc",)),
    ],
    ids=lambda flag: flag.name,
)
def test_an_argparse_entry_is_read(flag: Flag) -> None:
    flags = parse_help("vllm", "0.32.0", ARGPARSE)
    assert [flags.flags[name] for name in (flag.name, *flag.aliases)] == [flag] * (1 + len(flag.aliases))


def test_a_map_read_from_help_is_verified() -> None:
    flags = parse_help("vllm", "0.32.0", ARGPARSE)
    assert (flags.kind, flags.version, flags.verified) == ("vllm", "0.32.0", True)
    assert "help" not in flags.flags


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
def test_a_text_without_flags_is_refused_with_its_begin(kind: EngineKind) -> None:
    with pytest.raises(ValueError, match="Segmentation fault"):
        parse_help(kind, None, "Segmentation fault\n")


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
@given(text=st.text(max_size=200), cut=st.integers(0, 2000))
def test_no_text_breaks_the_reader_otherwise(kind: EngineKind, text: str, cut: int) -> None:
    for candidate in (text, f"options:\n  -{text}", f"-{text}", LLAMACPP[:cut] + text, ARGPARSE[:cut] + text):
        try:
            flags = parse_help(kind, None, candidate)
        except ValueError:
            continue
        assert all(flag.name for flag in flags.flags.values())
