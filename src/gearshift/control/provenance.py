"""What is told of a running variant: gathered beside the loop, without what is private."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gearshift.advice.provenance import ProvenanceReader, Running
from gearshift.domain.provenance import Provenance, WeightFile
from gearshift.domain.redaction import redacted, redacted_text


class PublicProvenance:
    """Has it read in a thread, one at a time: whoever asks meanwhile finds the files read already."""

    def __init__(self, reader: ProvenanceReader) -> None:
        self._reader = reader
        self._turn = asyncio.Lock()

    async def of(self, running: Running) -> Provenance:
        """The first answer may take as long as reading the variant's weights does."""
        async with self._turn:
            found = await asyncio.to_thread(self._reader.read, running)
        return public(found)


def public(found: Provenance) -> Provenance:
    """Without secrets and the names of home folders."""
    weights = found.weights
    if weights is not None:
        weights = tuple(WeightFile(redacted_text(one.file), one.bytes, one.sha256) for one in weights)
    return replace(found, argv=redacted(found.argv), env=redacted(found.env), weights=weights)
