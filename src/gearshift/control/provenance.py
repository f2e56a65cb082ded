"""What is told of a running variant: gathered beside the loop, without what is private."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gearshift.advice.provenance import Running, Witness
from gearshift.domain.provenance import Provenance, WeightFile
from gearshift.domain.redaction import redacted, redacted_text


class Telling:
    """Asks the witness in a thread, one question at a time: who asks meanwhile finds the files read."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._turn = asyncio.Lock()

    async def of(self, running: Running) -> Provenance:
        """The first answer may take as long as reading the variant's weights does."""
        async with self._turn:
            found = await asyncio.to_thread(self._witness.tell, running)
        return public(found)


def public(found: Provenance) -> Provenance:
    """Without secrets and the names of home folders."""
    weights = found.weights
    if weights is not None:
        weights = tuple(WeightFile(redacted_text(one.file), one.bytes, one.sha256) for one in weights)
    return replace(found, argv=redacted(found.argv), env=redacted(found.env), weights=weights)
