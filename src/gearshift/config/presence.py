"""Whether a path is there, asked with a deadline: on a dead mount a stat never returns and cannot be interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

Presence = Literal["there", "absent", "silent"]

PATIENCE_S: Final = 3.0  # a disk that has to spin up may take as long; a network mount that lives answers sooner


def ask(path: Path) -> Presence:
    """As the file system says it, however long that takes; a path that no file system takes is absent."""
    try:
        path.stat()
    except (OSError, ValueError):
        return "absent"
    return "there"


class Inquiry:
    """Asks for paths in threads of its own. One that gets no answer is left behind, and not doubled while it waits."""

    def __init__(self, ask: Callable[[Path], Presence] = ask, patience_s: float = PATIENCE_S) -> None:
        self._ask = ask
        self._patience_s = patience_s
        self._waiting: dict[Path, threading.Thread] = {}

    def presence(self, path: Path) -> Presence:
        """Whether it is there; "silent" when nothing answers in time, at once when that is known already."""
        if (waiting := self._waiting.get(path)) and waiting.is_alive():
            return "silent"
        answers: list[Presence] = []
        # A daemon: a thread in an endless system call must not keep the process from ending.
        thread = threading.Thread(target=lambda: answers.append(self._ask(path)), name=f"look for {path}", daemon=True)
        thread.start()
        thread.join(self._patience_s)
        if answers:
            return answers[0]
        self._waiting[path] = thread
        return "silent"


presence = Inquiry().presence
