from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from gearshift.app.limits import OPEN_FILES, raise_open_files, raised

UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def low_limit() -> Iterator[int]:
    """A soft limit of 512 open files for this test; the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, 4096),
        (1024, 1_048_576, OPEN_FILES),
        (1024, UNLIMITED, OPEN_FILES),
        (100_000, 1_048_576, 100_000),
        (UNLIMITED, UNLIMITED, UNLIMITED),
    ],
)
def test_the_soft_limit_goes_up_to_the_hard_one_and_never_down(soft: int, hard: int, wanted: int) -> None:
    assert raised(soft, hard) == wanted


def test_the_limit_that_is_told_is_the_one_that_holds(low_limit: int) -> None:
    told = raise_open_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (told, low_limit)
    assert told > 512
