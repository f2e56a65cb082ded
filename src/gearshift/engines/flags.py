"""Flag maps: looking a name up, keeping a map as JSON, and the packaged tables for engines that are not installed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from gearshift.domain.engine import Flag, FlagMap
from gearshift.domain.variant import EngineKind
from gearshift.engines.vllm_history import flags_of as vllm_flags_of

LLAMACPP_TABLE = "11434"  # llama.cpp build the packaged table was read from
VLLM_TABLE = "0.32.0"  # vLLM release likewise
_MMAP_GONE = 10884  # first build without --mmap, --no-mmap, --mlock, --direct-io


def plain_name(name: str) -> str:
    """A flag's name as a map knows it: no dashes in front, underscores as dashes."""
    return name.lstrip("-").replace("_", "-")


def find_flag(flags: FlagMap, name: str) -> Flag | None:
    """The flag a name, alias, dotted JSON key or unambiguous prefix (vLLM's argparse takes those) stands for."""
    plain = plain_name(name)
    if exact := flags.flags.get(plain):
        return exact
    if flags.kind != "vllm":
        return None
    stem, dot, _ = plain.partition(".")
    if dot:  # --speculative-config.method mtp sets one key of a JSON flag
        return flags.flags.get(stem)
    matches = {flag.name: flag for key, flag in flags.flags.items() if len(plain) > 1 and key.startswith(plain)}
    return next(iter(matches.values())) if len(matches) == 1 else None


def flag_map(kind: EngineKind, version: str | None, flags: Iterable[Flag], *, verified: bool) -> FlagMap:
    """A map with each flag under its name and every alias; a flag seen twice keeps its first form."""
    by_name: dict[str, Flag] = {}
    for flag in flags:
        for name in (flag.name, *flag.aliases):
            by_name.setdefault(name, flag)
    return FlagMap(kind=kind, version=version, flags=by_name, verified=verified)


def distinct(flags: FlagMap) -> tuple[Flag, ...]:
    """Every flag once, in the order of the map."""
    return tuple({flag.name: flag for flag in flags.flags.values()}.values())


def to_json(flags: FlagMap) -> str:
    """The map as text; ``from_json`` reads it back."""
    rows = [
        {
            key: value
            for key, value in (
                ("name", flag.name),
                ("aliases", flag.aliases),
                ("negations", flag.negations),
                ("takes_value", flag.takes_value),
                ("repeatable", flag.repeatable),
                ("choices", flag.choices),
                ("value_optional", flag.value_optional),
            )
            if value or key == "takes_value"
        }
        for flag in distinct(flags)
    ]
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    head = json.dumps({"kind": flags.kind, "version": flags.version})[1:-1]
    return f'{{{head}, "flags": [\n  {lines}\n]}}\n'


def from_json(text: str, *, verified: bool) -> FlagMap:
    """A map written by ``to_json``. Raises ValueError or KeyError on anything else."""
    document = json.loads(text)
    flags = (_flag(row) for row in document["flags"])
    return flag_map(document["kind"], document["version"], flags, verified=verified)


def packaged_flags(kind: EngineKind, version: str | None = None) -> FlagMap:
    """The flags an engine version is known to take, from the tables shipped with Gearshift; never ``verified``.

    vLLM 0.22 to 0.33 are derived from the 0.32.0 table and the record of what each release added and removed;
    a version outside that range gets the nearest table. A ``command`` engine has no flags.
    """
    if kind == "command":
        return FlagMap(kind=kind, version=version, flags={}, verified=False)
    if kind == "vllm":
        base = _table("vllm", VLLM_TABLE)
        derived = vllm_flags_of(version or VLLM_TABLE, distinct(base))
        return flag_map(kind, version or VLLM_TABLE, derived, verified=False)
    return replace(_llamacpp_table(version), version=version or LLAMACPP_TABLE)


def _llamacpp_table(version: str | None) -> FlagMap:
    table = _table("llama.cpp", LLAMACPP_TABLE)
    build = (version or LLAMACPP_TABLE).removeprefix("b").partition(".")[0]
    if not build.isdigit() or int(build) >= _MMAP_GONE:
        return table
    older = (
        Flag("mmap", aliases=("no-mmap",), negations=("no-mmap",), takes_value=False),
        Flag("mlock", takes_value=False),
        Flag("direct-io", takes_value=False),
    )
    return flag_map("llama.cpp", version, (*distinct(table), *older), verified=False)


@cache
def _table(kind: EngineKind, version: str) -> FlagMap:
    file = resources.files("gearshift.engines") / "tables" / f"{kind}-{version}.json"
    return from_json(file.read_text(encoding="utf-8"), verified=False)


def _flag(row: Mapping[str, Any]) -> Flag:
    return Flag(
        name=row["name"],
        aliases=tuple(row.get("aliases", ())),
        negations=tuple(row.get("negations", ())),
        takes_value=row["takes_value"],
        repeatable=row.get("repeatable", False),
        choices=tuple(row.get("choices", ())),
        value_optional=row.get("value_optional", False),
    )
