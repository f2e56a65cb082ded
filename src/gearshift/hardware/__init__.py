"""What this box has: GPUs and their memory through one port, the host's memory, cores and load."""

from gearshift.hardware.box import read_hardware
from gearshift.hardware.cpu import CpuMemory
from gearshift.hardware.fake import FakeMemory
from gearshift.hardware.gpu_settings import gpu_settings
from gearshift.hardware.host import HostMemory, core_count, cpu_name, host_memory, load_average
from gearshift.hardware.memory import open_memory
from gearshift.hardware.nvml import NvmlMemory
from gearshift.hardware.telemetry import open_telemetry

__all__ = [
    "CpuMemory",
    "FakeMemory",
    "HostMemory",
    "NvmlMemory",
    "core_count",
    "cpu_name",
    "gpu_settings",
    "host_memory",
    "load_average",
    "open_memory",
    "open_telemetry",
    "read_hardware",
]
