"""The fake engine's life: processes, port, load, serve, leave."""

import os
import socket
import threading
import time
from collections.abc import Sequence

from fakes.engine import process
from fakes.engine.gpu import hold
from fakes.engine.http import Connection, GoneError
from fakes.engine.loading import load
from fakes.engine.options import Options, parse
from fakes.engine.routes import answer
from fakes.engine.say import say
from fakes.engine.state import State


def main(argv: Sequence[str]) -> None:
    """Play one engine until told to stop."""
    options = parse(argv)
    process.wipe_environment(options)
    state = State(options)
    state.grandchild = process.fork_grandchild(options)
    if options.rename:
        process.rename(options.rename)
    process.prepare_signals(options)
    threading.Thread(target=_listen, args=(options, state), daemon=True).start()
    threading.Thread(target=_load, args=(options, state), daemon=True).start()
    if options.busy:
        threading.Thread(target=process.compute, daemon=True).start()
    process.serve_until_told(options)


def _load(options: Options, state: State) -> None:
    try:
        hold(options, asleep=False)
        load(options)
    except BrokenPipeError:  # nobody reads the log any more
        os._exit(1)
    state.loaded.set()
    say(f"main: server is listening on http://{options.host}:{options.port}")


def _listen(options: Options, state: State) -> None:
    if options.refuse_port:
        return
    time.sleep(options.port_delay)
    try:
        server = socket.create_server((options.host, options.port), backlog=1024)
    except OSError as error:
        say(f"couldn't bind HTTP server socket, hostname: {options.host}, port: {options.port} ({error})")
        os._exit(1)
    while True:
        sock, _ = server.accept()
        threading.Thread(target=_serve, args=(state, sock), daemon=True).start()


def _serve(state: State, sock: socket.socket) -> None:
    connection = Connection(sock)
    try:
        while (request := connection.read()) and answer(state, connection, request):
            pass
    except (GoneError, OSError, ValueError) as error:
        say(f"connection ended: {type(error).__name__}")
    finally:
        connection.close()
