"""What an operator may ask of the server, and what is refused because of when it is asked."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from control.conftest import TWO, Harness, MakeControl
from gearshift.advice.provenance import ProvenanceReader, Running
from gearshift.advice.provenance_files import FileFacts
from gearshift.artifacts.hashes import Promise
from gearshift.config import parse_config
from gearshift.control import Jobs, Reloading, ServerAdmin
from gearshift.control.provenance import PublicProvenance, public
from gearshift.domain.errors import DrainingError, GearshiftError, NotRunningError, UnknownIdError
from gearshift.domain.provenance import EngineBuild, Provenance, WeightFile
from gearshift.domain.redaction import HIDDEN

pytestmark = pytest.mark.anyio


def admin_of(it: Harness, folder: Path) -> ServerAdmin:
    return ServerAdmin(
        it.control,
        reloading=Reloading(it.control, it.preparation, None, lambda: parse_config(TWO, file=None, env={})),
        jobs=Jobs(folder, {}, lambda _job: None),
        provenance=ProvenanceReader("0", it.preparation.devices, None),
        listen="http://127.0.0.1:8888",
        stop=lambda: None,
    )


async def test_a_stopping_server_starts_no_jobs(make: MakeControl, tmp_path: Path) -> None:
    admin = admin_of(make(), tmp_path)
    admin.shutdown()
    with pytest.raises(DrainingError, match="stopping"):
        admin.start_job(["plan"])
    assert admin.jobs() == ()


async def test_ids_of_nothing_are_told_apart_from_other_refusals(make: MakeControl, tmp_path: Path) -> None:
    admin = admin_of(make(), tmp_path)
    with pytest.raises(UnknownIdError, match="'gone'"):
        admin.end_lease("gone")
    with pytest.raises(UnknownIdError, match="'gone'"):
        admin.cancel_job("gone")
    lease = await admin.take_lease("m:a", exclusive=False, ttl_s=60)
    with pytest.raises(GearshiftError, match="cannot last") as caught:
        admin.renew_lease(lease.id, ttl_s=-1)
    assert not isinstance(caught.value, UnknownIdError)
    admin.end_lease(lease.id)


async def test_only_what_runs_tells_what_it_is(make: MakeControl, tmp_path: Path) -> None:
    it = make()
    admin = admin_of(it, tmp_path)
    with pytest.raises(NotRunningError, match="m:a is stopped, and only a running variant") as caught:
        await admin.provenance("m:a")
    assert caught.value.hint == "load it first: gearshift load m:a"
    await admin.load("m:a")
    it.launcher.child("m:a").pids = (os.getpid(),)
    found = await admin.provenance("m:a")
    assert (found.variant, found.gearshift, found.engine) == ("m:a", "0", EngineBuild("command", "0.32.0", None))
    assert found.argv
    it.launcher.child("m:a").pids = ()  # it runs elsewhere
    assert (await admin.provenance("m:a")).argv is None
    await admin.unload("m:a")
    with pytest.raises(NotRunningError):
        await admin.provenance("m:a")


async def test_files_are_hashed_beside_the_loop_and_once_for_all_who_ask(tmp_path: Path) -> None:
    held, read = threading.Event(), list[Path]()

    def slowly(path: Path) -> Promise:
        held.wait()
        read.append(path)
        return Promise(4, "5a")

    weights = tmp_path / "q8.gguf"
    weights.write_bytes(b"gguf")
    proc = tmp_path / "proc"
    (proc / "7").mkdir(parents=True)
    (proc / "7/cmdline").write_bytes(b"engine\0--model\0%b\0" % str(weights).encode())
    (proc / "7/environ").write_bytes(b"")
    public_provenance = PublicProvenance(ProvenanceReader("0", (), None, files=FileFacts(slowly), proc=proc))
    running = Running("m:a", EngineBuild("llama.cpp", None, None), 7, 41001)
    asked = [asyncio.create_task(public_provenance.of(running)) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)  # the loop goes on
    assert not any(task.done() for task in asked)
    held.set()
    first, *others = await asyncio.gather(*asked)
    assert [one.sha256 for one in first.weights or ()] == ["5a"]
    assert others == [first, first]
    assert read == [weights]


async def test_keys_and_home_folders_are_not_told() -> None:
    box = ProvenanceReader("0", (), None).read(Running("m:a", EngineBuild("vllm", None, None), None, 1)).hardware
    found = Provenance(
        gearshift="0",
        variant="m:a",
        engine=EngineBuild("vllm", "0.32.0", None),
        argv=("vllm", "serve", "/home/anna/qwen", "--api-key", "first", "second", "--hf-token=third", "--port", "PORT"),
        env={"HF_HOME": "/home/anna/hf", "HF_ENDPOINT": "https://anna:fourth@hub.example"},
        weights=(WeightFile("/home/anna/qwen/model.safetensors", 1, None),),
        template_sha256=None,
        hardware=box,
    )
    clean = public(found)
    assert clean == replace(
        found,
        argv=["vllm", "serve", "~/qwen", "--api-key", HIDDEN, HIDDEN, f"--hf-token={HIDDEN}", "--port", "PORT"],
        env={"HF_HOME": "~/hf", "HF_ENDPOINT": "https://hub.example"},
        weights=(WeightFile("~/qwen/model.safetensors", 1, None),),
    )


async def test_a_share_in_a_lease_needs_no_turn_and_ends_with_it(make: MakeControl, tmp_path: Path) -> None:
    it = make()
    with pytest.raises(UnknownIdError, match="no lease 'gone'"):
        it.control.share("gone", "m:a")  # before anybody may hold one
    admin = admin_of(it, tmp_path)
    lease = await admin.take_lease("m:a", exclusive=True, ttl_s=60)
    assert await it.control.request("m:a").wait(0) is None  # it is exclusive
    done, going = it.control.share(lease.id, "m:a"), it.control.share(lease.id, "m:a")
    done.release()
    assert (going.variant.id, going.queued_s, going.load_s) == ("m:a", 0.0, 0.0)
    assert it.control.in_flight("m:a") == 1
    with pytest.raises(UnknownIdError, match="is on m:a, not on m:b"):
        it.control.share(lease.id, "m:b")
    admin.end_lease(lease.id)
    assert await going.revoked() == "the operator's lease it was under has ended: released"
    assert not asyncio.ensure_future(done.revoked()).done()
    with pytest.raises(UnknownIdError, match="there is no lease"):
        it.control.share(lease.id, "m:a")
