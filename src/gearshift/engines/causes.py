"""Known causes of failed starts: what the line means and what to change."""

from __future__ import annotations

import re
from collections.abc import Callable

from gearshift.domain.errors import Failure

Fix = str | Callable[[re.Match[str]], str]

_MEMORY = "lower context, parallel or ubatch-size, use a smaller kv_dtype, or free the memory other processes hold"
_TORCH_MEMORY = "lower context and with it kv_bytes, or max-num-batched-tokens, or free what other processes hold"
_OTHER_CHECKPOINT = "a separate draft model must be made for this very checkpoint, or set speculation to off"
_WEIGHTS = "check the variant's weights: the path, and that the download is complete"


def _context_too_long(match: re.Match[str]) -> str:
    longest = f"set context to {match['longest']} or less, or " if match["longest"] else ""
    return f"{longest}give the cache at least {match['needed']} GiB per GPU (kv_bytes)"


def _removed_flag(match: re.Match[str]) -> str:
    return f"remove --{match[1]} from args and write {match[2].strip()}"


def _other_shape(match: re.Match[str]) -> str:
    """A tensor's shape in the file and the one the engine built, whatever each engine calls them."""
    return (
        f"a tensor is {_sides(match['stored'])} in the file where the engine built {_sides(match['built'])}: "
        f"{_OTHER_CHECKPOINT}; without a draft model config.json, or its list of modules left unquantized, is of "
        "another release than the weights"
    )


def _sides(shape: str) -> str:
    """``[5120, 128]`` or llama.cpp's four sides, the last of which are 1, as ``5120 x 128``."""
    sides = re.findall(r"\d+", shape)
    while len(sides) > 1 and sides[-1] == "1":
        sides.pop()
    return " x ".join(sides)


def _other_vocabulary(match: re.Match[str]) -> str:
    target, draft = match["target"], match["draft"]
    return f"use a draft model with the target's {target} tokens (this one has {draft}), or set speculation to off"


_SHAPE = r"\(?(?:torch\.Size\()?\[(?P<{}>[\d, ]*)\]\)*"
_KNOWN: tuple[tuple[re.Pattern[str], Fix], ...] = tuple(
    (re.compile(pattern), fix)
    for pattern, fix in (
        # vLLM
        (
            r"max seq len \(\d+\), \((?P<needed>[\d.]+) GiB KV cache is needed(?:.*model length is (?P<longest>\d+))?",
            _context_too_long,
        ),
        (
            r"No available memory for the cache blocks",
            "the weights leave no room for a cache: raise gpu-memory-utilization, or take more GPUs or smaller weights",
        ),
        (r"torch(?:\.cuda)?\.OutOfMemoryError|torch\.AcceleratorError: .*out of memory", _TORCH_MEMORY),
        (
            r"Free memory on device .* is less than desired",
            "stop what holds the GPU's memory, or lower args gpu-memory-utilization (kv_bytes then sizes the pool)",
        ),
        (
            r"Available memory on node .* less than (?:desired|requested)",
            "set kv_bytes to a size that fits the host's free memory",
        ),
        (
            r"'list' object has no attribute 'zero_'",
            "remove sleep from the variant: this version cannot wake this model",
        ),
        (r"exceeds available Mamba cache blocks \((\d+)\)", lambda match: f"set parallel to {match[1]} or less"),
        (
            r"block_size \((\d+)\) must be <= max_num_batched_tokens",
            lambda match: f"set args max-num-batched-tokens to {match[1]} or more",
        ),
        (r"greater than the derived max_model_len", "lower context to what the model was trained for"),
        (
            r"max_num_batched_tokens \((\d+)\) must be greater than or equal to max_num_seqs \((\d+)\)",
            lambda match: f"set parallel to {match[1]} or less, or args max-num-batched-tokens to {match[2]} or more",
        ),
        (
            r"attention heads \((\d+)\) must be divisible by tensor parallel size",
            lambda match: f"name as many gpus as divide {match[1]}",
        ),
        (
            r"larger than the number of available GPUs|World size \(\d+\)",
            "name no more gpus than the box has and CUDA_VISIBLE_DEVICES shows",
        ),
        (
            r"architectures? .*(?:not supported|failed to be inspected)|unknown model architecture",
            "this engine version does not know the model: install a newer one",
        ),
        (r"not appear to have a file named", _WEIGHTS),
        (r"[Tt]imed out waiting for engine", "raise env VLLM_ENGINE_READY_TIMEOUT_S and load_timeout"),
        (r"NCCL error|unhandled (?:cuda|system) error", "set env NCCL_P2P_DISABLE=1 where the cards have no P2P"),
        (r"Sleep mode is not supported", "remove sleep from the variant: this platform has no sleep mode"),
        (r"not a valid model identifier|Repo id must be|Invalid repository ID|is not a local folder", _WEIGHTS),
        (r"^Killed$", "the kernel ended it, most likely for want of RAM (journalctl -k): free some, or lower kv_bytes"),
        (r"double free or corruption|died unexpectedly", "a crash inside the engine; try without speculation first"),
        (
            r"unrecognized arguments: (.*)",
            lambda match: f"remove from args what this version does not take: {match[1]}",
        ),
        (r"argument (--\S+): (?:invalid|expected)", lambda match: f"correct {match[1]} in args"),
        (r"Synthetic acceptance not supported with CPU", "remove rejection_sample_method from speculative-config"),
        (rf"Attempted to load weight {_SHAPE.format('stored')} into parameter {_SHAPE.format('built')}", _other_shape),
        (
            rf"load weights of size {_SHAPE.format('stored')}\s*to a parameter of size {_SHAPE.format('built')}",
            _other_shape,
        ),
        (r"size of tensor a \((?P<built>\d+)\) must match the size of tensor b \((?P<stored>\d+)\)", _other_shape),
        (
            r"should have the same vocabulary size\.(?:.*?vocab_size=(?P<target>\d+).*?vocab_size=(?P<draft>\d+))",
            _other_vocabulary,
        ),
        (r"shape mismatch|shapes? cannot be|param\.size\(\) == loaded_weight\.size\(\)", _OTHER_CHECKPOINT),
        (r"^(?:Input should be|Extra inputs)", "correct the value or the key in args or speculation"),
        (r"Could not find nvcc|CUDA_HOME.*not set|nvcc: not found", "set CUDA_HOME to the CUDA toolkit's folder"),
        # llama.cpp
        (
            r"invalid argument: --?(no-mmap|mmap|mlock|direct-io)\b",
            "write args load-mode instead (none, mmap, mlock, dio)",
        ),
        (r"invalid argument: (\S+)", lambda match: f"remove {match[1]} from args: this build does not take it"),
        (r'"--?([\w-]+)": the argument has been removed\. use (.*)', _removed_flag),
        (r'error while handling argument "(\S+)"', lambda match: f"correct the value of {match[1]} in args"),
        (
            r"invalid magic|failed to (?:open|read)(?: GGUF file| magic)|failed to load model from|failed to open",
            _WEIGHTS,
        ),
        (r"has wrong shape; expected (?P<built>[\d, ]+), got (?P<stored>[\d, ]+)", _other_shape),
        (r"HTTPS is not supported", "fetch the weights yourself (gearshift pull): this build downloads nothing"),
        (r"doesn't contain MTP layers", "set speculation to off, or use weights that keep their MTP layers"),
        (r"does not support split buffers", "args split-mode row does not run on this device; write layer or tensor"),
        (
            r"key not found in model|missing tensor|tensor '\S+' not found|wrong number of tensors",
            "the file lacks what this build reads: fetch or convert it anew, or use the llama.cpp it was made for",
        ),
        (r"requires (?:Flash Attention|flash_attn)", "set args flash-attn to on, or use an unquantized kv_dtype"),
        (r"couldn't bind HTTP server socket|[Aa]ddress already in use", "another process holds the port; start again"),
        (r"offloaded (\d+)/(\d+) layers", _MEMORY),
        # both
        (r"[Oo]ut of memory|OutOfMemoryError|cudaMalloc failed|failed to allocate|unable to allocate", _MEMORY),
        (
            r"illegal memory access",
            "a crash inside the engine, seen with long drafts: draft 2 or 3 tokens, or set speculation to off",
        ),
        (r"CUDA error|no CUDA-capable device|CUDA driver version", "check the NVIDIA driver (nvidia-smi)"),
        (r"[Nn]o space left on device", "free disk space"),
        (r"[Pp]ermission denied", "check the owner and mode of the file"),
        (r"No such file or directory", _WEIGHTS),
        (r"No module named '?([\w.]+)", lambda match: f"install {match[1]} into the engine's environment"),
    )
)


def explain(cause: str, line: str) -> Failure:
    """A failure with ``cause`` in the engine's words, the verbatim ``line``, and the fix where one is known."""
    for pattern, fix in _KNOWN:
        if match := pattern.search(cause):
            return Failure(cause, line.rstrip("\r\n"), fix if isinstance(fix, str) else fix(match))
    return Failure(cause, line.rstrip("\r\n"), None)
