"""Which trials are run again, and how often: those in which this client was late."""

from __future__ import annotations


class Retries:
    """A cell's second chances: half as many as it has trials.

    Lateness judges the client and never the server's figures, so leaving a late trial out favours nobody. Where others
    take the cores too, one late trial would otherwise cost a whole comparison.
    """

    def __init__(self, trials: int) -> None:
        self._left = (trials + 1) // 2
        self._attempts = 1

    def again(self, *, late: bool) -> bool:
        """Whether to throw the trial away and run it once more. Without chances left a late trial stays."""
        if not (late and self._left):
            return False
        self._left -= 1
        self._attempts += 1
        return True

    def kept(self) -> int:
        """A trial stays: how many attempts it took. The next one begins at its first."""
        attempts, self._attempts = self._attempts, 1
        return attempts
