"""The engine's log: standard output, a line at a time."""

import sys


def say(line: str) -> None:
    """Write one line and flush it. Raises BrokenPipeError when nobody reads any more."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
