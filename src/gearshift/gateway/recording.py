"""The record of a request, written on every way out: served, refused before its variant was known, cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import structlog

from gearshift.domain.errors import GearshiftError, InterruptedLeaseError, LoadFailedError
from gearshift.domain.records import Outcome
from gearshift.edge.asgi import ClientGoneError
from gearshift.edge.errors import classify
from gearshift.gateway.exchange import Services
from gearshift.gateway.intake import out_of_memory
from gearshift.gateway.meter import Figures
from gearshift.gateway.stamps import Stamps

log = structlog.get_logger(__name__)

_HTTP_ERROR: Final = 400


@contextmanager
def recorded(services: Services, stamps: Stamps, figures: Figures, status: Callable[[], int]) -> Iterator[None]:
    """``with``: one request from its admission on; how it ended goes to the tally and the sink, what it raised goes on.

    ``status`` says what the client was sent so far, 0 while nothing was; a failure before that is recorded with the
    status that it will be answered with. Running out of memory becomes a refusal. A request that is turned away at the
    gate never comes here, so that strangers cannot fill the store.
    """
    told = 0
    try:
        yield
        stamps.outcome = "ok" if status() < _HTTP_ERROR else "error"
    except ClientGoneError:
        stamps.outcome = "client_gone"
        raise
    except GearshiftError as error:
        stamps.outcome, (told, _, _) = _outcome(error), classify(error)
        raise
    except MemoryError as error:
        refusal = out_of_memory()
        stamps.outcome, told = "refused", refusal.status
        log.warning("no memory left for a request", path=stamps.path)
        raise refusal from error
    except Exception:
        told = HTTPStatus.INTERNAL_SERVER_ERROR.value
        raise
    finally:
        record = stamps.record(status() or told, figures, services.clock())
        services.tally.request(record)
        services.sink.request(record)


def _outcome(error: GearshiftError) -> Outcome:
    if isinstance(error, InterruptedLeaseError):
        return "engine_died"
    return "error" if isinstance(error, LoadFailedError) else "refused"
