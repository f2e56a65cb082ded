"""Writing configuration text that our own reader reads back as it was meant."""

from __future__ import annotations

import re
from typing import Any

import yaml

from gearshift.config.scalars import plain_scalar

_WIDTH = 110
_LINE_BREAK = re.compile("[\n\r\x85\u2028\u2029]")  # what YAML folds unless it is escaped


class Block(dict[str, object]):
    """A mapping written on one line, as variants are easiest to compare."""


class _Dumper(yaml.SafeDumper):
    """Sections in block style, short lists on one line, and quotes where our reader needs them."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - likewise
        super().increase_indent(flow, indentless=False)


def yaml_text(tree: object) -> str:
    """A tree as YAML, keys in their order."""
    return str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True))


def flow(value: object) -> str:
    """A value on one line."""
    text = yaml.dump([value], Dumper=_Dumper, default_flow_style=True, width=2**30, allow_unicode=True, sort_keys=False)
    return str(text).strip()[1:-1]


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _LINE_BREAK.search(text) or plain_scalar(text) != text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)


def _block(dumper: yaml.SafeDumper, block: Block) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", block.items(), flow_style=True)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(Block, _block)
