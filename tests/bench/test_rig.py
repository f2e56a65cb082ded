"""Cells measured on a truth server: the figures, and what makes a cell worthless."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from gearshift.bench.bodies import Ask
from gearshift.bench.cell import CellResult
from gearshift.bench.client import Client, TargetError
from gearshift.bench.plan import CellPlan
from gearshift.bench.records import from_record, to_record
from gearshift.bench.rig import Prepared, Rig
from gearshift.bench.trial import Trial
from gearshift.bench.truth import Script, TruthServer, serve
from gearshift.bench.validity import Limits
from gearshift.domain.telemetry import GpuReading

pytestmark = pytest.mark.anyio
FAST = Script(ttft_s=0.02, step_s=0.002)
# The suite shares its cores with others; that a late client is flagged is tested with numbers in test_validity.
PATIENT = Limits(decode_share=1000.0, ttft_share=1000.0, cpu=2.0)
CELL = CellPlan("concurrency", depth=64, output=16, requests=4, trials=2)


async def measure(script: Script, plan: CellPlan) -> CellResult:
    async with serve(script) as server, Rig(server.url, limits=PATIENT) as rig:
        return await rig.cell(plan)


def names(result: CellResult) -> set[str]:
    return {flag.name for flag in result.flags}


async def test_a_cell_has_the_truths_figures_with_intervals() -> None:
    result = await measure(FAST, replace(CELL, concurrency=2, trials=3))

    assert result.tpot_s is not None
    assert result.ttft_s is not None
    assert 0 < result.tpot_s.median < result.ttft_s.median  # how exact it is, benchmarks/truth proves
    assert result.ttft_s.median >= 0.02
    assert result.ttft_s.low is not None
    document = result.to_json()
    assert document["tokens"] == {"usage": 192, "client": 192, "server": 192.0}
    assert document["trials"] == 3
    assert result.tokens_per_step == 1.0


async def test_the_starts_of_a_trial_are_spread_unless_a_burst_is_asked_for() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        spread = await rig.prepare(replace(CELL, concurrency=2))
        burst = await rig.prepare(replace(CELL, concurrency=2, burst=True))
    assert spread.spread_s >= FAST.ttft_s
    assert burst.spread_s == 0.0


async def test_prompts_have_the_exact_length_by_the_servers_tokenizer() -> None:
    result = await measure(replace(FAST, template_tokens=0), replace(CELL, depth=200))
    prompts = {sample.usage.prompt for trial in result.trials for sample in trial.samples if sample.usage}
    assert prompts == {200}


async def test_a_prompt_shorter_than_can_be_made_is_flagged_and_stays_so_in_the_store() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        result = await rig.cell(replace(CELL, depth=8))
        record = to_record(result, rig.target)
    again = from_record(record, record.trials, PATIENT)
    assert "prompt_length_off" in names(result) & names(again)


async def test_random_token_ids_go_as_ids() -> None:
    plan = replace(CELL, kind="ids", dialect="completions", depth=77)
    result = await measure(FAST, plan)
    prompts = {sample.usage.prompt for trial in result.trials for sample in trial.samples if sample.usage}
    assert prompts == {77}


async def test_a_cold_cell_stays_cold_on_a_server_that_caches() -> None:
    result = await measure(replace(FAST, cache=True), CELL)
    assert result.valid
    assert "cache_was_warm" not in names(result)


async def test_a_cold_cell_that_was_warm_is_invalid() -> None:
    plan = replace(CELL, depth=600, extra={"messages": [{"role": "user", "content": "the same words " * 200}]})
    result = await measure(replace(FAST, cache=True), plan)
    assert "cache_was_warm" in names(result)
    assert not result.valid


async def test_a_warm_cell_that_was_cold_is_invalid() -> None:
    plan = replace(CELL, cache="warm", shared_prefix=48)
    assert "cache_was_cold" in names(await measure(replace(FAST, cache=False), plan))


async def test_a_warm_cell_is_warm() -> None:
    plan = replace(CELL, depth=320, cache="warm", shared_prefix=256)
    result = await measure(replace(FAST, cache=True), plan)
    assert "cache_was_cold" not in names(result)
    assert result.valid


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
async def test_other_traffic_during_a_cell_makes_it_invalid(flavour: str) -> None:
    script = replace(FAST, flavour=flavour)  # type: ignore[arg-type]  # parametrised text is one of the two literals
    async with serve(script) as server, Rig(server.url, limits=PATIENT) as rig, Client(server.url) as stranger:

        async def disturb() -> None:
            while True:
                await stranger.send(Ask("truth", 8).call("hello"), epoch=0.0)

        task = asyncio.create_task(disturb())
        result = await rig.cell(replace(CELL, trials=1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "foreign_requests" in names(result)
    assert not result.valid


async def test_a_drafter_that_never_drafts_raises_the_alarm() -> None:
    async with serve(replace(FAST, draft=2)) as server, Rig(server.url, limits=PATIENT) as rig:
        result = await rig.cell(replace(CELL, extra={"truth": {"draft": 0}}))
    assert "silent_speculation" in names(result)


async def test_acceptance_is_unconditional_per_position() -> None:
    result = await measure(replace(FAST, draft=2, tokens_per_chunk=(1, 3)), CELL)
    assert result.acceptance is not None
    assert result.acceptance.per_position == pytest.approx((0.5, 0.5))
    assert result.acceptance.mean_length == pytest.approx(2.0)
    assert result.tokens_per_step == pytest.approx(2.0)


async def test_failed_requests_make_a_cell_invalid_and_are_quoted() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig:
        prepared = await rig.prepare(CELL)
        broken = replace(prepared, ask=replace(prepared.ask, extra={"truth": {"die_after": 3}}))
        result = rig.result(broken, [await rig.trial(broken, 0)])
    assert "nothing_succeeded" in names(result)
    assert not result.valid
    assert result.to_json()["tpot_s"] is None


async def test_a_refused_model_or_prompt_is_an_error_before_any_trial() -> None:
    with pytest.raises(TargetError, match="exceeds the context"):
        await measure(replace(FAST, context=32), CELL)


async def test_needles_are_scored_in_the_same_cell() -> None:
    plan = replace(CELL, depth=300, needles=(0.1, 0.9))
    found = await measure(FAST, plan)
    missed = await measure(replace(FAST, recall=False), plan)
    assert found.needle is not None
    assert (found.needle.asked, found.needle.found) == (8, 8)
    assert missed.needle is not None
    assert missed.needle.found == 0


async def test_a_single_trial_is_called_one() -> None:
    result = await measure(FAST, replace(CELL, trials=1))
    assert "single_run" in names(result)
    assert result.tpot_s is not None
    assert result.tpot_s.low is None


class Stalling(Rig):
    """This client's loop stands still for a moment in the trials of these numbers, counted from 1."""

    def __init__(self, server: TruthServer, *stalls: int) -> None:
        super().__init__(server.url, limits=replace(PATIENT, decode_share=15.0))  # 0.45 s in a decode of 30 ms
        self._server = server
        self._stalls = stalls
        self.run = 0

    async def trial(self, prepared: Prepared, number: int, *, boot: int = 0) -> Trial:
        self.run += 1
        if self.run not in self._stalls:
            return await super().trial(prepared, number, boot=boot)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stall())
            return await super().trial(prepared, number, boot=boot)

    async def _stall(self) -> None:
        """Once the trial's first request is being answered."""
        while not self._server.engine.tally.running:
            await asyncio.sleep(0.001)
        time.sleep(1.5)  # noqa: ASYNC251 - what a client does that is late


async def test_a_trial_in_which_the_client_was_late_is_run_again_and_told() -> None:
    async with serve(FAST) as server, Stalling(server, 1) as rig:
        result = await rig.cell(CELL)
    assert rig.run == 3
    assert [trial.attempts for trial in result.trials] == [2, 1]
    assert "trials_run_again" in names(result)
    assert result.valid
    again = from_record(record := to_record(result, rig.target), record.trials)
    assert [trial.attempts for trial in again.trials] == [2, 1]


async def test_a_client_that_stays_late_has_its_cell_invalid_after_a_few_tries() -> None:
    async with serve(FAST) as server, Stalling(server, 1, 2, 3) as rig:
        result = await rig.cell(CELL)
    assert rig.run == 3
    assert "client_overloaded" in names(result)


async def test_a_busy_core_during_a_cell_is_flagged() -> None:
    burn = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"
    truth = [sys.executable, "-m", "gearshift.bench.truth", '{"ttft_s": 0.1, "step_s": 0.02}']
    with subprocess.Popen(truth, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with subprocess.Popen([sys.executable, "-c", burn]) as burner:
            async with Rig(url, limits=PATIENT) as rig:
                result = await rig.cell(replace(CELL, trials=1, requests=2))
            burner.kill()
        server.kill()
    assert "busy_cores" in names(result)


async def test_an_open_loop_sends_on_its_schedule() -> None:
    result = await measure(FAST, replace(CELL, trials=1, rate=200.0, requests=6))
    planned = [sample.planned_s for sample in result.trials[0].samples]
    assert planned[0] == 0.0
    assert None not in planned


class ScriptedGpu:
    """One GPU whose energy counter rises by a joule a reading."""

    def __init__(self, throttle: tuple[str, ...] = ()) -> None:
        self.throttle = throttle
        self.reads = 0

    def read(self) -> list[GpuReading]:
        self.reads += 1
        return [GpuReading("GPU-1", 1500 + self.reads, None, 200.0, 60, 2**30, float(self.reads), self.throttle)]


async def test_a_gpu_is_watched_beside_a_local_server() -> None:
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT, telemetry=ScriptedGpu(("thermal",))) as rig:
        result = await rig.cell(replace(CELL, trials=1))
    (gpu,) = result.trials[0].gpus
    assert (gpu.power_w, gpu.temperature_c, gpu.used_bytes) == (200.0, 60, 2**30)
    assert gpu.energy_j is not None
    assert result.energy_j_per_token == pytest.approx(gpu.energy_j / 64)
    assert "gpu_throttled" in names(result)
    record = to_record(result, rig.target)
    assert from_record(record, record.trials, PATIENT).trials[0].gpus == result.trials[0].gpus


async def test_beside_a_server_elsewhere_this_boxes_gpus_are_not_read() -> None:
    gpu = ScriptedGpu(("thermal",))
    async with serve(FAST) as server:
        elsewhere = server.url.replace("127.0.0.1", "0.0.0.0")  # leads here too, by a name that is not loopback's
        async with Rig(elsewhere, limits=PATIENT, telemetry=gpu) as rig:
            result = await rig.cell(replace(CELL, trials=1))
    assert gpu.reads == 0
    assert result.trials[0].gpus == ()
    assert (result.to_json()["gpus"], result.energy_j_per_token) == (None, None)
    assert "gpu_throttled" not in names(result)


async def test_the_engines_pages_may_be_elsewhere_than_its_endpoint() -> None:
    async with (
        serve(FAST) as engine,
        serve(replace(FAST, flavour="llama.cpp")) as gateway,
        Client(gateway.url, control_url=engine.url + "/v1/") as client,
    ):
        assert await client.get_json("/version") == {"version": "truth"}
        sample = await client.send(Ask("truth", 3).call("x"), epoch=0.0)
    assert sample.timings is not None


async def test_a_probe_tells_the_pace() -> None:
    async with serve(replace(FAST, prefill_tok_s=20_000, ttft_s=0.0)) as server, Rig(server.url, limits=PATIENT) as rig:
        pace = await rig.pace()
    assert 0 < pace.prefill_tok_s <= 20_000 * 1.1  # the template's tokens count too
    assert pace.decode_tok_s > 0


async def test_a_request_that_is_still_running_before_a_trial_is_waited_for() -> None:
    """It ends within the wait, so the trial's counters hold the trial's tokens alone."""
    async with serve(FAST) as server, Rig(server.url, limits=PATIENT) as rig, Client(server.url) as stranger:
        prepared = await rig.prepare(CELL)
        before = asyncio.create_task(stranger.send(Ask("truth", 20).call("hello"), epoch=0.0))
        async with asyncio.timeout(5):
            while not server.engine.tally.running:
                await asyncio.sleep(0.001)
        trial = await rig.trial(prepared, 0)
        await before
    assert trial.counted is not None
    assert trial.counted.counters.generated_tokens == 64
