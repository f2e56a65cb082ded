#!/usr/bin/env python3
"""A scripted engine: an OpenAI-ish server on the standard library alone, with every fault a supervisor must survive.

Run it with ``python -S -E fake_engine.py --port N`` (40 ms to its first line); ``engine_argv.py`` builds such an argv.
``--help`` lists the script; tests read what it saw at ``GET /__seen`` and change the script at ``POST /__set``.
"""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib costs 10 ms here

from fakes.engine.main import main  # noqa: E402 - the line above makes the import possible

if __name__ == "__main__":
    main(sys.argv[1:])
