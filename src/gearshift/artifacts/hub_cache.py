"""Where Hugging Face's own tools keep downloads on this box, read without importing them.

Layout: ``models--ORG--NAME/{refs/BRANCH, snapshots/COMMIT/...}``, and beside files fetched into a folder of one's own
``.cache/huggingface/download/FILE.metadata`` with commit, etag and time on a line each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def hub_cache_folder(env: Mapping[str, str]) -> Path:
    """The cache of downloads by hub id: ``HF_HUB_CACHE``, else below ``HF_HOME``, else below the XDG cache."""
    named = env.get("HF_HUB_CACHE")
    return Path(named) if named else _hub_home(env) / "hub"


def kept_login(env: Mapping[str, str]) -> str | None:
    """The token that `hf auth login` keeps in ``HF_TOKEN_PATH``, else below ``HF_HOME``; None = not logged in."""
    try:
        return Path(env.get("HF_TOKEN_PATH") or _hub_home(env) / "token").read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _hub_home(env: Mapping[str, str]) -> Path:
    cache = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/")) / ".cache")
    return Path(env.get("HF_HOME") or cache / "huggingface")


def repository_folder(cache: Path, repository: str) -> Path:
    """The folder of one model repository, present or not."""
    return cache / f"models--{repository.replace('/', '--')}"


def cached_snapshot(cache: Path, repository: str, revision: str = "main") -> Path | None:
    """The folder with a revision's files as the engines see it; None when it was never fetched.

    ``revision`` is a commit or a branch; a branch means what it pointed to when it was last fetched.
    """
    folder = repository_folder(cache, repository)
    try:
        commit = (folder / "refs" / revision).read_text().strip()
    except OSError:
        commit = revision
    snapshot = folder / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def fetched_revision(folder: Path, file: str) -> str | None:
    """The commit that a file of a folder was fetched at, where huggingface_hub fetched it; None = nobody knows."""
    record = folder / ".cache/huggingface/download" / f"{file}.metadata"
    try:
        first = record.read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return None
    return first or None
