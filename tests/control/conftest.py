"""A control loop over a launcher without processes, built from real configuration text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gearshift.hardware import FakeMemory

from fakes.launcher import FakeLauncher
from gearshift.artifacts import read_model
from gearshift.config import parse_config
from gearshift.control import Control, Journal, Means, Ports, Preparation
from gearshift.domain.errors import GearshiftError
from gearshift.domain.launch import EngineInstall
from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.domain.settings import Settings
from gearshift.domain.variant import EngineRef


@dataclass
class ListSink:
    swaps: list[SwapRecord] = field(default_factory=list)
    requests: list[RequestRecord] = field(default_factory=list)

    def request(self, record: RequestRecord) -> None:
        self.requests.append(record)

    def swap(self, record: SwapRecord) -> None:
        self.swaps.append(record)


@dataclass
class Bench:
    """Everything a test of control looks at."""

    control: Control
    launcher: FakeLauncher
    preparation: Preparation
    sink: ListSink


def no_engine(ref: EngineRef) -> EngineInstall:
    if ref.kind == "command":
        return EngineInstall("command", None, (), Path("/"), managed=False)
    raise GearshiftError(f"{ref} is not installed", hint=f"gearshift engine install {ref.kind}")


def settings_of(text: str) -> Settings:
    return parse_config(text, file=None, env={}).settings


TWO = """
defaults: {min_resident: 0s, max_wait: 60s}
models:
  m:
    aliases: [em]
    variants:
      a: {engine: command, command: [serve-a, "${port}"], memory: 10GiB}
      b: {engine: command, command: [serve-b, "${port}"], memory: 10GiB}
"""

BenchMaker = Callable[[str], Bench]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[BenchMaker]:
    """Makes a control loop on a box with one 16 GiB device; every one is closed at the end."""
    async with AsyncExitStack() as stack:

        def make(text: str = TWO) -> Bench:
            memory = FakeMemory.with_gpus(1, 16 * 1024**3)
            preparation = Preparation(
                Ports(no_engine, read_model), devices=memory.devices(), env={}, logs=tmp_path, sleep_ram=64 * 1024**3
            )
            settings = settings_of(text)
            launcher, sink = FakeLauncher(), ListSink()
            means = Means(launcher, preparation, memory, sink, Journal())
            control = Control(settings, preparation.world(settings), means)
            stack.push_async_callback(control.close, drain_s=0.0)
            return Bench(control, launcher, preparation, sink)

        yield make
