"""What the tests of `plan` share: a command line of its flag form, and its document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from advice.plan_models import HYBRID, write_config

Gearshift = Callable[..., Result]
FLAGS = ("plan", "--engine", "vllm", "--engine-version", "0.27.1", "--kv-dtype", "fp8", "--max-num-seqs", "1")


def document(result: Result, status: int = 0) -> dict[str, Any]:
    assert (result.exit_code, result.stderr) == (status, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def plan_hybrid(gearshift: Gearshift, folder: Path, *more: str, status: int = 0) -> dict[str, Any]:
    """The published readings' model, in a pool of a 27B hybrid with prefix caching and fp8 KV."""
    weights = write_config(folder, HYBRID)
    flags = ("--weights", str(weights), "--context", "262144", "--prefix-caching", "on", "--json")
    return document(gearshift(*FLAGS, *flags, *more), status)
