"""The environment a child gets: what it needs of ours by name, never the rest."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = frozenset({
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "TERM"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH", "CUDA_MODULE_LOADING"),
    *("LLAMA_CACHE", "GGML_CUDA_P2P", "LLAMA_ATTN_ROT_DISABLE", "MAX_JOBS", "CC", "CXX", "CUDAHOSTCXX"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("TRANSFORMERS_CACHE", "TRITON_CACHE_DIR", "TORCH_HOME", "KMP_AFFINITY"),
})  # fmt: skip
_PREFIXES = ("LC_", "HF_", "NVIDIA_", "NCCL_", "OMP_", "MKL_", "VK_", "HIP_", "ROCR_", "HSA_")
_ENGINE_PREFIXES = {"vllm": ("VLLM_", "TORCH", "PYTORCH_", "FLASHINFER_", "TRITON_")}


def child_environment(
    kind: str, base: Mapping[str, str], own: Mapping[str, str], variant: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a child: allowed names of ``base``, then the adapter's own, then the variant's.

    Not passed on: GEARSHIFT keys, API keys of other services, and LLAMA_ARG_*, which would change flags
    unseen. GPU selection is always the adapter's or the variant's.
    """
    prefixes = (*_PREFIXES, *_ENGINE_PREFIXES.get(kind, ()))
    allowed = {name: value for name, value in base.items() if name in _NAMES or name.startswith(prefixes)}
    return {**allowed, **own, **variant}


def visible_devices(devices: tuple[str, ...]) -> str:
    """CUDA_VISIBLE_DEVICES by UUID: NVML's and CUDA's index differ, the UUID does not. Empty hides every GPU."""
    return ",".join(device for device in devices if device != "cpu")
