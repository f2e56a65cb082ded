"""Exit statuses, the same for every verb."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a shell script may rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # wrong arguments, or a configuration that cannot be used
    TIMEOUT = 124  # as timeout(1) says it
    INTERRUPTED = 130  # 128 + SIGINT
