"""Keeping freed memory at hand, because giving it back is what makes large prompts slow.

A 400 KB body passes through several buffers of its size. glibc by default returns each to the kernel as soon as it is
freed, and every page of the next one is a fault again: measured, that was half of the time such a request takes.
"""

from __future__ import annotations

import ctypes
from typing import Final

# malloc.h; man 3 mallopt
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT: Final = 16 * 1024**2  # freed memory kept at the heap's top
_MAPPED_FROM: Final = 4 * 1024**2  # larger buffers are mapped and unmapped one by one as before


def keep_freed_memory() -> bool:
    """Let this process keep up to 16 MiB of freed memory; False where the C library has no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT) and mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM))
