"""How much of the prompts came from a cache: of each request where the server says so, else of a whole trial."""

from __future__ import annotations

from collections.abc import Sequence

from gearshift.bench.sample import Sample
from gearshift.bench.trial import Trial


def cache_hit_share(trials: Sequence[Trial]) -> float | None:
    """Share of prompt tokens that came from cache: by the answers where all say so, else by the server's counters."""
    known = [(sample.cached, sample.prompt) for trial in trials for sample in trial.good]
    read = sum(prompt for cached, prompt in known if prompt is not None and cached is not None)
    if known and all(None not in found for found in known):
        return sum(cached or 0 for cached, _ in known) / read if read else None
    shares = [trial.counted.cache_hit_share for trial in trials if trial.counted is not None]
    found = [share for share in shares if share is not None]
    return sum(found) / len(found) if found else None


def cached_tokens(sample: Sample, trial: Trial, *, cold: bool) -> float | None:
    """Prompt tokens of one request that came from cache; by the trial's counters, they are every request's share.

    Where nothing tells, none did in a cell that is meant to be ``cold`` (it is flagged), and elsewhere it is unknown.
    """
    if sample.cached is not None:
        return sample.cached
    share = trial.counted.cache_hit_share if trial.counted is not None else None
    if share is not None and sample.prompt is not None:
        return share * sample.prompt
    return 0 if cold else None
