"""Who may reach the server: the listen address, the keys, the hosts and origins it answers."""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gearshift.config.document import Document
from gearshift.config.files import Base
from gearshift.config.schema import ApiKeySection, FileSection
from gearshift.domain.errors import ConfigError, Problem
from gearshift.domain.settings import ApiKey, Settings

DEFAULT_HOST = "127.0.0.1"
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s*]+", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9_.-]+|(?=.*:.*:)[0-9A-Fa-f:.]+(%\w+)?")
_MAX_PORT = 65535


def listen_address(listen: str | int) -> tuple[str, int]:
    """Host and port from ``127.0.0.1:8888``, ``[::1]:8888``, ``:8888`` or ``8888``. Raises ValueError."""
    host, _, port = str(listen).rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not port.isascii()
        or not port.isdigit()
        or not 0 <= int(port[:6]) <= _MAX_PORT
        or (":" in host and bare == host)
    ):
        msg = f"{listen!r} is not an address; write for example 127.0.0.1:8888, [::1]:8888 or 8888"
        raise ValueError(msg)
    if bare and not _HOST.fullmatch(bare):
        msg = f"{bare!r} is not a host; write for example 127.0.0.1:8888"
        raise ValueError(msg)
    return bare or DEFAULT_HOST, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen_on(settings: Settings, listen: str | int) -> Settings:
    """The settings with another address, as the command line gives one; judged like the file's `listen:`.

    Raises ConfigError for what is no address, and for one that others reach while there are no keys.
    """
    document = Document({}, {}, ())
    try:
        host, port = listen_address(listen)
    except ValueError as error:
        raise ConfigError((_not_an_address(error, document),)) from None
    if not (is_loopback(host) or settings.allow_open or settings.api_keys):
        raise ConfigError((_open_to_others(host, document),))
    return replace(settings, host=host, port=port)


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Reads the secrets of `api_keys:`; a key without one is kept, and admits nobody."""

    document: Document
    base: Base
    env: Mapping[str, str]

    def read(self, section: ApiKeySection, position: int) -> tuple[ApiKey, list[Problem]]:
        """The key and what is wrong with it."""
        at = ("api_keys", position)
        problems: list[Problem] = []
        secret: str | None = None
        if (section.key_env is None) == (section.key_file is None):
            problems.append(self.document.problem(at, "needs one of key_env and key_file"))
        elif section.key_env:
            secret = self.env.get(section.key_env, "").strip()
            if not secret:
                problems.append(self._unset((*at, "key_env"), f"{section.key_env} is not set"))
        elif section.key_file:
            path = self.base.path(section.key_file)
            secret, reason = _read_secret(path)
            if not secret:
                problems.append(self._unset((*at, "key_file"), f"{path}: {reason}"))
        # A missing secret must not open the door: a random one keeps the key in force and matches nothing.
        return ApiKey(section.name, secret or secrets.token_hex(32), section.role), problems

    def _unset(self, at: tuple[str | int, ...], message: str) -> Problem:
        return self.document.problem(at, message, hint="until then this key admits nobody", severity="warning")


def _read_secret(path: Path) -> tuple[str, str]:
    try:
        return path.read_text(encoding="utf-8").strip(), "the file is empty"
    except (OSError, ValueError) as error:
        return "", getattr(error, "strerror", None) or str(error)


def check_access(file: FileSection, document: Document) -> Iterator[Problem]:
    """What is wrong with who may reach the server."""
    try:
        host, _ = listen_address(file.listen)
    except ValueError as error:
        yield _not_an_address(error, document)
    else:
        declared = file.api_keys or document.get(("api_keys",))
        if not (is_loopback(host) or file.allow_open or declared):
            yield _open_to_others(host, document)
    yield from _key_names(file, document)
    for position, origin in enumerate(file.cors_origins):
        if not _ORIGIN.fullmatch(origin):
            hint = "name each page that may call, such as https://chat.example.org"
            yield document.problem(("cors_origins", position), f"{origin!r} is not an origin", hint=hint)
    for position, name in enumerate(file.allowed_hosts):
        if not _HOST.fullmatch(name):
            yield document.problem(("allowed_hosts", position), f"{name!r} is not a host", hint="a name, without port")


def _not_an_address(error: ValueError, document: Document) -> Problem:
    message, _, hint = str(error).partition("; ")
    return document.problem(("listen",), message, hint=hint or None)


def _open_to_others(host: str, document: Document) -> Problem:
    message = f"{host} can be reached by others and there are no keys"
    return document.problem(("listen",), message, hint="add api_keys:, or allow_open: true if that is meant")


def _key_names(file: FileSection, document: Document) -> Iterator[Problem]:
    names = [key.name for key in file.api_keys]
    for position, name in enumerate(names):
        if name in names[:position]:
            yield document.problem(("api_keys", position, "name"), f"key {name!r} is named twice")
