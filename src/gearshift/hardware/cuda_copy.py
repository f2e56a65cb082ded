"""The program that times copies on one GPU through the CUDA driver: ``python -m gearshift.hardware.cuda_copy``.

A process of its own, since a context holds hundreds of MiB and a driver can end the process that calls it. It sees one
GPU (CUDA_VISIBLE_DEVICES) and prints one JSON document: ``{"bytes_s", "copied_bytes"}``, or ``{"error"}``.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

from gearshift.domain.units import MIB, format_bytes

LIBRARY = "libcuda.so.1"
_COPIED, _LEAST = 512 * MIB, 256 * MIB  # of each buffer; the largest caches of GPUs hold 128 MiB
_AFFORDABLE = 4  # a quarter of what is free, for each of two buffers
_ROUNDS, _COPIES = 5, 10
_BOTH_WAYS = 2  # a copy reads every byte and writes it


class CudaError(Exception):
    """A call of the driver that failed, with its own name for why."""


class Driver:
    """libcuda by the names it exports; the ones here have kept their form since CUDA 4, the context calls since 7."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Raises CudaError where there is no such library or no GPU."""
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            msg = f"the CUDA driver's library cannot be loaded: {error}"
            raise CudaError(msg) from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Raises CudaError for any status but 0."""
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            msg = f"the CUDA driver has no {name}"
            raise CudaError(msg) from error
        if status := function(*arguments):
            msg = f"{name} failed: {self._reason(status)}"
            raise CudaError(msg)

    def _reason(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        return text.value.decode() if text.value else f"status {status}"


def copy_rate(driver: Driver) -> tuple[float, int]:
    """Bytes/s read and written together by the fastest round of copies, and the bytes of one copy. Raises CudaError."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    size = _size(driver)
    origin, goal = _buffer(driver, size), _buffer(driver, size)
    _round(driver, origin, goal, size)  # clocks rise, pages are mapped
    seconds = min(_round(driver, origin, goal, size) for _ in range(_ROUNDS))
    return _BOTH_WAYS * size * _COPIES / seconds, size


def _size(driver: Driver) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    size = min(_COPIED, free.value // _AFFORDABLE)
    if size < _LEAST:
        msg = f"{format_bytes(free.value)} of the card are free, {format_bytes(_LEAST * _AFFORDABLE)} have to be"
        raise CudaError(msg)
    return size


def _buffer(driver: Driver, size: int) -> ctypes.c_uint64:
    """Memory of the card, written once."""
    address = ctypes.c_uint64()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    driver.call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(size))
    return address


def _round(driver: Driver, origin: ctypes.c_uint64, goal: ctypes.c_uint64, size: int) -> float:
    """Seconds that some copies in a row took, as the card itself timed them."""
    start, stop, took_ms = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    for event in (start, stop):
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    driver.call("cuEventRecord", start, None)
    for _ in range(_COPIES):
        driver.call("cuMemcpyDtoDAsync_v2", goal, origin, ctypes.c_size_t(size), None)
    driver.call("cuEventRecord", stop, None)
    driver.call("cuEventSynchronize", stop)
    driver.call("cuEventElapsedTime", ctypes.byref(took_ms), start, stop)
    if took_ms.value <= 0:
        msg = f"cuEventElapsedTime says that {_COPIES} copies took {took_ms.value} ms"
        raise CudaError(msg)
    return took_ms.value / 1000


def main() -> int:
    """Print the measurement, or why there is none. Memory and context go with the process."""
    try:
        rate, size = copy_rate(Driver())
    except CudaError as error:
        print(json.dumps({"error": str(error)}))  # noqa: T201 - this program's answer
        return 1
    print(json.dumps({"bytes_s": rate, "copied_bytes": size}))  # noqa: T201 - likewise
    return 0


if __name__ == "__main__":
    sys.exit(main())
