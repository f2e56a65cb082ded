"""How tests start the fake engine: its argv, and a `command` variant that runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from gearshift.domain.variant import ArgValue, EngineRef, Probe, Timing, Variant

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")


def fake_engine_argv(port: int | str, **flags: ArgValue) -> tuple[str, ...]:
    """Argv of a fake engine on ``port`` (``"${port}"`` in a variant's command).

    Keywords are its flags with underscores: ``load_seconds=0.2, ignore_sigterm=True, served=("a", "b")``; False and
    None leave a flag out.
    """
    argv = [sys.executable, "-S", "-E", str(FAKE_ENGINE), "--port", str(port)]
    for name, value in flags.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        values = value if isinstance(value, tuple) else (value,)
        argv += [part for item in values for part in ([flag] if item is True else [flag, str(item)])]
    return tuple(argv)


def fake_variant(
    model: str = "fake", name: str = "a", *, timing: Timing | None = None, probe: Probe | None = None, **flags: ArgValue
) -> Variant:
    """A `command` variant whose engine is the fake one; it serves the model's name unless ``served`` is set."""
    flags.setdefault("served", model)
    return Variant(
        model=model,
        name=name,
        engine=EngineRef("command"),
        command=fake_engine_argv("${port}", **flags),
        timing=timing or Timing(load_timeout_s=10, stall_timeout_s=5, stop_grace_s=2, min_resident_s=0),
        probe=probe or Probe("chat"),
        memory=0,
    )
