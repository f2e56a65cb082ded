"""llama-swap's YAML: one model of ours for each of theirs, with one variant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gearshift.advice.importers.imported import Imported, imported
from gearshift.advice.importers.llama_swap_model import TheirModel
from gearshift.config.document import read_document
from gearshift.domain.errors import ConfigError

_ENV = re.compile(r"\$\{env\.(\w+)\}")
_NEVER = 0  # their ttl

_GLOBAL_NOTES = {
    "matrix": "matrix: has no counterpart: variants stay together when their memory ledgers fit, see also groups:",
    "profiles": "profiles: aliases, or a model with several variants and a route, do their work",
    "selectors": "selectors: a model with several variants and route: auto does their work",
    "peers": "peers: requests are not passed on to other servers",
    "captures": "captures: requests and answers are not recorded",
    "captureBuffer": "captureBuffer: requests and answers are not recorded",
    "upstream": "upstream.ignorePaths: has no counterpart",
    "sendLoadingState": "sendLoadingState: a waiting stream gets comment lines instead of reasoning text",
    "includeAliasesInList": "includeAliasesInList: has no counterpart",
}
_SILENT = frozenset(
    {
        "models", "groups", "hooks", "routing", "macros", "apiKeys", "healthCheckTimeout", "unloadTimeout", "globalTTL",
        "startPort", "logLevel", "logTimeFormat", "logToStdout", "logRequests", "metricsMaxInMemory", "store", "ui",
        "performance", "matrix", "profiles", "selectors", "peers",
    }
)  # fmt: skip


def import_llama_swap(text: str, *, file: Path | None = None) -> Imported:
    """Carry a llama-swap configuration over. Raises ConfigError when it is not YAML, or has no model with a cmd."""
    document = read_document(text, file)
    work = _Import(document.tree)
    if not work.models:
        raise ConfigError((document.problem(("models",), "no model has a cmd: this is no llama-swap file"),))
    return work.run()


class _Import:
    """One file being carried over."""

    def __init__(self, tree: Mapping[str, object]) -> None:
        self.tree = tree
        self.notes: list[str] = []
        self.models = {
            name: TheirModel(name, value, tree.get("macros"))
            for name, value in _mapping(tree, "models").items()
            if isinstance(value, dict) and isinstance(value.get("cmd"), str)
        }
        self.notes += [f"{name}: has no cmd" for name in _mapping(tree, "models") if name not in self.models]
        self.notes.append(
            "listen: llama-swap has it on its command line, port 8080 on every address unless given; loopback only here"
        )

    def run(self) -> Imported:
        parts = {
            "api_keys": list(self._keys()),
            "defaults": self._defaults(),
            "models": {name: self._model(model) for name, model in self.models.items()},
            "groups": self._groups(),
            "preload": self._preload(),
        }
        self._note_rest()
        kept = {key: value for key, value in parts.items() if value}
        return imported("llama-swap", {"listen": "127.0.0.1:8080", **kept}, self.notes)

    def _model(self, model: TheirModel) -> dict[str, object]:
        section = model.section()
        self.notes += [f"{model.name}: {note}" for note in model.notes]
        return section

    def _keys(self) -> Iterator[dict[str, object]]:
        keys = self.tree.get("apiKeys")
        for number, key in enumerate(keys if isinstance(keys, list) else [], start=1):
            named = _ENV.fullmatch(str(key))
            variable = named[1] if named else f"GEARSHIFT_KEY_{number}"
            if not named:
                self.notes.append(
                    f"apiKeys: put key {number} into the environment variable {variable}, never into the file"
                )
            yield {"name": f"client-{number}", "key_env": variable}

    def _defaults(self) -> dict[str, object]:
        """Their health timeout is the load deadline and also the stop grace of a swap; ours are two settings."""
        defaults: dict[str, object] = {"load_timeout": f"{max(15, _number(self.tree, 'healthCheckTimeout', 120))}s"}
        defaults["stop_grace"] = f"{_number(self.tree, 'unloadTimeout', 10)}s"
        ttl = _number(self.tree, "globalTTL", _NEVER)
        defaults["idle"] = {"unload_after": f"{ttl}s" if ttl > 0 else "off"}
        return defaults

    def _router(self, name: str) -> Mapping[str, object]:
        """Settings of a router, in the present place or the one of older files."""
        settings = _mapping(_mapping(_mapping(self.tree, "routing"), "router"), "settings")
        return _mapping(settings, name) or _mapping(self.tree, name)

    def _groups(self) -> dict[str, object]:
        if self._router("matrix"):
            self.notes.append(_GLOBAL_NOTES["matrix"])
            return {}
        groups: dict[str, object] = {}
        grouped: set[str] = set()
        for name, group in self._router("groups").items():
            members = [str(member) for member in _list(group, "members")]
            known = [member for member in members if member in self.models and member not in grouped]
            self.notes += [
                f"group {name}: no model is called {member}" for member in members if member not in self.models
            ]
            grouped |= set(known)
            if known:
                groups[name] = {"members": known, **_switches(group)}
        return groups | self._rest_group(grouped, groups)

    def _rest_group(self, grouped: set[str], groups: Mapping[str, object]) -> dict[str, object]:
        """Models outside every group swap with each other and keep everything else out."""
        rest = [name for name in self.models if name not in grouped]
        if not rest:
            return {}
        self.notes.append(
            "the group `rest` keeps llama-swap's rule that one ungrouped model is loaded at a time; "
            "take it out and variants stay together wherever they fit"
        )
        name = "rest" if "rest" not in groups else "rest-of-llama-swap"
        return {name: {"members": rest, "swap": True, "exclusive": True}}

    def _preload(self) -> list[object]:
        wanted = [str(name) for name in _list(_mapping(_mapping(self.tree, "hooks"), "on_startup"), "preload")]
        aliases = {alias: model.name for model in self.models.values() for alias in model.aliases}
        found = [aliases.get(name, name) for name in wanted]
        self.notes += [f"preload: no model is called {name}" for name in found if name not in self.models]
        return [name for name in found if name in self.models]

    def _note_rest(self) -> None:
        self.notes += [note for key, note in _GLOBAL_NOTES.items() if key in self.tree and key != "matrix"]
        strangers = [key for key in self.tree if key not in _SILENT and key not in _GLOBAL_NOTES]
        self.notes += [f"{key}: is not known and was left out" for key in strangers]
        scheduler = _mapping(_mapping(_mapping(self.tree, "routing"), "scheduler"), "settings")
        if scheduler:
            self.notes.append(
                "routing.scheduler: queues are served in order of arrival, without priorities; see max_wait:"
            )


def _switches(group: object) -> dict[str, object]:
    """Their defaults written out: swap and exclusive are on."""
    given = group if isinstance(group, dict) else {}
    defaults = {"swap": True, "exclusive": True, "persistent": False}
    return {key: given[key] if isinstance(given.get(key), bool) else default for key, default in defaults.items()}


def _mapping(tree: object, key: str) -> Mapping[str, object]:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, dict) else {}


def _list(tree: object, key: str) -> list[object]:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, list) else []


def _number(tree: Mapping[str, object], key: str, default: int) -> int:
    value = tree.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
