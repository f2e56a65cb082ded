"""What the truth server counted, in the exposition text of either engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gearshift.bench.truth.script import Flavour


@dataclass(slots=True)
class Tally:
    """Totals since the server's start; ``accepted_at`` by position in the draft."""

    requests: int = 0
    prompt: int = 0
    cached: int = 0
    generated: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    running: int = 0
    waiting: int = 0
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    decode_s: float = 0.0
    prefill_s: float = 0.0
    accepted_at: Counter[int] = field(default_factory=Counter)

    def step(self, tokens: int, draft: int) -> None:
        """One decode step that gave ``tokens`` out of ``draft`` drafted ones and its own."""
        self.steps += 1
        self.generated += tokens
        if not draft:
            return
        self.drafts += 1
        self.drafted += draft
        self.accepted += tokens - 1
        self.accepted_at.update(range(tokens - 1))


def exposition(tally: Tally, flavour: Flavour, *, draft: int) -> str:
    """The page ``/metrics`` of the flavour. llama-server prints six significant digits, vLLM all of them."""
    lines = _vllm(tally, draft) if flavour == "vllm" else _llamacpp(tally)
    return "\n".join(lines) + "\n"


def _vllm(tally: Tally, draft: int) -> list[str]:
    labels = 'engine="0",model_name="truth"'
    plain = {
        "num_requests_running": tally.running,
        "num_requests_waiting": tally.waiting,
        "kv_cache_usage_perc": min(1.0, tally.running / 64),
        "num_preemptions_total": 0,
        "prompt_tokens_total": tally.prompt,
        "prompt_tokens_cached_total": tally.cached,
        "generation_tokens_total": tally.generated,
        "prefix_cache_queries_total": tally.prompt,
        "prefix_cache_hits_total": tally.cached,
        "iteration_tokens_total_count": tally.steps,
        "time_to_first_token_seconds_sum": tally.ttft_s,
        "time_to_first_token_seconds_count": tally.requests,
        "request_time_per_output_token_seconds_sum": tally.tpot_s,
        "request_time_per_output_token_seconds_count": tally.requests,
    }
    lines = [f"vllm:{name}{{{labels}}} {float(value)}" for name, value in plain.items()]
    lines.append(f'vllm:request_success_total{{{labels},finished_reason="length"}} {float(tally.requests)}')
    if draft:
        lines += [
            f"vllm:spec_decode_num_drafts_total{{{labels}}} {float(tally.drafts)}",
            f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {float(tally.drafted)}",
            f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {float(tally.accepted)}",
        ]
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{position}"}} '
            f"{float(tally.accepted_at[position])}"
            for position in range(draft)
        ]
    return lines


def _llamacpp(tally: Tally) -> list[str]:
    plain = {
        "prompt_tokens_total": tally.prompt - tally.cached,
        "prompt_tokens_cached_total": tally.cached,
        "prompt_seconds_total": tally.prefill_s,
        "tokens_predicted_total": tally.generated,
        "tokens_predicted_seconds_total": tally.decode_s,
        "n_decode_total": tally.steps,
        "requests_processing": tally.running,
        "requests_deferred": tally.waiting,
        "spec_decode_num_drafts_total": tally.drafts,
        "spec_decode_num_draft_tokens_total": tally.drafted,
        "spec_decode_num_accepted_tokens_total": tally.accepted,
    }
    lines = [f"llamacpp:{name} {value:g}" for name, value in plain.items()]
    lines += [
        f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} {count}'
        for position, count in sorted(tally.accepted_at.items())
    ]
    return lines
