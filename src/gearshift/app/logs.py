"""Our own log: one line an event on stderr, readable on a terminal, JSON elsewhere; fit to be shown to others."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from gearshift.app.outlet import Outlet
from gearshift.domain.redaction import redacted, redacted_text


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
            _private,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(outlet),  # type: ignore[arg-type] # it only writes and flushes
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(outlet)
    handler.setFormatter(_PrivateFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _private(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Without keys and home folders: an engine's error line may hold either."""
    return {name: redacted(value) for name, value in event.items()}


class _PrivateFormatter(logging.Formatter):
    """The same for libraries' lines, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted_text(super().format(record))


def _console() -> structlog.dev.ConsoleRenderer:
    """No padding behind the event: a line is to fit a terminal of 80 columns."""
    return structlog.dev.ConsoleRenderer(pad_event_to=0, colors=not os.environ.get("NO_COLOR"))


def _is_news(record: logging.LogRecord) -> bool:
    """Not uvicorn's error for an answer without its last chunk: that is how a stream that broke off is told."""
    return "without completing response" not in record.getMessage()
