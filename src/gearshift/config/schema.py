"""The shape of `gearshift.yaml`: one class a section, every key with its meaning and default.

Defaults are written as a person would write them in the file; a test holds them equal to `gearshift.domain`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from gearshift.config.fields import (
    OFF,
    Bytes,
    Command,
    Duration,
    Gpus,
    KvBytes,
    OffDuration,
    OffWait,
    Text,
    Tokens,
    Wait,
)
from gearshift.domain.settings import Role
from gearshift.domain.variant import EngineKind, ProbeKind


def key(default: object, description: str, **constraints: Any) -> Any:
    """A key of a section: its default as a person would write it (``...`` for none), its meaning, its bounds."""
    return Field(default, description=description, **constraints)


class Section(BaseModel):
    """A mapping of the file: strict types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


def _engine(value: object) -> object:
    """``vllm``, ``vllm==0.32.0`` and ``vllm@/path`` in their long form."""
    if not isinstance(value, str):
        return value
    kind, at, path = value.partition("@")
    kind, pinned, version = kind.partition("==")
    engine = {"kind": kind.strip()}
    if pinned:
        engine["version"] = version.strip()
    if at:
        engine["path"] = path.strip()
    return engine


def _probe(value: object) -> object:
    """``chat`` or ``http:/path`` in its long form."""
    if not isinstance(value, str):
        return value
    kind, colon, path = value.partition(":")
    return {"kind": kind, "path": path} if colon else {"kind": kind}


def _sleep(value: object) -> object:
    """``true``, ``1`` or ``2`` in its long form; false and off are no sleep."""
    if value is False or value == OFF:
        return None
    if value is True:
        return {}
    return {"level": value} if isinstance(value, int) else value


def _off_is_none(value: object) -> object:
    return None if value == OFF else value


class EnginePin(Section):
    """Which installation of one engine kind is meant."""

    version: Text | None = key(None, "A managed version, such as 0.32.0 or 11434.", min_length=1)
    path: str | None = key(None, "Your own installation: a binary, a virtual environment or its folder.", min_length=1)


class EngineSection(EnginePin):
    """An engine in its long form."""

    kind: EngineKind | None = key(None, "llama.cpp, vllm, or command for any other OpenAI-compatible server.")


class SpeculationSection(Section):
    """Speculative decoding in engine-neutral words."""

    method: str | None = key(None, "mtp, ngram, draft, or a method under the engine's own name.", min_length=1)
    tokens: int | None = key(None, "Tokens drafted per step; unset leaves it to the engine.", ge=1)
    draft: str | None = key(None, "Weights of the draft model, for method draft.", min_length=1)


class ProbeSection(Section):
    """How readiness is proved beyond the engine's health answer."""

    kind: ProbeKind = key("chat", "The request that must succeed; http is a GET, none trusts the health answer.")
    path: str | None = key(None, "The path that kind http asks for.", pattern="^/")


class SleepSection(Section):
    """vLLM sleep mode: an idle variant leaves the GPU but keeps its process."""

    level: Literal[1, 2] = key(1, "1 keeps the weights in host memory, 2 drops them.")
    ram: Bytes | None = key(None, "Host memory it may hold asleep; unset is the weights' size.")
    wake_timeout: Wait = key("15s", "A wake without a token in this time becomes a cold start.")


EngineChoice = Annotated[EngineSection, BeforeValidator(_engine, json_schema_input_type=str | EngineSection)]
ProbeChoice = Annotated[ProbeSection, BeforeValidator(_probe, json_schema_input_type=str | ProbeSection)]
SpeculationChoice = Annotated[
    SpeculationSection | None,
    BeforeValidator(_off_is_none, json_schema_input_type=SpeculationSection | Literal["off"] | None),
]
SleepChoice = Annotated[
    SleepSection | None,
    BeforeValidator(_sleep, json_schema_input_type=SleepSection | bool | Literal[1, 2, "off"] | None),
]


class IdleSection(Section):
    """What happens to a variant without requests."""

    unload_after: OffWait = key("10m", "Idle time after which it is stopped; off keeps it.")


class FiltersSection(Section):
    """Edits of the request body beyond the model's name."""

    drop: list[str] = key([], "Top-level keys taken out of every request.")
    force: dict[str, JsonValue] = key({}, "Top-level keys set whatever the client says.")


class RequestSection(Section):
    """What a model and each of its variants may set for requests."""

    sampling: dict[str, JsonValue] = key({}, "Request keys set where the client is silent.")
    filters: FiltersSection = key({}, "Request keys dropped or forced.")


class DefaultsSection(RequestSection):
    """Values that every variant starts from."""

    load_timeout: Wait = key("10m", "A load that takes longer than this in total fails.")
    stall_timeout: OffWait = key("3m", "A load fails after this long without a log line and without CPU time.")
    stop_grace: Duration = key("15s", "Time between SIGTERM and SIGKILL.")
    memory_timeout: Wait = key(
        "30s", "A stop fails, and says who holds the memory, if it is not back within this time."
    )
    drain_timeout: OffDuration = key(
        "off", "Requests still running this long after a swap was decided are interrupted."
    )
    max_wait: Duration = key("1m", "A resident variant gives way once a request for another has waited this long.")
    min_resident: Duration = key("10s", "A variant that was just loaded is not swapped out before this.")
    idle: IdleSection = key({}, "What happens to a variant without requests.")
    probe_every: OffWait = key("30s", "Interval between liveness probes of a ready engine.")
    probe_timeout: Wait = key("30s", "An engine that takes longer than this to answer a probe counts as hung.")
    queue_limit: int = key(100, "Requests that may wait for a variant; past it the answer is 429.", ge=1)
    meter: Literal["active", "passive"] = key(
        "active", "active asks streams for their token counts; passive changes no request."
    )
    env: dict[str, Text] = key({}, "Environment variables of the engine, added to a short allow-list of yours.")


class VariantSection(DefaultsSection):
    """One way to run a model."""

    engine: EngineChoice | None = key(
        None, "llama.cpp, vllm or command; vllm==0.32.0 pins a version, vllm@PATH is your own."
    )
    extends: str | None = key(
        None, "Start from another variant (name, or model:name); what is written here overrides it."
    )
    weights: str | None = key(None, "A file or folder, or a Hugging Face id where no such path exists.", min_length=1)
    context: Tokens | None = key(None, "Tokens of one request at most; unset is the engine's choice.")
    gpus: Gpus | None = key(None, "NVML indices or GPU UUIDs; unset is every device of the box.")
    speculation: SpeculationChoice = key(None, "Speculative decoding; off removes what extends brought.")
    kv_dtype: str | None = key(None, "Type of the KV cache; for llama.cpp K,V may name two.", min_length=1)
    kv_bytes: KvBytes | None = key(
        None, "Bytes of the KV pool per GPU; auto is what the planner finds for the context (vLLM)."
    )
    parallel: int | None = key(None, "Slots (llama.cpp) or sequences at once (vLLM).", ge=1)
    template: str | None = key(None, "A chat template file instead of the model's own.", min_length=1)
    probe: ProbeChoice = key(
        {"kind": "chat"}, "How readiness is proved: chat, completion, embedding, rerank, http:PATH or none."
    )
    max_inflight: int | None = key(
        None, "Requests passed to the engine at once; unset is parallel, else the engine's slots.", ge=1
    )
    memory: dict[str, Bytes] | Bytes | None = key(
        None, "Declared bytes: one figure for each device, or a mapping from device to bytes."
    )
    args: dict[str, JsonValue] = key(
        {}, "The engine's own long flags without dashes; true is a bare flag, false its --no- form."
    )
    command: Command | None = key(None, "What starts a command engine; ${port} is its port.")
    stop: Command | None = key(None, "What stops a command engine, instead of SIGTERM.")
    upstream: str | None = key(
        None, "Where a command engine answers, if not on the port given to it.", pattern="^https?://"
    )
    sleep: SleepChoice = key(None, "vLLM sleep mode when idle, instead of a stop: true, a level, or its settings.")


class ModelSection(RequestSection):
    """What a client asks for by name."""

    aliases: list[str] = key([], "Other names of the model.")
    route: str = key("auto", "Which variant the bare name means: auto (the one nearest to answering), or a name.")
    variants: dict[str, VariantSection] = key(..., "The ways to run it, by name.", min_length=1)


class ApiKeySection(Section):
    """One client's key; the secret itself is never in this file."""

    name: str = key(..., "Shown in logs and statistics.", min_length=1)
    key_env: str | None = key(None, "Environment variable that holds the secret.", min_length=1)
    key_file: str | None = key(None, "File that holds the secret.", min_length=1)
    role: Role = key("client", "An operator may also use the admin API from another machine.")


class GroupSection(Section):
    """Overrides what the memory ledgers say about which variants fit beside each other."""

    members: list[str] = key(..., "Variants (model:name), or models with all of theirs.", min_length=1)
    swap: bool = key(default=True, description="At most one member is resident.")
    exclusive: bool = key(
        default=False, description="A resident member keeps everything outside the group off the box."
    )
    persistent: bool = key(default=False, description="Members are never stopped to make room.")


class SideSection(Section):
    """How side requests (titles, tags) are told apart; they never cause a swap."""

    headers: dict[str, str] = key({}, "Header name to value; * is any value.")
    aliases: list[str] = key([], "Names that are answered by a resident variant only.")


class EnginesSection(Section):
    """The installation that variants use when they name none."""

    llama_cpp: EnginePin | None = key(None, "llama.cpp's server.", alias="llama.cpp")
    vllm: EnginePin | None = key(None, "vLLM.")


class FileSection(Section):
    """A whole `gearshift.yaml`."""

    listen: str | int = key("127.0.0.1:8888", "HOST:PORT, or a port on 127.0.0.1.")
    api_keys: list[ApiKeySection] = key([], "Clients' keys; none is allowed on loopback only.")
    allow_open: bool = key(
        default=False, description="Listen beyond loopback without keys. Anybody who reaches the port can use it."
    )
    cors_origins: list[str] = key([], "Web pages (scheme://host) whose scripts may call.")
    allowed_hosts: list[str] = key([], "Host headers answered beside loopback and the listen address.")
    body_limit: Bytes = key("256MiB", "Largest request body.", gt=0)
    memory: Bytes | None = key(None, "Budget of the device cpu on a box without a GPU; unset is the host's memory.")
    keepalive: Wait = key("10s", "Interval of the keep-alive comments that a waiting stream gets.")
    engines: EnginesSection = key({}, "Default installation of each engine.")
    defaults: DefaultsSection = key({}, "Values that every variant starts from.")
    models: dict[str, ModelSection] = key({}, "What clients may ask for, by name.")
    groups: dict[str, GroupSection] = key({}, "Swap groups by name.")
    preload: list[str] = key([], "Variants or models loaded at the start, in order.")
    side: SideSection = key({}, "How side requests are recognised.")


SCHEMA_FILE = Path(__file__).with_name("schema.json")
"""The packaged schema, so that an editor can be pointed at it."""


def json_schema() -> dict[str, Any]:
    """The JSON schema that editors check a file against; every key is described."""
    schema = FileSection.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "gearshift.yaml"}
