"""A socket that cannot be bound is said to be, and closed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.app.listeners import bind_admin, bind_tcp
from gearshift.domain.errors import GearshiftError


def too_long(folder: Path) -> None:
    bind_admin(folder / ("a" * 120))


def no_folder(folder: Path) -> None:
    bind_admin(folder / "missing" / "admin.sock")


def a_folder_in_its_place(folder: Path) -> None:
    (folder / "admin.sock").mkdir()
    bind_admin(folder / "admin.sock")


def taken_port(_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        bind_tcp("127.0.0.1", holder.getsockname()[1])


@pytest.mark.parametrize("attempt", [too_long, no_folder, a_folder_in_its_place, taken_port])
def test_a_socket_that_cannot_be_bound_is_an_error_and_leaves_no_descriptor(
    attempt: Callable[[Path], None], tmp_path: Path
) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names are enough
    with pytest.raises(GearshiftError, match=r"cannot (listen on|make the admin socket)") as caught:
        attempt(tmp_path)
    assert os.listdir("/proc/self/fd") == before, caught  # noqa: PTH208 - while the error still holds its frames
