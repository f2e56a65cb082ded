"""What the fake engine remembers: requests it saw, how they ended, what its metrics count."""

import hashlib
import threading
from typing import Any

from fakes.engine.http import Request
from fakes.engine.options import Options

KEPT = 1000  # newest requests at /__seen
TEXT_LIMIT = 64 * 1024  # longer bodies are kept as size and hash only


class State:
    """Counters behind one lock; connections run in threads of their own."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.lock = threading.Lock()
        self.loaded = threading.Event()
        self.sleeping = False
        self.wake_failed = False
        self.grandchild: int | None = None
        self.closed_with: int | None = None  # the last websocket
        self.counts = {
            "started": 0,
            "finished": 0,
            "cancelled": 0,
            "active": 0,
            "prompt": 0,
            "generated": 0,
            "health_checks": 0,
        }
        self.seen: list[dict[str, Any]] = []

    def saw(self, request: Request) -> None:
        """Remember one request as it came."""
        text = request.body.decode("utf-8", "replace") if len(request.body) <= TEXT_LIMIT else None
        entry = {
            "method": request.method,
            "target": request.target,
            "headers": request.headers,
            "body_bytes": len(request.body),
            "body_sha256": hashlib.sha256(request.body).hexdigest(),
            "body": text,
        }
        with self.lock:
            self.seen = [*self.seen[-KEPT + 1 :], entry]

    def begin(self) -> int:
        """Count a generation in; returns its number, from 1."""
        with self.lock:
            self.counts["started"] += 1
            self.counts["active"] += 1
            return self.counts["started"]

    def end(self, outcome: str, prompt: int = 0, generated: int = 0) -> None:
        """Count it out as ``finished`` or ``cancelled``."""
        with self.lock:
            self.counts[outcome] += 1
            self.counts["active"] -= 1
            self.counts["prompt"] += prompt
            self.counts["generated"] += generated

    def hangs(self, number: int) -> bool:
        """Whether generation ``number`` gets no good answer any more."""
        after = self.options.hang_after
        if self.sleeping or self.wake_failed:
            return True
        return number > (after or 0) if after is not None or self.options.dead_health else False

    def report(self) -> dict[str, Any]:
        with self.lock:
            return {
                **self.counts,
                "requests": self.seen,
                "grandchild": self.grandchild,
                "sleeping": self.sleeping,
                "closed_with": self.closed_with,
            }


def metrics(state: State) -> str:
    """Prometheus text under the names of the engine that is played; three drafts of two tokens a request."""
    counts, drafts = state.counts, 3 * state.counts["finished"]
    if state.options.style == "vllm":
        label = f'{{model_name="{state.options.served[0]}",engine="0"}}'
        pairs = {
            f"vllm:num_requests_running{label}": counts["active"],
            f"vllm:num_requests_waiting{label}": 0,
            f"vllm:kv_cache_usage_perc{label}": 0.25,
            f"vllm:prompt_tokens_total{label}": counts["prompt"],
            f"vllm:generation_tokens_total{label}": counts["generated"],
            f"vllm:prompt_tokens_cached_total{label}": 0,
            f"vllm:num_preemptions_total{label}": 0,
        }
    else:
        pairs = {
            "llamacpp:requests_processing": counts["active"],
            "llamacpp:requests_deferred": 0,
            "llamacpp:prompt_tokens_total": counts["prompt"],
            "llamacpp:tokens_predicted_total": counts["generated"],
            "llamacpp:prompt_tokens_cached_total": 0,
        }
    pairs |= _speculation("vllm" if state.options.style == "vllm" else "llamacpp", drafts)
    return "".join(f"{name} {value}\n" for name, value in pairs.items())


def _speculation(prefix: str, drafts: int) -> dict[str, float]:
    stem = f"{prefix}:spec_decode_num"
    return {
        f"{stem}_drafts_total": drafts,
        f"{stem}_draft_tokens_total": 2 * drafts,
        f"{stem}_accepted_tokens_total": drafts,
        f'{stem}_accepted_tokens_per_pos_total{{position="0"}}': drafts * 2 // 3,
        f'{stem}_accepted_tokens_per_pos_total{{position="1"}}': drafts - drafts * 2 // 3,
    }
