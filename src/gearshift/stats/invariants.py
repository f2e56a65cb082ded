"""What must hold of any result, ours or imported. ``ok`` is None where the figures to judge it are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant's outcome, with the figures that decided it."""

    name: str
    ok: bool | None
    detail: str


def completed_gt_0(completed: int | None) -> Check:
    """At least one request succeeded; a file of failures has latencies of 0."""
    if completed is None:
        return _unknown("completed_gt_0", "completed requests")
    return Check("completed_gt_0", completed > 0, f"{completed} completed")


def in_flight_le_concurrency(most: float | None, limit: int | None) -> Check:
    """No more requests in flight than the stated limit."""
    name = "in_flight_le_concurrency"
    if most is None or limit is None:
        return _unknown(name, "most in flight, or the limit")
    return Check(name, most <= limit, f"{most:g} in flight at a limit of {limit}")


def peak_ge_mean(peak: float | None, mean: float | None) -> Check:
    """A peak rate below the mean rate counts something else, such as chunks for tokens."""
    if peak is None or mean is None:
        return _unknown("peak_ge_mean", "peak or mean throughput")
    return Check("peak_ge_mean", peak >= mean, f"peak {peak:.4g}, mean {mean:.4g} tok/s")


def acceptance_sums_to_length(per_position: Sequence[float] | None, mean_length: float | None) -> Check:
    """1 + the sum of unconditional acceptance per position is the mean length of a step."""
    name = "acceptance_sums_to_length"
    if not per_position or mean_length is None:
        return _unknown(name, "acceptance per position, or the mean length")
    total = 1 + sum(per_position)
    return Check(name, _near(total, mean_length, 0.02), f"1 + sum = {total:.4g}, mean length {mean_length:.4g}")


def itl_over_length_is_tpot(gap_s: float | None, mean_length: float | None, tpot_s: float | None) -> Check:
    """The mean gap between chunks over the tokens in one is the time per token; without speculation the length is 1."""
    name = "itl_over_length_is_tpot"
    if gap_s is None or tpot_s is None:
        return _unknown(name, "gap between chunks, or TPOT")
    found = gap_s / (mean_length or 1.0)
    detail = (
        f"gap {gap_s * 1e3:.4g} ms / length {mean_length or 1:.4g} = {found * 1e3:.4g} ms, TPOT {tpot_s * 1e3:.4g} ms"
    )
    return Check(name, _near(found, tpot_s, 0.05), detail)


def latency_is_ttft_plus_decode(
    e2e_s: float | None, ttft_s: float | None, tpot_s: float | None, tokens: float | None
) -> Check:
    """Means: end to end = TTFT + TPOT x (tokens - 1)."""
    name = "latency_is_ttft_plus_decode"
    if e2e_s is None or ttft_s is None or tpot_s is None or tokens is None:
        return _unknown(name, "one of e2e, TTFT, TPOT, tokens")
    found = ttft_s + tpot_s * (tokens - 1)
    return Check(name, _near(found, e2e_s, 0.1), f"TTFT + TPOT x (n - 1) = {found:.4g} s, end to end {e2e_s:.4g} s")


def tokens_reconcile(counts: Mapping[str, float | None]) -> Check:
    """Every source that counts tokens counts the same number, within half a percent."""
    known = {name: count for name, count in counts.items() if count is not None}
    if len(known) < 2:  # noqa: PLR2004 - one source agrees with itself
        return _unknown("tokens_reconcile", "a second source")
    detail = ", ".join(f"{name} {count:g}" for name, count in known.items())
    return Check("tokens_reconcile", _near(min(known.values()), max(known.values()), 0.005), detail)


def little(rate: float | None, e2e_s: float | None, concurrency: float | None) -> Check:
    """Request rate x mean time in the system = mean in flight, which a limit bounds (5 % for ramps and rounding)."""
    if rate is None or e2e_s is None or concurrency is None:
        return _unknown("little", "request rate, latency, or concurrency")
    found = rate * e2e_s
    return Check("little", found <= concurrency * 1.05, f"{found:.4g} in flight on average, limit {concurrency:g}")


def client_ttft_ge_server(client_s: float | None, server_s: float | None) -> Check:
    """The client cannot see the first token before the server sent it (0.1 ms for clocks)."""
    name = "client_ttft_ge_server"
    if client_s is None or server_s is None:
        return _unknown(name, "the server's TTFT")
    later_ms = (client_s - server_s) * 1e3
    detail = f"client {client_s * 1e3:.4g} ms, server {server_s * 1e3:.4g} ms, difference {later_ms:+.3g} ms"
    return Check(name, client_s >= server_s - 1e-4, detail)


def requests_are_ours(server: float | None, ours: int | None, failed: int = 0) -> Check:
    """The server finished as many requests as we saw end, or some of our ``failed`` ones too: nobody else was there."""
    name = "requests_are_ours"
    if server is None or ours is None:
        return _unknown(name, "the server's request count")
    detail = f"server {server:g}, ours {ours}" + (f" and {failed} that failed" if failed else "")
    return Check(name, ours <= round(server) <= ours + failed, detail)


def nothing_negative(figures: Mapping[str, float | None]) -> Check:
    """No count, time or rate is below zero."""
    known = {name: value for name, value in figures.items() if value is not None}
    if not known:
        return _unknown("nothing_negative", "figures")
    below = ", ".join(f"{name} {value:.4g}" for name, value in known.items() if value < 0)
    return Check("nothing_negative", not below, below or f"{len(known)} figures")


def percentiles_ascend(values: Mapping[str, float | None]) -> Check:
    """Percentiles, given in ascending order of their level, do not fall."""
    known = [value for value in values.values() if value is not None]
    if len(known) < 2:  # noqa: PLR2004 - one value is in order
        return _unknown("percentiles_ascend", "percentiles")
    detail = ", ".join(f"{name} {value:.4g}" for name, value in values.items() if value is not None)
    return Check("percentiles_ascend", known == sorted(known), detail)


def failing(checks: Iterable[Check]) -> tuple[str, ...]:
    """Names of the checks that failed."""
    return tuple(check.name for check in checks if check.ok is False)


def _near(left: float, right: float, share: float) -> bool:
    return abs(left - right) <= share * max(abs(left), abs(right))


def _unknown(name: str, missing: str) -> Check:
    return Check(name, None, f"not stated: {missing}")
