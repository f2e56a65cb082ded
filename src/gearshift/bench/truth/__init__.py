"""A server of known truth: it answers on an exact schedule, so that a load generator can be checked against it.

Run it with ``python -m gearshift.bench.truth``. It is also a fake engine for tests: caches, counters and dialects of
vLLM and llama-server, all of them stated by a `Script`.
"""

from gearshift.bench.truth.script import Script
from gearshift.bench.truth.server import TruthServer, serve

__all__ = ["Script", "TruthServer", "serve"]
