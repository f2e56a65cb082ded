"""One way to say that a model file cannot be used: which file, what about it, what to do."""

from __future__ import annotations

from typing import NoReturn

from gearshift.domain.errors import GearshiftError

FETCH_ALL = "fetch all parts into one folder"
NO_DECODER = "the file is damaged or describes no decoder"
FETCH_AGAIN = "the file is damaged, incomplete or no model file; fetch it again"


def fail(file: object, message: str, *, hint: str = FETCH_AGAIN, cause: Exception | None = None) -> NoReturn:
    """Raise GearshiftError about ``file``."""
    text = f"{file}: {message}"
    raise GearshiftError(text, hint=hint) from cause


def fail_to_read(file: object, error: OSError) -> NoReturn:
    """Raise GearshiftError for a file that the system would not let us read."""
    hint = "check that the file exists and that you may read it"
    fail(file, f"cannot be read: {error.strerror or error}", hint=hint, cause=error)
