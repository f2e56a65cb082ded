"""What differs between vLLM versions 0.22 to 0.33 for memory; reference: docs/planner.md, "vLLM by version"."""

from __future__ import annotations

import re
from dataclasses import dataclass

NEWEST = (0, 33)
OLDEST = (0, 22)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class VllmRules:
    """The rules of one version."""

    version: tuple[int, int]
    known: bool  # inside the range the formulas were checked against
    name: str = ""  # as it was given

    @property
    def null_block_counts(self) -> bool:
        """The start-up check keeps the null block back (0.29+); at run time every version does."""
        return self.version >= (0, 29)

    @property
    def loads_gguf(self) -> bool:
        """GGUF loading is built in (up to 0.23)."""
        return self.version <= (0, 23)

    @property
    def async_by_default(self) -> bool:
        return self.version >= (0, 26)

    @property
    def caches_hybrid_prefixes(self) -> bool:
        """Prefix caching is on for hybrids unless switched off (0.28+)."""
        return self.version >= (0, 28)

    @property
    def align_limits_block(self) -> bool:
        """Align mode refuses a block larger than max_num_batched_tokens (up to 0.26)."""
        return self.version <= (0, 26)

    @property
    def has_all_mode(self) -> bool:
        """The mamba cache mode "all" exists (up to 0.31)."""
        return self.version <= (0, 31)

    @property
    def mamba_takes_all(self) -> bool:
        """Prefix caching puts Mamba models in the cache mode "all" unless told otherwise (up to 0.27)."""
        return self.version <= (0, 27)

    @property
    def rounds_to_backends(self) -> bool:
        """Block sizes are rounded to all attention backends' kernel blocks (0.32+); their lcm is the kernel block."""
        return self.version >= (0, 32)

    @property
    def scales_yarn_itself(self) -> bool:
        """The limit is what YaRN reaches from its original length (up to 0.31); later the config has to state it."""
        return self.version <= (0, 31)

    @property
    def may_checkpoint(self) -> bool:
        """FlashInfer's GDN prefill may add a checkpoint block per state group (0.33+); no log proves it yet."""
        return self.version >= (0, 33)


def vllm_rules(version: str | None) -> VllmRules:
    """Rules for a version string such as ``0.27.1`` or ``0.28.1rc0``; None = the newest known.

    A build of the development branch (``0.1.dev20058``) does not say what it is newer than: it gets the newest rules.
    """
    if version is None:
        return VllmRules(NEWEST, known=True, name=f"{NEWEST[0]}.{NEWEST[1]}")
    match = _VERSION.match(version)
    if match is None or version.removeprefix("v").startswith("0.1.dev"):
        return VllmRules(NEWEST, known=False, name=version)
    parsed = (int(match[1]), int(match[2]))
    return VllmRules(parsed, known=OLDEST <= parsed <= NEWEST, name=version)


def is_vllm_version(text: str) -> bool:
    """Whether a text begins as a version of vLLM does."""
    return _VERSION.match(text) is not None
