"""Small files that are kept beside the database, and written whole."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str, *, durable: bool = True) -> None:
    """Write it whole: readers, and whoever comes after a crash, find the old file or the new one and never a half.

    ``durable`` False where the file means nothing after a power cut: then nothing waits for the disk. Writers in two
    processes do not meet; threads of one are the caller's to keep apart. Raises OSError, and leaves nothing then.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
