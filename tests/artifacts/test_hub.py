"""The hub, against one on loopback: revisions, whole, broken and resumed transfers, and files that are others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import COMMIT, FakeHub, serving
from gearshift.artifacts.hashes import Promise
from gearshift.artifacts.hub import Hub
from gearshift.artifacts.hub_cache import cached_snapshot, fetched_revision, hub_cache_folder
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import MIB

WEIGHTS = bytes(range(256)) * 400
CONFIG = b'{"hidden_size": 8}'


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    files = {"model.safetensors": WEIGHTS, "config.json": CONFIG}
    with serving(FakeHub(files, large=frozenset({"model.safetensors"}))) as served:
        yield served


def promise(data: bytes) -> Promise:
    return Promise(len(data), hashlib.sha256(data).hexdigest())


def fetch(hub: FakeHub, target: Path, promised: Promise, counted: list[int] | None = None) -> None:
    told = counted.append if counted is not None else lambda _: None
    Hub(hub.url).fetch("org/name", COMMIT, "model.safetensors", target, promised, told)


def test_a_branch_is_resolved_to_a_commit_with_its_files(hub: FakeHub) -> None:
    at = Hub(hub.url).revision("org/name")
    assert at.commit == COMMIT
    assert [(file.path, file.bytes, file.sha256 is not None) for file in at.files] == [
        ("model.safetensors", len(WEIGHTS), True),
        ("config.json", len(CONFIG), False),
    ]


def test_small_files_are_fetched_for_their_hash_and_large_ones_are_not(hub: FakeHub) -> None:
    client = Hub(hub.url)
    at = client.revision("org/name")
    assert [client.promise(at, file) for file in at.files] == [promise(WEIGHTS), promise(CONFIG)]
    assert hub.ranges == [""]


def test_a_file_is_fetched_whole_and_told_of(hub: FakeHub, tmp_path: Path) -> None:
    counted: list[int] = []
    fetch(hub, tmp_path / "sub/model.safetensors", promise(WEIGHTS), counted)
    assert (tmp_path / "sub/model.safetensors").read_bytes() == WEIGHTS
    assert sum(counted) == len(WEIGHTS)
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["model.safetensors"]


def test_an_earlier_attempt_is_gone_on_with(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "w.partial").write_bytes(WEIGHTS[:70_000])
    counted: list[int] = []
    fetch(hub, tmp_path / "w", promise(WEIGHTS), counted)
    assert hub.ranges == ["bytes=70000-"]
    assert (tmp_path / "w").read_bytes() == WEIGHTS
    assert counted[0] == 70_000
    assert sum(counted) == len(WEIGHTS)


def test_a_transfer_that_is_cut_goes_on_behind_its_last_whole_piece(hub: FakeHub, tmp_path: Path) -> None:
    data = bytes(12 * MIB)
    hub.files["model.safetensors"] = data
    hub.cut_after = {"model.safetensors": 11 * MIB}
    fetch(hub, tmp_path / "w", promise(data))
    assert hub.ranges == ["", f"bytes={10 * MIB}-"]
    assert (tmp_path / "w").read_bytes() == data


def test_a_server_that_ignores_ranges_sends_all_and_is_counted_once(hub: FakeHub, tmp_path: Path) -> None:
    hub.ignores_ranges = True
    (tmp_path / "w.partial").write_bytes(b"x" * 70_000)
    counted: list[int] = []
    fetch(hub, tmp_path / "w", promise(WEIGHTS), counted)
    assert (tmp_path / "w").read_bytes() == WEIGHTS
    assert sum(counted) == len(WEIGHTS)


def test_a_partial_file_that_is_too_long_is_of_another_file(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "w.partial").write_bytes(WEIGHTS + b"more")
    fetch(hub, tmp_path / "w", promise(WEIGHTS))
    assert (tmp_path / "w").read_bytes() == WEIGHTS


def test_another_file_than_promised_is_refused_before_it_is_sent(hub: FakeHub, tmp_path: Path) -> None:
    other = Promise(len(WEIGHTS), "0" * 64)
    with pytest.raises(GearshiftError, match=f"expected {len(WEIGHTS)} bytes, sha256 0+, found sha256 "):
        fetch(hub, tmp_path / "w", other)
    assert hub.ranges == []
    assert not (tmp_path / "w").exists()


def test_a_gated_or_unknown_repository_is_said_to_be_so(hub: FakeHub) -> None:
    with pytest.raises(GearshiftError, match="there is no such repository"):
        Hub(hub.url).revision("org/other")
    hub.gated = True
    with pytest.raises(GearshiftError, match="is gated"):
        Hub(hub.url).revision("org/name")


def test_a_hub_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(GearshiftError, match=r"^org/name@main: "):
        Hub("http://127.0.0.1:9").revision("org/name")
    assert list(tmp_path.glob("*.partial")) == []


def test_the_login_and_the_mirror_come_from_the_environment(hub: FakeHub) -> None:
    Hub.of({"HF_ENDPOINT": hub.url + "/", "HF_TOKEN": "hf_secret"}).revision("org/name")
    assert hub.tokens == {"Bearer hf_secret"}
    Hub.of({"HF_ENDPOINT": hub.url, "HOME": "/nowhere"}).revision("org/name")
    assert None in hub.tokens


def test_a_login_that_was_kept_is_used_where_no_token_is_given(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_kept\n")
    assert Hub.of({"HF_HOME": str(tmp_path)}).token == "hf_kept"
    assert Hub.of({"HF_HOME": str(tmp_path), "HF_TOKEN": "hf_given"}).token == "hf_given"
    assert Hub.of({"HF_TOKEN_PATH": str(tmp_path / "none")}).token is None


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"HF_HUB_CACHE": "/c"}, "/c"),
        ({"HF_HOME": "/h"}, "/h/hub"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/me"}, "/x/huggingface/hub"),
        ({"HOME": "/me"}, "/me/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_own_tools_have_it(env: dict[str, str], folder: str) -> None:
    assert hub_cache_folder(env) == Path(folder)


def test_a_snapshot_is_found_by_branch_or_commit(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--name/snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    assert cached_snapshot(tmp_path, "org/name") is None
    (tmp_path / "models--org--name/refs").mkdir()
    (tmp_path / "models--org--name/refs/main").write_text(COMMIT)
    assert cached_snapshot(tmp_path, "org/name") == snapshot
    assert cached_snapshot(tmp_path, "org/name", COMMIT) == snapshot


def test_the_commit_of_a_fetched_file_is_read_from_its_record(tmp_path: Path) -> None:
    record = tmp_path / ".cache/huggingface/download/a.gguf.metadata"
    record.parent.mkdir(parents=True)
    record.write_text(f"{COMMIT}\netag\n1764464067.1\n")
    assert fetched_revision(tmp_path, "a.gguf") == COMMIT
    assert fetched_revision(tmp_path, "b.gguf") is None
