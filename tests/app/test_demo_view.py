"""What the demo prints, as whole text."""

from __future__ import annotations

from inline_snapshot import snapshot

from gearshift.app.demo_tour import Leg
from gearshift.app.demo_view import swap_table

SWAP = {"stop_s": 0.035, "memory_s": 0.001, "load_s": 30.5, "probe_s": 0.699, "overhead_s": 0.021, "total_s": 31.0}


def test_the_table_of_swaps_says_what_its_columns_mean_and_fits_80_columns() -> None:
    first = Leg("smollm2-135m:plain", 0.396, 138.0, 96, "one", queued_s=0.0, swap={"load_s": 0.221, "total_s": 0.3})
    legs = [first, Leg("smollm2-135m:ngram", 31.119, 16.2, 96, "one", queued_s=0.038, swap=SWAP)]
    table = swap_table([*legs, Leg("smollm2-135m:vllm", 0.2, None, None, "", error="no engine")])
    assert table == snapshot("""\
SWAP            QUEUE   STOP   MEM    LOAD   PROBE   OURS   TOKEN     ALL  TOK/S
start -> plain   0 ms      -     -  221 ms       -      -   96 ms  396 ms    138
plain -> ngram  38 ms  35 ms  1 ms  30.5 s  699 ms  21 ms  119 ms  31.1 s     16
ngram -> vllm       -      -     -       -       -      -       -  200 ms      -
smollm2-135m:vllm failed: no engine

QUEUE: the request waits, while the old engine ends (STOP) and what it held is
free again (MEM). LOAD and PROBE: the new one starts and answers. OURS: what
Gearshift added to that. TOKEN: from there to the first token. ALL: the
client's wait for it. TOK/S: after it.\
""")
    assert max(map(len, table.splitlines())) <= 80
