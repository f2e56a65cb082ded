"""Ports are free when nobody listens, and are not handed out twice in a row."""

from __future__ import annotations

import os
import socket

from gearshift.hardware import processes
from gearshift.supervisor.ports import REST_S, PortPicker, port_free


def test_a_port_is_not_handed_out_again_for_a_while() -> None:
    now = 0.0
    picker = PortPicker(lambda: now)
    assert len({picker.pick() for _ in range(200)}) == 200
    now = REST_S + 1
    assert port_free("127.0.0.1", picker.pick())


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not port_free("127.0.0.1", port)
        assert processes.holder_of(processes.listening_inodes(port), [1, os.getpid()]) == os.getpid()
    assert port_free("127.0.0.1", port)
    assert processes.listening_inodes(port) == frozenset()


def test_a_port_that_is_bound_but_silent_is_not_free() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        assert not port_free("127.0.0.1", holder.getsockname()[1])


def test_connections_that_linger_closed_do_not_hold_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()
    assert port_free("127.0.0.1", port)


def test_an_address_of_the_newer_kind_has_ports_too() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        assert port_free("::1", holder.getsockname()[1]), "it is bound on the other loopback only"


def test_a_name_that_stands_for_no_address_has_nobody_on_its_ports() -> None:
    assert port_free("no-such-host.invalid", 80)
