"""Edits of a request body: model name, filters, sampling defaults, the question for usage. All other bytes stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from gearshift.domain.variant import Variant
from gearshift.edge.errors import RefusedError
from gearshift.gateway.document import Document, Member, parse

_NULL = b"null"


Pieces = list[bytes | memoryview]
"""A body in parts: views of the client's bytes with edits between them. A large prompt is never copied for an edit."""


def rewrite(document: Document, variant: Variant, served_name: str, *, sampling: bool, ask_usage: bool) -> Pieces:
    """The body as the engine gets it.

    In this order: ``filters.drop`` takes keys out, sampling defaults fill what the client left silent (absent or
    null), ``filters.force`` overrules both. The model's name is never dropped or forced.
    """
    dropped = {key for key in variant.filters.drop if key != "model"}
    values: dict[str, bytes] = {}
    if sampling:
        values |= _silent(document, variant.sampling, dropped)
    values |= {key: msgspec.json.encode(value) for key, value in variant.filters.force.items() if key != "model"}
    if document.text("model") not in {None, served_name}:
        values["model"] = msgspec.json.encode(served_name)
    if ask_usage:
        values["stream_options"] = _with_usage(document)
    return splice(document, values, dropped)


def usage_is_open(document: Document) -> bool:
    """Whether asking for usage changes nothing but one more chunk: a stream whose client did not ask for it.

    ``continuous_usage_stats`` would put usage into every chunk, so such a request is left alone.
    """
    raw = document.raw.get("stream_options")
    if raw is None or bytes(raw) == _NULL:
        return True
    try:
        options = parse(bytes(raw))
    except RefusedError:
        return False  # not an object: the engine says so itself
    return not options.is_true("include_usage") and not options.is_true("continuous_usage_stats")


def splice(document: Document, values: Mapping[str, bytes], dropped: Collection[str]) -> Pieces:
    """Replace the values of named members (every duplicate), add absent ones in front, take the dropped out."""
    cuts = [*_replaced(document.members, values), *_removed(document.members, values, dropped)]
    missing = [key for key in values if key not in document.raw]
    if missing:
        kept = any(member.key in values or member.key not in dropped for member in document.members)
        cuts.append(_inserted(document.body, {key: values[key] for key in missing}, comma=kept))
    pieces: Pieces = []
    position = 0
    view = memoryview(document.body)
    for start, end, text in sorted(cuts):
        pieces += (view[position:start], text)
        position = end
    pieces.append(view[position:])
    return pieces


_Cut = tuple[int, int, bytes]


def _replaced(members: tuple[Member, ...], values: Mapping[str, bytes]) -> list[_Cut]:
    return [(member.value, member.end, values[member.key]) for member in members if member.key in values]


def _removed(members: tuple[Member, ...], values: Mapping[str, bytes], dropped: Collection[str]) -> list[_Cut]:
    """Spans to cut with exactly one comma each: a member goes up to the next one, a tail goes back to the last kept."""
    gone = [index for index, member in enumerate(members) if member.key in dropped and member.key not in values]
    if not gone:
        return []
    last_kept = max((index for index in range(len(members)) if index not in gone), default=-1)
    cuts = [(members[index].start, members[index + 1].start, b"") for index in gone if index < last_kept]
    if gone[-1] > last_kept:
        start = members[last_kept].end if last_kept >= 0 else members[0].start
        cuts.append((start, members[-1].end, b""))
    return cuts


def _inserted(body: bytes, values: Mapping[str, bytes], *, comma: bool) -> _Cut:
    at = body.index(b"{") + 1
    text = b",".join(b"%b:%b" % (msgspec.json.encode(key), value) for key, value in values.items())
    return at, at, text + b"," if comma else text


def _silent(document: Document, sampling: Mapping[str, object], dropped: Collection[str]) -> dict[str, bytes]:
    def is_silent(key: str) -> bool:
        raw = document.raw.get(key)
        return raw is None or key in dropped or bytes(raw) == _NULL

    return {key: msgspec.json.encode(value) for key, value in sampling.items() if is_silent(key)}


def _with_usage(document: Document) -> bytes:
    raw = document.raw.get("stream_options")
    if raw is None or bytes(raw) == _NULL:
        return b'{"include_usage":true}'
    return b"".join(splice(parse(bytes(raw)), {"include_usage": b"true"}, ()))
