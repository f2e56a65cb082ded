"""A control loop over a launcher without processes, built from real configuration text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from fakes.launcher import FakeLauncher
from gearshift.advice.calibrations import Calibrations
from gearshift.artifacts.model import read_model
from gearshift.config import parse_config
from gearshift.control import Control, Dependencies, Journal, Lessons, Lookups, Preparation
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.domain.settings import Settings
from gearshift.domain.variant import EngineRef
from gearshift.hardware import FakeMemory


@dataclass
class ListSink:
    swaps: list[SwapRecord] = field(default_factory=list)
    requests: list[RequestRecord] = field(default_factory=list)

    def request(self, record: RequestRecord) -> None:
        self.requests.append(record)

    def swap(self, record: SwapRecord) -> None:
        self.swaps.append(record)


@dataclass
class Harness:
    """Everything a test of control looks at."""

    control: Control
    launcher: FakeLauncher
    preparation: Preparation
    sink: ListSink
    lessons: Lessons
    asked: list[EngineRef]  # engines that were looked for
    memory: FakeMemory


def any_engine(ref: EngineRef) -> EngineInstall:
    """Every engine but llama.cpp is installed."""
    if ref.kind == "llama.cpp":
        raise GearshiftError(f"{ref} is not installed", hint=f"gearshift engine install {ref.kind}")
    return EngineInstall(ref.kind, "0.32.0", ("vllm", "serve"), Path("/opt/vllm"), managed=False)


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


class MakeControl(Protocol):
    def __call__(self, text: str = TWO) -> Harness: ...


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeControl]:
    """Makes a control loop on a box with one 16 GiB device; every one is closed at the end."""
    async with AsyncExitStack() as stack:

        def build(text: str = TWO) -> Harness:
            memory = FakeMemory.parse("1x16GiB")
            calibrations = Calibrations(tmp_path / "calibrations.json")
            asked: list[EngineRef] = []

            def find_engine(ref: EngineRef) -> EngineInstall:
                asked.append(ref)
                return any_engine(ref)

            preparation = Preparation(
                Lookups(find_engine, read_model, calibrations.of),
                devices=memory.devices(),
                env={},
                logs=tmp_path,
                sleep_ram=64 * 1024**3,
            )
            settings = settings_of(text)
            launcher, sink = FakeLauncher(), ListSink()
            journal = Journal()
            lessons = Lessons(memory, preparation, calibrations, journal)
            dependencies = Dependencies(launcher, preparation, lessons, sink, journal)
            control = Control(settings, preparation.world(settings), dependencies)
            stack.push_async_callback(control.close, drain_s=0.0)
            return Harness(control, launcher, preparation, sink, lessons, asked, memory)

        yield build
