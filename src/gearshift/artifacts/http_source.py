"""A model file at an address, read by HTTP ranges: a header costs a megabyte or a few, whatever the file's size."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import cast

from gearshift.artifacts.damage import fail
from gearshift.artifacts.facts import ModelFacts
from gearshift.artifacts.gguf import read_gguf
from gearshift.artifacts.gguf_facts import gguf_facts

_RANGE = re.compile(r"bytes \d+-\d+/(\d+)")
_TIMEOUT_S = 30.0
_PARTIAL = 206


@dataclass(frozen=True, slots=True)
class HttpSource:
    """One file behind a server that answers ranges. Blocking; every request has a deadline."""

    name: str  # the address
    size: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # an authorization, where one is needed

    def read(self, offset: int, count: int) -> bytes:
        count = min(count, self.size - offset)
        return _fetch(self.name, offset, count, self.headers)[0] if count > 0 else b""


def open_url(url: str, headers: Mapping[str, str] | None = None) -> HttpSource:
    """Ask for one byte to learn the size. Raises GearshiftError where the server does not answer ranges."""
    given = dict(headers or {})
    return HttpSource(url, _fetch(url, 0, 1, given)[1], given)


def read_remote_gguf(url: str, headers: Mapping[str, str] | None = None) -> ModelFacts:
    """Facts of a GGUF file that is not here yet; of a split one this part only. Raises GearshiftError."""
    return gguf_facts([read_gguf(open_url(url, headers))], name=url)


def _fetch(url: str, offset: int, count: int, headers: Mapping[str, str]) -> tuple[bytes, int]:
    """The bytes of a range and the whole file's size."""
    if not url.startswith(("https://", "http://")):
        fail(url, "is no web address", hint="name a file by http:// or https://")
    ranged = {**headers, "Range": f"bytes={offset}-{offset + count - 1}"}
    request = urllib.request.Request(url, headers=ranged)  # noqa: S310 - the scheme was checked above
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as opened:  # noqa: S310 - likewise
            response = cast("HTTPResponse", opened)
            return response.read(count), _whole_size(url, response)
    except urllib.error.HTTPError as error:
        fail(url, f"HTTP status {error.code}", hint="check the address, and the token where one is needed", cause=error)
    except OSError as error:
        fail(url, f"cannot be reached: {error}", hint="check the address and the network", cause=error)


def _whole_size(url: str, response: HTTPResponse) -> int:
    match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status != _PARTIAL or match is None:
        fail(url, "the server does not answer ranges", hint="fetch the file and name the copy")
    return int(match[1])
