"""The Hugging Face hub: what a revision holds, and its files fetched so that a broken transfer goes on where it ended.

huggingface_hub brings addresses, login, redirects and retries, and is imported when a call is made. Its own download
functions throw a partial file away at the end of the process, which for 20 GiB of weights is no answer; so files are
written here, through its transfer function.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

from gearshift.artifacts.hashes import Promise
from gearshift.artifacts.hub_cache import kept_login
from gearshift.domain.errors import GearshiftError

PARTIAL = ".partial"  # what a file is called until it is whole
_HUB = "https://huggingface.co"
_SMALL = 64 * 1024**2  # a file without a published hash is fetched to be hashed; such files are text


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a revision. ``sha256`` is published for large files only (LFS, Xet)."""

    path: str
    bytes: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class HubRevision:
    """What a repository held at one commit."""

    repository: str
    commit: str
    files: tuple[HubFile, ...]


@dataclass(frozen=True, slots=True)
class Hub:
    """One hub, with the login to use there; ``endpoint`` None = huggingface.co."""

    endpoint: str | None = None
    token: str | None = None

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Hub:
        """``HF_ENDPOINT`` (a mirror) and the login: ``HF_TOKEN``, else what ``hf auth login`` left."""
        return cls((env.get("HF_ENDPOINT") or "").rstrip("/") or None, env.get("HF_TOKEN") or kept_login(env))

    def login(self, url: str) -> dict[str, str]:
        """The headers that open an address of this hub; none for one of anybody else's."""
        ours = urlsplit(self.endpoint or _HUB)
        same = urlsplit(url)[:2] == ours[:2]
        return {"Authorization": f"Bearer {self.token}"} if self.token and same else {}

    def revision(self, repository: str, revision: str = "main") -> HubRevision:
        """A branch, tag or commit resolved to a commit, with its files. Raises GearshiftError."""
        from huggingface_hub import HfApi  # noqa: PLC0415 - 0.3 s that only lock and pull pay

        with _told(f"{repository}@{revision}"):
            api = HfApi(endpoint=self.endpoint, token=self.token or False)
            info = api.model_info(repository, revision=revision, files_metadata=True)
        if info.sha is None:
            raise GearshiftError(f"{repository}@{revision}: the hub names no commit", hint="name a commit")
        files = (
            HubFile(item.rfilename, item.size or 0, item.lfs.sha256 if item.lfs else None)
            for item in info.siblings or ()
        )
        return HubRevision(repository, info.sha, tuple(files))

    def promise(self, at: HubRevision, file: HubFile) -> Promise:
        """What a file has to be; one without a published hash is fetched and hashed. Raises GearshiftError."""
        if file.sha256 is not None:
            return Promise(file.bytes, file.sha256)
        if file.bytes > _SMALL:
            raise GearshiftError(
                f"{at.repository}: {file.path} has no published hash and is too large to fetch for one",
                hint="pull it first, then lock what is on disk",
            )
        text = io.BytesIO()
        self._transfer(at.repository, at.commit, file.path, text, None)
        return Promise(len(text.getvalue()), hashlib.sha256(text.getvalue()).hexdigest())

    def fetch(
        self,
        repository: str,
        commit: str,
        path: str,
        target: Path,
        promised: Promise,
        advanced: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Fetch one file of a commit to ``target``, going on with what an earlier attempt left beside it.

        ``advanced`` is told of bytes as they are at hand, those of the earlier attempt included. The file gets its
        name when it has its size; its hash is the caller's to check. Raises GearshiftError; what was fetched so far
        stays.
        """
        partial = target.with_name(target.name + PARTIAL)
        partial.parent.mkdir(parents=True, exist_ok=True)
        if partial.exists() and partial.stat().st_size > promised.bytes:
            partial.unlink()  # of another file
        with partial.open("ab") as file:
            counted = cast("BinaryIO", _Counted(file, advanced))  # as much of one as a transfer uses
            self._transfer(repository, commit, path, counted, promised)
        partial.replace(target)

    def _transfer(self, repository: str, commit: str, path: str, file: BinaryIO, promised: Promise | None) -> None:
        """Append the rest of a file to ``file``, which holds its beginning."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url  # noqa: PLC0415 - see above
        from huggingface_hub.file_download import http_get  # noqa: PLC0415 - likewise
        from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415 - likewise

        disable_progress_bars()
        url = hf_hub_url(repository, path, revision=commit, endpoint=self.endpoint)
        with _told(f"{repository}: {path}"):
            there = get_hf_file_metadata(url, token=self.token or False, endpoint=self.endpoint)
            _refuse_other(f"{repository}@{commit}: {path}", there.size, there.etag, promised)
            http_get(
                there.location,
                file,
                resume_size=file.tell(),
                headers=self._login(url, there.location),
                expected_size=there.size,
            )

    def _login(self, url: str, location: str) -> dict[str, str]:
        """The hub redirects to storage elsewhere, which is not to see the token."""
        same = urlsplit(url).netloc == urlsplit(location).netloc
        return {"Authorization": f"Bearer {self.token}"} if self.token and same else {}


def _refuse_other(name: str, size: int | None, etag: str | None, promised: Promise | None) -> None:
    """The hub says before the transfer what it would send; sixty-four digits of an etag are a SHA-256."""
    if promised is None:
        return
    other_size = size is not None and size != promised.bytes
    other_hash = etag is not None and len(etag) == len(promised.sha256) and etag != promised.sha256
    if other_size or other_hash:
        found = f"{size} bytes, {etag}" if other_size else f"sha256 {etag}"
        raise GearshiftError(
            f"{name}: the hub has another file than the lock names: expected {promised}, found {found}",
            hint="the lock was changed or made from another repository; compare with who gave it to you",
        )


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Failures of the hub and the way to it, in a sentence."""
    from httpx2 import HTTPError  # noqa: PLC0415 - see Hub
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError  # noqa: PLC0415 - likewise

    try:
        yield
    except GatedRepoError as error:
        hint = "accept its terms on the hub, and set HF_TOKEN"
        raise GearshiftError(f"{what}: the repository is gated", hint=hint) from error
    except RepositoryNotFoundError as error:
        hint = "check the name; a private repository needs HF_TOKEN"
        raise GearshiftError(f"{what}: there is no such repository, or it is private", hint=hint) from error
    except (HfHubHTTPError, HTTPError, OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = "run it again to go on where it ended; HF_ENDPOINT names a mirror"
        raise GearshiftError(f"{what}: {reason}", hint=hint) from error


class _Counted(io.RawIOBase):
    """A file that tells of its bytes: of those it began with first, then of each piece written."""

    def __init__(self, file: BinaryIO, advanced: Callable[[int], None]) -> None:
        super().__init__()
        self._file, self._advanced = file, advanced
        advanced(file.tell())

    def write(self, piece: bytes) -> int:  # type: ignore[override]  # bytes are all that is ever written
        self._advanced(len(piece))
        return self._file.write(piece)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None) -> int:
        """The server did not take the range: what was there is sent anew."""
        self._advanced(-(self._end() - self._file.tell()))
        return self._file.truncate(size)

    def _end(self) -> int:
        here = self._file.tell()
        end = self._file.seek(0, io.SEEK_END)
        self._file.seek(here)
        return end
