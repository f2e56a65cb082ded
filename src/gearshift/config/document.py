"""YAML text to a plain tree that remembers the line of every key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

from gearshift.config.keypath import KeyPath, child, dotted
from gearshift.config.scalars import plain_scalar
from gearshift.domain.errors import ConfigError, Problem, ProblemSeverity

MAX_BYTES = 1024**2
MAX_DEPTH = 40
MAX_NODES = 50_000  # after aliases are expanded, so that a few nested aliases cannot fill the memory

_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset({"null", "bool", "int", "float", "str", "seq", "map", "merge", "timestamp", "value"})


@dataclass(frozen=True, slots=True)
class Document:
    """A file as plain dicts, lists and scalars; ``lines`` is 1-based by path. ``problems`` do not stop the reading."""

    tree: dict[str, object]
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...]
    file: Path | None = None

    def line_of(self, path: KeyPath) -> int | None:
        """The line of the path or of its nearest ancestor that the file has."""
        for end in range(len(path), 0, -1):
            if (line := self.lines.get(path[:end])) is not None:
                return line
        return 1 if self.tree else None

    def problem(
        self, path: KeyPath, message: str, *, hint: str | None = None, severity: ProblemSeverity = "error"
    ) -> Problem:
        """A problem with its place filled in."""
        return Problem(message, dotted(path), self.line_of(path), hint, severity, self.file)

    def get(self, path: KeyPath) -> object:
        """The value at a path, None where the file has none."""
        value: object = self.tree
        try:
            for part in path:
                value = child(value, part)
        except LookupError:
            return None
        return value


def decode(raw: bytes, file: Path | None) -> str:
    """Text of a configuration file. Raises ConfigError when it is too long or not UTF-8."""
    if len(raw) > MAX_BYTES:
        _refuse(f"{len(raw)} bytes is too long for a configuration", None, file, hint=f"at most {MAX_BYTES}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        _refuse(f"byte 0x{raw[error.start]:02x} is not UTF-8", line, file, hint="save the file as UTF-8")


def read_document(text: str, file: Path | None = None) -> Document:
    """Parse one YAML document whose top is a mapping.

    Raises ConfigError when there is nothing to go on with: bad syntax, an empty file, nesting or aliases without end.
    """
    root = _compose(text, file)
    if root is None:
        _refuse("the file is empty", None, file, hint="write a first one: gearshift config init")
    if not isinstance(root, yaml.MappingNode):
        _refuse("the top of the file is not a mapping of keys", 1, file, hint="write for example models: ...")
    reader = _Reader(file)
    tree = reader.mapping(root, ())
    return Document(tree, reader.lines, tuple(reader.problems), file)


def _compose(text: str, file: Path | None) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_BoundedLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        _refuse(f"not YAML: {_described(error)}", line, file, hint=_syntax_hint(error, text))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        _refuse(f"not YAML: character {error.character!r} is not allowed", line, file)


def _described(error: yaml.MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)


def _syntax_hint(error: yaml.MarkedYAMLError, text: str) -> str | None:
    if "'\\t'" in str(error.problem):
        return "YAML indents by spaces, never by tabs"
    mark = error.problem_mark
    if mark is not None and any("${" in line for line in text.splitlines()[mark.line : mark.line + 1]):
        return "inside { } and [ ] a text with ${...} needs quotes"
    return None


def _refuse(message: str, line: int | None, file: Path | None, *, hint: str | None = None) -> NoReturn:
    raise ConfigError((Problem(message, dotted(()), line, hint, file=file),)) from None


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML composes by recursion: nesting is counted before Python's own limit is met."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            msg = f"nested deeper than {MAX_DEPTH} levels"
            raise yaml.MarkedYAMLError(problem=msg, problem_mark=self.get_mark())
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class _Reader:
    """Walks the nodes once: expands aliases and merge keys, notes lines, collects what is wrong."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._open: set[int] = set()  # nodes being expanded: meeting one again is an alias to itself

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        tree: dict[str, object] = {}
        own: dict[str, int] = {}
        merged: list[yaml.MappingNode] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if _is_merge(key_node):
                merged.extend(self._merge_sources(value_node, path, line))
            elif (key := self._key(key_node, path, line)) is None:
                continue
            elif key in own:
                self._report(f"key {key!r} is given twice, first in line {own[key]}", (*path, key), line)
            else:
                own[key] = line
                self.lines[(*path, key)] = line
                tree[key] = self._value(value_node, (*path, key))
        for source in merged:
            self._fill(tree, source, path)
        return tree

    def _fill(self, tree: dict[str, object], source: yaml.MappingNode, path: KeyPath) -> None:
        """Merge keys give way to the mapping's own keys, and later ones to earlier ones."""
        inner: list[yaml.MappingNode] = []
        with self._expanding(source):
            for key_node, value_node in source.value:
                line = key_node.start_mark.line + 1
                if _is_merge(key_node):
                    inner.extend(self._merge_sources(value_node, path, line))
                elif isinstance(key_node, yaml.ScalarNode) and (key := str(key_node.value)) not in tree:
                    self.lines[(*path, key)] = line
                    tree[key] = self._value(value_node, (*path, key))
            for mapping in inner:
                self._fill(tree, mapping, path)

    def _value(self, node: yaml.Node, path: KeyPath) -> object:
        self._count(node)
        if node.tag.removeprefix(_PREFIX) not in _TAGS:
            self._report(f"tag {node.tag} is not known", path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        with self._expanding(node):
            return self._collection(node, path)

    @contextmanager
    def _expanding(self, node: yaml.Node) -> Iterator[None]:
        """Aliases may make a tree deeper than the text, and endless."""
        line = node.start_mark.line + 1
        if id(node) in self._open:
            _refuse("an alias refers to itself", line, self.file)
        if len(self._open) >= MAX_DEPTH:
            _refuse(f"aliases nest deeper than {MAX_DEPTH} levels", line, self.file)
        self._open.add(id(node))
        try:
            yield
        finally:
            self._open.discard(id(node))

    def _collection(self, node: yaml.Node, path: KeyPath) -> object:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        return list(self._items(node, path))

    def _items(self, node: yaml.Node, path: KeyPath) -> Iterator[object]:
        for position, item in enumerate(node.value):
            self.lines[(*path, position)] = item.start_mark.line + 1
            yield self._value(item, (*path, position))

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        text = self._text(node, path)
        if node.style is not None:
            return text
        value = plain_scalar(text)
        return text if value is not None and _wants_text(path) else value

    def _key(self, node: yaml.Node, path: KeyPath, line: int) -> str | None:
        self._count(node)
        if isinstance(node, yaml.ScalarNode):
            return self._text(node, path)
        self._report("a key must be plain text", path, line)
        return None

    def _text(self, node: yaml.ScalarNode, path: KeyPath) -> str:
        """Escapes can write what no argument, file name or answer can hold: a NUL, and half of a UTF-16 pair."""
        text = str(node.value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # JSON writes whole pairs
        if "\0" in text or text.count("\ufffd") > node.value.count("\ufffd"):
            self._report("a text cannot hold this escape", path, node.start_mark.line + 1)
        return text.replace("\0", "")

    def _merge_sources(self, node: yaml.Node, path: KeyPath, line: int) -> Iterator[yaml.MappingNode]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode):
                yield source
            else:
                self._report("<<: takes an alias of a mapping", path, line)

    def _count(self, node: yaml.Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            _refuse(f"more than {MAX_NODES} values", node.start_mark.line + 1, self.file, hint="aliases multiply")

    def _report(self, message: str, path: KeyPath, line: int) -> None:
        self.problems.append(Problem(message, dotted(path), line, file=self.file))


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value == "<<"


def _wants_text(path: KeyPath) -> bool:
    """Environment values and versions are text as written: 1.10 must not become 1.1."""
    return path[-1] == "version" or (len(path) > 1 and path[-2] == "env" and path[0] in {"models", "defaults"})
