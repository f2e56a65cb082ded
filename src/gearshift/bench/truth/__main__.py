"""``python -m gearshift.bench.truth '{"ttft_s": 0.05}' [PORT]``: serve a script until interrupted; prints the URL."""

from __future__ import annotations

import asyncio
import json
import sys

from gearshift.bench.truth.request import read_script
from gearshift.bench.truth.script import Script
from gearshift.bench.truth.server import serve


async def _main(fields: str, port: str = "0") -> None:
    async with serve(read_script(json.loads(fields), base=Script()), port=int(port)) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_main(*(sys.argv[1:] or ["{}"])))
    except KeyboardInterrupt:
        sys.exit(130)
