"""Where local files are from: a repository whose revision is shown to hold the very same files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from gearshift.advice.recipe import PinnedFile, PinnedFiles
from gearshift.artifacts import Hub, HubFile, HubRevision
from gearshift.domain.errors import GearshiftError


@dataclass(frozen=True, slots=True)
class HubSource:
    """``ORG/NAME[@REVISION]``; without a revision its main branch."""

    repository: str
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> HubSource:
        """Raises ValueError with the text."""
        repository, _, revision = text.partition("@")
        if repository.count("/") != 1 or not all(repository.split("/")):
            msg = f"{text!r} names no repository; write ORG/NAME or ORG/NAME@REVISION"
            raise ValueError(msg)
        return cls(repository, revision or None)


def with_source(pinned: PinnedFiles, source: HubSource | None, hub: Hub) -> PinnedFiles:
    """The files with their repository and commit, each compared with what the hub has there.

    Raises GearshiftError for a file that the revision does not hold, or holds otherwise.
    """
    if source is None:
        return pinned
    at = hub.revision(source.repository, source.revision or "main")
    files = tuple(_found(file, at, hub) for file in pinned.files)
    return replace(pinned, files=files, repository=at.repository, revision=at.commit)


def _found(file: PinnedFile, at: HubRevision, hub: Hub) -> PinnedFile:
    """The file with its path in the repository: the same name first, then the same last part."""
    there = [other for other in at.files if other.path == file.name] or [
        other for other in at.files if PurePosixPath(other.path).name == PurePosixPath(file.name).name
    ]
    if not there:
        raise GearshiftError(
            f"{at.repository}@{at.commit[:12]} holds no {file.name}", hint="name the repository it is from"
        )
    same = next((other for other in there if _is_same(file, other, at, hub)), None)
    if same is None:
        raise GearshiftError(
            f"{file.name} is not the file of {at.repository}@{at.commit[:12]}: here it is {file.promise}",
            hint="name the revision it was fetched at, or lock without --source",
        )
    return file if same.path == file.name else replace(file, path=same.path)


def _is_same(file: PinnedFile, other: HubFile, at: HubRevision, hub: Hub) -> bool:
    return other.bytes == file.bytes and hub.promise(at, other) == file.promise
