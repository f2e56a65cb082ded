"""The start-up log: plausible stages of one engine or the other, a root cause in the middle, noise after it."""

import time
from collections.abc import Sequence

from fakes.engine import process
from fakes.engine.options import Options
from fakes.engine.say import say

STAGES = {
    "llama.cpp": (
        "build: 11434 (fake) with cc for x86_64-linux-gnu",
        "srv    load_model: loading model 'fake.gguf'",
        "load_tensors: loading model tensors, this can take a while... (mmap = true)",
        "load_tensors:   CPU_Mapped model buffer size =    94.72 MiB",
        "llama_context: constructing llama_context",
        "llama_kv_cache:        CPU KV buffer size =    45.00 MiB",
        "srv          init: initializing slots, n_slots = 1",
        "main: model loaded",
    ),
    "vllm": (
        "(APIServer pid=1) INFO 11-30 01:00:00 [api_server.py:100] vLLM API server version 0.32.0",
        "(EngineCore pid=2) INFO 11-30 01:00:01 [core.py:100] Initializing a V1 LLM engine (v0.32.0)",
        "(EngineCore pid=2) INFO 11-30 01:00:02 [default_loader.py:300] Loading weights took 0.50 seconds",
        "(EngineCore pid=2) INFO 11-30 01:00:03 [kv_cache_utils.py:1000] GPU KV cache size: 32,768 tokens",
        "(EngineCore pid=2) INFO 11-30 01:00:04 [core.py:200] init engine took 1.00 s (compilation: 0.10 s)",
        "(APIServer pid=1) INFO:     Application startup complete.",
    ),
}  # fmt: skip
NOISE = {
    "llama.cpp": (
        "llama_model_load_from_file_impl: failed to load model",
        "srv    load_model: failed to load model, 'fake.gguf'",
        "srv    operator(): operator(): cleaning up before exit...",
        "main: exiting due to model loading error",
    ),
    "vllm": (
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "api_server.py", line 1, in run_server',
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    ),
}


def load(options: Options) -> None:
    """Print the stages over ``load_seconds``; crash or fall silent half-way if the script says so."""
    stages = STAGES[options.style]
    half = len(stages) // 2
    _say(stages[:half], options.load_seconds / 2)
    for number in range(options.log_flood):
        say(f"flood {number} " + "x" * 80)
    if options.crash_at_load:
        _say((options.crash_at_load, *NOISE[options.style]), 0)
        process.die(options.exit_code)
    while options.stall_at_load:
        time.sleep(0.05)
    _say(stages[half:], options.load_seconds / 2)


def _say(lines: Sequence[str], seconds: float) -> None:
    for line in lines:
        say(line)
        time.sleep(seconds / len(lines))
