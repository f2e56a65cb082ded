"""An engine for a `command` variant: the truth server, with flags that name files as a real engine's do."""

from __future__ import annotations

import argparse
import asyncio

from gearshift.bench.truth.script import Script
from gearshift.bench.truth.server import serve


async def _main(port: int, model: str) -> None:
    async with serve(Script(ttft_s=0.01, step_s=0.002, model=model), port=port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", default="m")
    for flag in ("--model", "--chat-template", "--api-key"):
        parser.add_argument(flag)
    given = parser.parse_args()
    asyncio.run(_main(given.port, given.alias))
