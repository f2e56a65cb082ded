"""What `plan` prints for a person: the answer, a bar and a ledger for each device, and what else could be."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gearshift.advice.measured import Measured
from gearshift.advice.plan import PlanAnswer, Room, Speed
from gearshift.cli.memory_bar import Glyphs, glyphs_for, keys, memory_bar
from gearshift.domain.units import MIB, format_bytes
from gearshift.planner import DeviceLedger, Gpu, Line, PagedKv, SlotKv
from gearshift.planner.llamacpp_host import GROWING

WIDEST = 100  # a bar that is wider says no more
_LEVERS = 5
_SMALL = MIB  # a line below this is a rounding
_WHOLE = 100  # GB/s; below it a digit more tells boxes apart
_UNKNOWN = "unknown"
_VERDICT = {True: ("fits", "bold green"), False: ("does not fit", "bold red"), None: ("cannot be told", "bold yellow")}


Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is planned, as the first line names it."""

    name: str
    engine: str
    version: str | None


def render(subject: Subject, answer: PlanAnswer, *, width: int | None = None, glyphs: Glyphs | None = None) -> str:
    """The whole answer as text with colours, as wide as the terminal; whoever prints it may strip them."""
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="standard", width=width, highlight=False, emoji=False
    )
    console.width = min(console.width, WIDEST)
    drawn_with = glyphs or glyphs_for(sys.stdout.encoding)
    with console.capture() as captured:
        for part in _parts(subject, answer, console.width, drawn_with):
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")


def _parts(subject: Subject, answer: PlanAnswer, width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    plan = answer.plan
    yield _headline(subject, answer)
    yield from (Text.assemble(("refused: ", "red"), reason) for reason in plan.refusals)
    yield from _devices(plan.ledger, width, glyphs)
    yield from _host(plan.host)
    yield from _cache(answer)
    yield from _rooms(answer)
    yield from _levers(answer)
    yield from _speed(answer)
    yield from (Text.assemble(("note: ", "yellow"), note) for note in plan.notes)


def _host(lines: Sequence[Line]) -> Iterator[RenderableType]:
    """What lies in host memory from the start, and what grows there."""
    resting, growing = ([line for line in lines if (line.name in GROWING) is grows] for grows in (False, True))
    told = {"host memory beside the cards": resting, "host memory that fills as it serves, at most": growing}
    named = [f"{what}: {found}" for what, of in told.items() if (found := _named(of))]
    if named:
        yield Text("\n" + "\n".join(named))


def _headline(subject: Subject, answer: PlanAnswer) -> Text:
    verdict, style = _VERDICT[answer.plan.fits]
    engine = f"{subject.engine} {subject.version}" if subject.version else subject.engine
    context = f", {answer.plan.context:,} tokens{_apart(answer)}" if answer.plan.context else ""
    doubt = f" ({answer.doubt})" if answer.doubt else ""
    return Text.assemble((f"{verdict}{doubt}", style), f": {subject.name} on {engine}{context}")


def _apart(answer: PlanAnswer) -> str:
    """Where slots do not share a cache, a request has its part of the context that was asked for."""
    kv = answer.plan.kv
    return f" in each of {kv.streams} slots" if isinstance(kv, SlotKv) and kv.streams > 1 else ""


def _devices(ledgers: Sequence[DeviceLedger], width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    """Each device once; equal ones together."""
    groups: list[list[DeviceLedger]] = []
    for ledger in ledgers:
        same = [
            group for group in groups if (group[0].lines, group[0].total_bytes) == (ledger.lines, ledger.total_bytes)
        ]
        same[0].append(ledger) if same else groups.append([ledger])
    for group in groups:
        yield from _device(group, width, glyphs)


def _device(group: Sequence[DeviceLedger], width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    ledger = group[0]
    total = _UNKNOWN if ledger.total_bytes is None else format_bytes(ledger.total_bytes)
    names = ledger.device if len(group) == 1 else f"each of {', '.join(one.device for one in group)}"
    yield Text(f"\n{names}: {format_bytes(ledger.planned_bytes)} of {total}", style="bold")
    yield memory_bar([line.bytes for line in ledger.lines], ledger.total_bytes, width, glyphs)
    table = _grid("left", "left", "right", "left")
    for key, line in zip(keys(len(ledger.lines), glyphs), ledger.lines, strict=True):
        table.add_row(key, line.name, format_bytes(line.bytes), _certainty(line))
    if ledger.total_bytes is not None:
        table.add_row(*_rest(ledger, ledger.total_bytes, glyphs))
    yield _indented(table)


def _certainty(line: Line) -> str:
    error = f" +- {format_bytes(line.error_bytes)}" if line.error_bytes else ""
    return f"{line.kind}{error}"


def _rest(ledger: DeviceLedger, total: int, glyphs: Glyphs) -> tuple[str, str, str, str]:
    spare = total - ledger.planned_bytes
    error = f"+- {format_bytes(ledger.error_bytes)} in all" if ledger.error_bytes else ""
    return (
        (glyphs.free, "free", format_bytes(spare), error)
        if spare >= 0
        else ("", "too much", format_bytes(-spare), error)
    )


def _named(lines: Sequence[Line]) -> str:
    return ", ".join(f"{line.name} {format_bytes(line.bytes)}" for line in lines if line.bytes >= _SMALL)


def _cache(answer: PlanAnswer) -> Iterator[RenderableType]:
    kv = answer.plan.kv
    rows = list(_paged(answer) if isinstance(kv, PagedKv) else _slots(kv) if kv else ())
    if rows:
        yield Text("\ncache", style="bold")
        table = _grid("left", "left")
        for name, value in rows:
            table.add_row(name, value)
        yield _indented(table)


def _paged(answer: PlanAnswer) -> Iterator[tuple[str, str]]:
    plan, kv = answer.plan, answer.plan.kv
    if not isinstance(kv, PagedKv):
        return
    kind = "exact" if kv.exact else "modelled"
    yield "blocks", f"{kv.block_size:,} tokens, {kv.bytes_per_block:,} bytes each ({kind})"
    yield (
        "one request",
        f"{kv.blocks_per_request:,} blocks; least pool {kv.min_bytes:,} bytes, safe {kv.recommended_bytes:,}",
    )
    if plan.kv_bytes is None or kv.blocks is None or kv.concurrency is None:
        yield "pool", "unknown: give --kv-bytes, or a card and weights that are here"
        return
    yield "pool", f"{plan.kv_bytes:,} bytes a device, {kv.blocks:,} blocks"
    yield "longest request", _longest(kv.max_context, answer)
    yield (
        "its log says",
        f"{kv.tokens:,} tokens, {kv.concurrency:.2f}x (times the whole context, not a length to ask for)",
    )


def _slots(kv: SlotKv | PagedKv) -> Iterator[tuple[str, str]]:
    if not isinstance(kv, SlotKv):
        return
    shared = "one cache for all slots" if kv.streams == 1 else f"{kv.streams} slots apart"
    yield "attention", f"{format_bytes(kv.bytes)}: {kv.cells:,} cells, {shared}, {kv.bytes_per_token:,} bytes a token"
    if kv.draft_bytes:
        yield "draft head", format_bytes(kv.draft_bytes)
    if kv.state_bytes:
        yield "recurrent state", f"{format_bytes(kv.state_bytes)}: {kv.state_rows} rows"


def _rooms(answer: PlanAnswer) -> Iterator[RenderableType]:
    rooms = answer.rooms
    if not rooms:
        return
    yield Text("\nwhat would fit", style="bold")
    table = _numbers(len(rooms))
    table.add_row("", *(_cards(room) for room in rooms))
    table.add_row("fits", *({True: "yes", False: "no", None: _UNKNOWN}[room.fits] for room in rooms))
    table.add_row("longest context", *(_longest(room.longest_context, answer) for room in rooms))
    for length in dict.fromkeys(length for room in rooms for length, _ in room.at_once):
        table.add_row(f"at once, {length:,} tokens each", *(_count(dict(room.at_once).get(length)) for room in rooms))
    yield _indented(table)


def _cards(room: Room) -> str:
    return "1 device" if room.cards == 1 else f"{room.cards} of these"


def _longest(tokens: int | None, answer: PlanAnswer) -> str:
    """Where more memory would not help, that it is the model which ends there."""
    bound = " (trained length)" if tokens is not None and tokens == answer.trained_context else ""
    return f"{_count(tokens)}{bound}"


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"


def _levers(answer: PlanAnswer) -> Iterator[RenderableType]:
    """A pool of vLLM's stays as large as it was asked to be, so a lever counts what its smallest pool may shrink by."""
    if not answer.levers:
        return
    title = Text("\nwhat frees most on a device", style="bold")
    if isinstance(answer.plan.kv, PagedKv):
        title.append(", with kv_bytes cut to what one request needs", style="not bold")
    yield title
    table = _grid("right", "left")
    for lever in answer.levers[:_LEVERS]:
        table.add_row(format_bytes(lever.freed_bytes), lever.change)
    yield _indented(table)


def _speed(answer: PlanAnswer) -> Iterator[RenderableType]:
    speed = answer.speed
    if speed is None:
        if answer.no_ceiling is not None:
            yield Text(f"\nceiling: unknown, {answer.no_ceiling}")
        if answer.measured:
            yield _indented(Text(_measured(answer.measured, None)))
        return
    yield Text.assemble(
        ("\nceiling", "bold"), f" at depth {speed.question.depth:,}, batch {speed.question.batch}: ", _rate(speed)
    )
    yield _indented(Text(_terms(speed)))
    if card := speed.question.gpu:
        yield _indented(Text(_bandwidth(card)))
    yield _indented(Text(_measured(answer.measured, speed.measured_share)))


def _bandwidth(card: Gpu) -> str:
    """What the ceiling is computed from and where it is from; beside a data sheet's figure, what was measured."""
    told = f"{card.name}: {card.bandwidth_gbs:,.{0 if card.bandwidth_gbs >= _WHOLE else 1}f} GB/s ({card.source})"
    seen = card.measured
    if seen is None or seen.source == card.source:
        return told
    return f"{told}; {seen.bytes_s / 1e9:,.0f} GB/s, {seen.bytes_s / card.bandwidth:.0%} of it, {seen.source}"


def _rate(speed: Speed) -> str:
    if speed.acceptance_known:
        return f"{speed.bound.tok_s:,.1f} tok/s"
    least, most = speed.range_tok_s
    return f"{least:,.1f} tok/s with no draft accepted, {most:,.1f} with all (--acceptance says which)"


def _terms(speed: Speed) -> str:
    bound = speed.bound
    shares = ", ".join(f"{term} {share:.0%}" for term, share in bound.shares().items() if share)
    compute = "" if bound.compute_s is None else f"; compute {bound.compute_s * 1000:.2f} ms"
    return f"a step takes {bound.step_s * 1000:.2f} ms, bound by {bound.dominant}: {shares}{compute}"


def _measured(measured: Measured | None, share: float | None) -> str:
    if measured is None:
        return "measured: nothing yet (--measured TOK/S shows its share)"
    source = _source(measured)
    part = f", {share:.0%} of the ceiling{' there' if source else ''}" if share is not None else ""
    return f"measured: {measured.tok_s:,.1f} tok/s{source}{part}"


def _source(measured: Measured) -> str:
    """Where a figure of the store is from; what a person gave is from them."""
    if measured.result is None or measured.at is None:
        return ""
    day = datetime.fromtimestamp(measured.at, UTC).date()
    engine = f", engine {measured.engine_version}" if measured.engine_version else ""
    return f" at depth {measured.depth:,}, batch {measured.batch} (result {measured.result} of {day}{engine})"


def _grid(*justify: Side) -> Table:
    """Columns two spaces apart that wrap rather than cut, as deep as what stands below a heading."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for side in justify:
        table.add_column(justify=side, overflow="fold")
    return table


def _numbers(columns: int) -> Table:
    """A name and that many columns of figures."""
    right: Side = "right"
    return _grid("left", *(right for _ in range(columns)))


def _indented(table: RenderableType) -> RenderableType:
    return Padding(table, (0, 0, 0, 2), expand=False)
