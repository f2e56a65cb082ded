"""Our own log: one line an event on stderr, readable on a terminal, JSON elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from gearshift.app.outlet import Outlet


@contextmanager
def logs(*, verbose: bool = False) -> Iterator[None]:
    """Set up structlog, and send the server library's warnings the same way, for the block."""
    outlet = Outlet(sys.stderr.fileno())
    _configure(outlet, verbose=verbose)
    try:
        yield
    finally:
        outlet.close()


def _configure(outlet: Outlet, *, verbose: bool) -> None:
    level = logging.DEBUG if verbose else logging.INFO
    terminal = sys.stderr.isatty()
    renderer = _console() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if terminal else "iso", utc=not terminal),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(outlet),  # type: ignore[arg-type] # it only writes and flushes
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=outlet, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _console() -> structlog.dev.ConsoleRenderer:
    """No padding behind the event: a line is to fit a terminal of 80 columns."""
    return structlog.dev.ConsoleRenderer(pad_event_to=0, colors=not os.environ.get("NO_COLOR"))


def _is_news(record: logging.LogRecord) -> bool:
    """Not uvicorn's error for an answer without its last chunk: that is how a stream that broke off is told."""
    return "without completing response" not in record.getMessage()
