"""Lines of places in a YAML text, keys that are repeated in it, and whether references make it too large."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from broker.feeds.model.sites_file.checks import Fault

MOST_NODES = 100_000
MOST_LEVELS = 20


class Lines:
    """The lines of places in a text."""

    def __init__(self, root: yaml.Node | None) -> None:
        """``root``: the composed node; None for an empty text."""
        self._root = root

    def line_of(self, place: tuple[str | int, ...]) -> int:
        """The line (from 1) of a place, or of the nearest existing place above it."""
        node, line = self._root, 1
        for step in place:
            key, node = _child(node, step)
            if node is None:
                break
            line = (node if key is None else key).start_mark.line + 1
        return line

    def value_at(self, place: tuple[str | int, ...]) -> str:
        """The value at a place as it is written; empty if there is none, or more than one value."""
        node = self._root
        for step in place:
            _, node = _child(node, step)
        return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def too_large(root: yaml.Node | None) -> bool:
    """Whether a text expands to more values, or nests deeper, than any list of sites."""
    pending = [(root, 0)]
    node_count = 0
    while pending:
        node, level = pending.pop()
        node_count += 1
        if node_count > MOST_NODES or level > MOST_LEVELS:
            return True
        pending += [(child, level + 1) for child in _children(node)]
    return False


def repeated_keys(root: yaml.Node | None) -> Iterator[Fault]:
    """Yield the keys that are repeated in one mapping; YAML itself silently takes the last one."""
    pending: list[tuple[yaml.Node | None, tuple[str | int, ...]]] = [(root, ())]
    while pending:
        node, place = pending.pop()
        if isinstance(node, yaml.SequenceNode):
            pending += [(child, (*place, index)) for index, child in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            continue
        first: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in first:
                what = f"{name} stands twice, in lines {first[name]} and {line}"
                yield Fault((*place, name), what, "keep one of them", of_key=True)
            first.setdefault(name, line)
            pending.append((value, (*place, name)))


def _children(node: yaml.Node | None) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    return [one for pair in node.value for one in pair] if isinstance(node, yaml.MappingNode) else []


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The key and value one step below a node; None if there is nothing."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    if isinstance(node, yaml.MappingNode):
        # of a repeated key, the last one counts
        for key, value in reversed(node.value):
            if str(key.value) == str(step):
                return key, value
    return None, None
