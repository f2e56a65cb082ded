"""What the demo prints: the table of swaps, and how to go on talking to the server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gearshift.app.demo_tour import Leg
from gearshift.domain.units import format_duration

_COLUMNS = ("SWAP", "QUEUE", "STOP", "MEM", "LOAD", "PROBE", "OURS", "TOKEN", "ALL", "TOK/S")
_LEGEND = """
QUEUE: the request waits, while the old engine ends (STOP) and what it held is
free again (MEM). LOAD and PROBE: the new one starts and answers. OURS: what
Gearshift added to that. TOKEN: from there to the first token. ALL: the
client's wait for it. TOK/S: after it."""


def swap_table(legs: Sequence[Leg]) -> str:
    """One row a swap, within 80 columns, and what the columns mean."""
    rows = [_COLUMNS, *(_row(before, leg) for before, leg in zip([None, *legs], legs, strict=False))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = [
        "  ".join(
            _aligned(cell, width, first=place == 0) for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    failed = [f"{leg.variant} failed: {leg.error}" for leg in legs if not leg.ok]
    return "\n".join([*lines, *failed, _LEGEND])


def _row(before: Leg | None, leg: Leg) -> tuple[str, ...]:
    name = leg.variant.partition(":")[2]
    swap = f"{before.variant.partition(':')[2] if before else 'start'} -> {name}"
    timed = [_seconds(leg.swap.get(key)) for key in ("stop_s", "memory_s", "load_s", "probe_s", "overhead_s")]
    rate = f"{leg.decode_tok_s:.0f}" if leg.decode_tok_s else "-"
    return (swap, _seconds(leg.queued_s), *timed, _seconds(leg.first_token_s), _seconds(leg.answer_s), rate)


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_duration(max(0.0, value))


def _aligned(cell: str, width: int, *, first: bool) -> str:
    return cell.ljust(width) if first else cell.rjust(width)


def instructions(url: str, config: Path, home: Path, variants: Sequence[str]) -> str:
    """How to talk to the server that is left running."""
    return f"""
Gearshift is listening on {url} with {", ".join(variants)}.

  GEARSHIFT_HOME={home} gearshift ps
  GEARSHIFT_HOME={home} gearshift run {variants[0]} "Hello"
  curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\
       -d '{{"model": "{variants[-1]}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'

Open WebUI: add an OpenAI connection to {url}/v1 with any key.
Configuration: {config}
Press Ctrl-C to end it."""
