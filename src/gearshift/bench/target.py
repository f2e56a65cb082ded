"""What is known of the server under test, from its own pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gearshift.bench import counters
from gearshift.bench.client import Client, TargetError
from gearshift.bench.cores import listener

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True, slots=True)
class Target:
    """A server under test. None = it does not say. ``provenance`` is what a Gearshift behind the URL adds."""

    url: str
    model: str
    engine: str | None = None  # "vllm" | "llama.cpp"
    engine_version: str | None = None
    context: int | None = None
    slots: int | None = None
    metrics: bool = False
    speculative: bool | None = None  # a drafter is configured
    pid: int | None = None  # the listening process, where it runs on this box as this user
    provenance: Mapping[str, object] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """Whether the server runs on this box, so that its cores are the client's cores."""
        return urlsplit(self.url).hostname in _LOOPBACK

    @property
    def pids(self) -> tuple[int, ...]:
        """Roots of the engine's process trees on this box."""
        return (self.pid,) if self.pid is not None else ()

    def to_json(self) -> dict[str, object]:
        """The target as results carry it: the process id is of no use to a reader."""
        known = asdict(self)
        del known["pid"]
        return known | {"provenance": dict(self.provenance)}


async def identify(
    client: Client, model: str | None = None, *, provenance: Mapping[str, object] | None = None
) -> Target:
    """Read the server's pages; with no ``model`` its only one is taken.

    Raises:
        TargetError: unreachable, no such model, or several models and none named.
    """
    listed = _models(await client.get_json("/v1/models"))
    chosen = _choose(model, listed, client.base_url)
    props = await client.get_json("/props") or {}
    version = await client.get_json("/version") or {}
    page = await client.get_text("/metrics")
    reading = counters.read(page) if page is not None else None
    return Target(
        url=client.base_url,
        model=chosen,
        engine=_engine(props, version, reading),
        engine_version=props.get("build_info") or version.get("version"),
        context=_context(props, listed.get(chosen, {})),
        slots=props.get("total_slots"),
        metrics=reading is not None and reading.engine is not None,
        speculative=await _speculative(client, reading),
        pid=_pid(client.control_url),
        provenance=provenance or {},
    )


def _models(page: Any) -> dict[str, dict[str, Any]]:
    rows = page.get("data", []) if isinstance(page, dict) else []
    return {str(row["id"]): row for row in rows if isinstance(row, dict) and "id" in row}


def _choose(model: str | None, listed: Mapping[str, object], url: str) -> str:
    if model is not None:
        return model  # an alias or model:variant need not be listed; the first request tells
    if len(listed) == 1:
        return next(iter(listed))
    names = ", ".join(listed) or "none"
    msg = f"{url} lists {len(listed)} models: {names}"
    raise TargetError(msg, hint="name one with --model")


def _engine(props: Mapping[str, Any], version: Mapping[str, Any], reading: counters.Reading | None) -> str | None:
    if reading is not None and reading.engine is not None:
        return reading.engine
    if "build_info" in props:
        return "llama.cpp"
    return "vllm" if "version" in version else None


def _context(props: Mapping[str, Any], row: Mapping[str, Any]) -> int | None:
    """llama-server's per-slot context, or vLLM's max_model_len."""
    settings = props.get("default_generation_settings")
    if isinstance(settings, dict) and isinstance(settings.get("n_ctx"), int):
        return int(settings["n_ctx"])
    found = row.get("max_model_len")
    return int(found) if isinstance(found, int) else None


async def _speculative(client: Client, reading: counters.Reading | None) -> bool | None:
    """Whether a drafter is configured: vLLM has the counters only then, llama-server says it of each slot."""
    if reading is not None and reading.engine == "vllm":
        return reading.counters.drafts is not None
    slots = await client.get_json("/slots")
    if isinstance(slots, list) and slots and isinstance(slots[0], dict):
        return bool(slots[0].get("speculative"))
    return None


def _pid(url: str) -> int | None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return listener(port) if parts.hostname in _LOOPBACK else None
