"""`gearshift bench bandwidth`: how fast the memories of this box are, for ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from gearshift.advice.bandwidths import Bandwidths, host_device, measured_now, occupied
from gearshift.cli.box import our_pids
from gearshift.cli.exits import Exit
from gearshift.cli.output import table
from gearshift.cli.session import Session, pass_session
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.errors import GearshiftError
from gearshift.hardware import open_memory
from gearshift.planner import Gpu, MeasuredBandwidth, card_of


@dataclass(frozen=True, slots=True)
class DeviceBandwidth:
    """One device: what a table or its driver tells, and what was measured, or why it was not."""

    device: Device
    told: Gpu | None
    measured: MeasuredBandwidth | None = None
    refused: str | None = None

    @property
    def told_bytes_s(self) -> float | None:
        return self.told.bandwidth if self.told else None

    @property
    def measured_bytes_s(self) -> float | None:
        return self.measured.bytes_s if self.measured else None

    def to_json(self) -> dict[str, object]:
        """Bytes per second; null where nothing tells, or nothing was measured."""
        return {
            "device": self.device.id,
            "name": self.device.name,
            "bandwidth_bytes_s": self.told_bytes_s,
            "source": self.told.source if self.told else None,
            "measured_bytes_s": self.measured_bytes_s,
            "method": self.measured.method if self.measured else None,
            "refused": self.refused,
        }


@click.command("bandwidth")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@pass_session
def command(session: Session, /, *, as_json: bool) -> None:
    """How fast is this box's memory? Measured once, kept for every ceiling.

    The host's memory is read by one thread on each core; on each GPU that no engine is on, buffers are copied. It takes
    some seconds in all and needs a box at rest: a figure that other work spoiled is not kept. `gearshift plan` and the
    other verbs of bench take what is kept here where no data sheet and no driver tells a bandwidth.

    Exit status 0 when every device was measured, 1 when one was not, 2 for wrong usage.
    """
    if session.url:
        msg = "it measures the box that it runs on: leave --url out"
        raise click.UsageError(msg)
    with session.output.progress() as progress:
        answers = []
        for device, refused in _devices(session):
            progress(f"measuring the memory of {device.name}")
            answers.append(_measured(session, device, refused))
    session.output.emit([one.to_json() for one in answers], as_json=as_json, human=lambda: _text(answers))
    if any(one.measured is None for one in answers):
        raise click.exceptions.Exit(Exit.FAILED)


def _devices(session: Session) -> Iterator[tuple[Device, str | None]]:
    """The host and every GPU, each with the reason why it cannot be measured now."""
    yield host_device(), None
    memory = open_memory(session.env)
    cards = [device for device in memory.devices() if device.id != CPU_DEVICE]
    readings = memory.read([device.id for device in cards], ()) if cards else {}
    ours = our_pids(session) if cards else frozenset()
    for device in cards:
        yield device, occupied(readings[device.id], ours)


def _measured(session: Session, device: Device, refused: str | None) -> DeviceBandwidth:
    told = None if device.id == CPU_DEVICE else card_of(device)
    if refused is not None:
        return DeviceBandwidth(device, told, refused=refused)
    try:
        measured = measured_now(device, session.env)
    except GearshiftError as error:
        return DeviceBandwidth(device, told, refused=f"{error.message}{f' ({error.hint})' if error.hint else ''}")
    Bandwidths(session.paths.bandwidths).keep(device, measured)
    return DeviceBandwidth(device, told, measured)


def _text(answers: Sequence[DeviceBandwidth]) -> str:
    rows = [[one.device.id, one.device.name, _rate(one.measured_bytes_s), _rate(one.told_bytes_s)] for one in answers]
    why = [f"{one.device.id}: {one.measured.method if one.measured else one.refused}" for one in answers]
    return "\n".join([table(["DEVICE", "NAME", "MEASURED", "TOLD"], rows), "", *why])


def _rate(bytes_s: float | None) -> str:
    return "-" if bytes_s is None else f"{bytes_s / 1e9:,.1f} GB/s"
