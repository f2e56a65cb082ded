"""A launcher on a state folder of its own, and launch specs that run the fake engine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.engine_argv import fake_engine_argv
from fakes.log_fold import MarkedLog
from gearshift.domain.device import Device
from gearshift.domain.launch import Endpoint, LaunchSpec, StopRule
from gearshift.domain.paths import Paths, resolve_paths
from gearshift.domain.variant import ArgValue, Probe, Timing
from gearshift.hardware import FakeMemory
from gearshift.supervisor import LocalLauncher

GPU = "GPU-test-0"
SpecOf = Callable[..., LaunchSpec]


@pytest.fixture
def paths(gearshift_home: Path) -> Paths:
    return resolve_paths({"GEARSHIFT_HOME": str(gearshift_home)})


@pytest.fixture
def memory() -> FakeMemory:
    return FakeMemory((Device(GPU, 0, "Test GPU", 24 * 1024**3),))


@pytest.fixture
async def launcher(paths: Paths, memory: FakeMemory) -> AsyncIterator[LocalLauncher]:
    async with LocalLauncher(paths, memory) as launcher:
        yield launcher


@pytest.fixture
def spec_of(launcher: LocalLauncher) -> SpecOf:
    """``spec_of(probe=..., timing={...}, load_seconds=0.1)``: known keywords go to the spec, the rest to the engine."""

    def build(*, timing: dict[str, Any] | None = None, grace_s: float = 5.0, **flags: Any) -> LaunchSpec:
        port = launcher.free_port()
        known = {name: flags.pop(name) for name in tuple(flags) if name in LaunchSpec.__dataclass_fields__}
        engine: dict[str, ArgValue] = flags
        spec = LaunchSpec(
            variant="fake:a",
            argv=fake_engine_argv(port, **engine),
            env=dict(os.environ),
            endpoint=Endpoint(f"http://127.0.0.1:{port}", "127.0.0.1", port),
            served_name="fake",
            log=MarkedLog(),
            probe=Probe(),
            stop=StopRule(grace_s=grace_s),
            timing=Timing(
                **{"load_timeout_s": 20.0, "probe_timeout_s": 5.0, "memory_timeout_s": 0.3, **(timing or {})}
            ),
            devices=(GPU,),
        )
        return replace(spec, **known)

    return build
