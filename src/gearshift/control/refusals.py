"""Refusals as errors a face can show: what is wrong, with whom, and when to come back."""

from __future__ import annotations

from gearshift.domain.errors import (
    DrainingError,
    Failure,
    GearshiftError,
    LoadFailedError,
    NotResidentError,
    QueueFullError,
)
from gearshift.scheduler import Refuse


def refusal_error(refusal: Refuse) -> GearshiftError:
    """The error that a waiter of this refusal gets."""
    variant, retry = refusal.variant, refusal.retry_after_s
    match refusal.reason:
        case "queue_full":
            return QueueFullError(
                f"the queue of {variant} is full",
                retry_after_s=retry or 1.0,
                hint="ask again later, or raise the variant's queue_limit",
            )
        case "not_resident":
            return NotResidentError(
                f"{variant} is not loaded, and a side request never causes a swap",
                hint="load it first, or send the request without the side header or alias: then it is loaded",
                retry_after_s=retry,
            )
        case "draining":
            return DrainingError(
                f"{variant} takes no more requests: it was unloaded, removed, or the server is stopping",
                hint="ask again: a variant that is still configured is loaded again",
            )
        case "load_failed" | "blocked":
            failure = refusal.failure or Failure("it could not be loaded")
            return LoadFailedError(f"{variant}: {failure.cause}", failure=failure, retry_after_s=retry)
