"""A model file at an address, read by HTTP ranges: a header costs a megabyte or a few, whatever the file's size."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import PurePosixPath
from typing import IO, Any, cast
from urllib.parse import urlsplit, urlunsplit

from gearshift.artifacts.damage import fail
from gearshift.artifacts.facts import ModelFacts
from gearshift.artifacts.gguf_facts import gguf_facts, part_names, whole_header

SCHEMES = ("https", "http")
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_SILENCE_S = 30.0  # without a byte
_TIMEOUT_S = 120.0  # for one range of a megabyte
_PARTIAL = 206
_PIECE = 1 << 16
_WHERE = "check the address; on the Hugging Face hub a file is at …/resolve/REVISION/FILE"


@dataclass(frozen=True, slots=True)
class HttpSource:
    """One file behind a server that answers ranges. Blocking; every request has a deadline.

    ``headers`` (an authorization, where one is needed) go to the address's own origin and to none that it redirects to.
    """

    url: str
    size: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return shown(self.url)

    def read(self, offset: int, count: int) -> bytes:
        count = min(count, self.size - offset)
        if count <= 0:
            return b""
        data, size = _fetch(self.url, offset, count, self.headers)
        if size != self.size:
            fail(self.name, f"is {size} bytes long, and was {self.size}: it was replaced meanwhile", hint="ask again")
        return data


def is_address(text: str) -> bool:
    """Whether it is a web address, rather than a path."""
    return text.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def shown(url: str) -> str:
    """An address without what may be a secret of it: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def open_url(url: str, headers: Mapping[str, str] | None = None) -> HttpSource:
    """Ask for one byte to learn the size. Raises GearshiftError where the server does not answer ranges."""
    given = dict(headers or {})
    return HttpSource(url, _fetch(url, 0, 1, given)[1], given)


def read_remote_gguf(url: str, headers: Mapping[str, str] | None = None) -> ModelFacts:
    """Facts of a GGUF file that is not here, with all its parts where it is split. Raises GearshiftError."""
    parts = urlsplit(url)
    path = PurePosixPath(parts.path)
    paths = [str(path.with_name(name)) for name in part_names(path.name)] if path.name else [parts.path]
    walked = [whole_header(open_url(urlunsplit(parts._replace(path=part)), headers)) for part in paths]
    return gguf_facts(walked, name=shown(url))


def _fetch(url: str, offset: int, count: int, headers: Mapping[str, str]) -> tuple[bytes, int]:
    """The bytes of a range and the whole file's size."""
    with _answered(url, {**headers, "Range": f"bytes={offset}-{offset + count - 1}"}) as response:
        size = _whole_size(url, response, offset)  # before any byte is read: a server may be sending all of the file
        return _read(response, min(count, size - offset)), size


@contextmanager
def _answered(url: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
    """The server's answer; what goes wrong on the way and while it is read, in a sentence."""
    if not is_address(url):
        fail(url, "is no web address", hint="name a file by http:// or https://")
    name = shown(url)
    opener = urllib.request.build_opener(_Redirects)
    try:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - the scheme was checked above
        with opener.open(request, timeout=_SILENCE_S) as response:
            yield cast("HTTPResponse", response)
    except urllib.error.HTTPError as error:
        error.close()
        fail(name, f"HTTP status {error.code}", hint=f"{_WHERE}, and the token where one is needed", cause=error)
    except (HTTPException, ValueError) as error:
        fail(name, f"the answer cannot be read: {type(error).__name__}: {error}", hint=_WHERE, cause=error)
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        fail(name, f"cannot be reached: {reason}", hint="check the address and the network", cause=error)


def _read(response: HTTPResponse, count: int) -> bytes:
    """So many bytes. Raises IncompleteRead where the server ends before, TimeoutError where it takes too long."""
    due = time.monotonic() + _TIMEOUT_S
    data = bytearray()
    while len(data) < count:
        if time.monotonic() > due:
            msg = f"{len(data)} of {count} bytes came within {_TIMEOUT_S:.0f} s"
            raise TimeoutError(msg)
        piece = response.read1(min(_PIECE, count - len(data)))
        if not piece:
            raise IncompleteRead(bytes(data), count - len(data))
        data += piece
    return bytes(data)


def _whole_size(url: str, response: HTTPResponse, offset: int) -> int:
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status != _PARTIAL or match is None or int(match[1]) != offset:
        fail(shown(url), "the server does not answer ranges", hint=f"{_WHERE}; else fetch the file and name the copy")
    return int(match[2])


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A hub redirects to storage elsewhere, which is not to see the login."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not is_address(newurl):
            raise urllib.error.HTTPError(shown(req.full_url), code, f"redirects to {shown(newurl)}", headers, fp)
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and _origin(newurl) != _origin(req.full_url):
            followed.headers = {name: value for name, value in followed.headers.items() if name == "Range"}
        return followed


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
