"""YAML and JSON as nested tables in which a number keeps the text that was written.

``2.30`` as a number is 2.3, so that a reader of versions must see the text. Source: DiracX, schema of matching
specifications, whose files are YAML 1.1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import yaml

from broker.json_depth import is_too_deep

LARGEST_BYTES = 65_536
_DEEPEST = 16
_LONGEST_NUMBER = 40


class DocumentUnreadable(ValueError):
    """A text that is no document; the message says why and where."""


@dataclass(frozen=True)
class Number:
    """An unquoted number: its text, and its value."""

    text: str
    value: int | float

    @property
    def is_whole(self) -> bool:
        """Whether it was written without a fraction and an exponent."""
        return isinstance(self.value, int)


def read_json(text: str) -> Any:
    """The document in a JSON text; numbers are ``Number``.

    Raises:
        DocumentUnreadable: it is too large or deep, a name appears twice, or it is no JSON.
    """
    _check_size(text)
    if is_too_deep(text, _DEEPEST):
        raise DocumentUnreadable(f"lists and tables nest deeper than {_DEEPEST}")
    try:
        return json.loads(
            text,
            parse_int=lambda digits: _number(digits, int),
            parse_float=lambda digits: _number(digits, float),
            parse_constant=_no_constant,
            object_pairs_hook=_distinct,
        )
    except json.JSONDecodeError as error:
        raise DocumentUnreadable(f"no JSON: {error.msg}, line {error.lineno}, column {error.colno}") from error


def read_yaml(text: str) -> Any:
    """The document in a YAML text; numbers are ``Number``, times are texts, an empty document is None.

    Raises:
        DocumentUnreadable: it is too large or deep, has an alias, a name twice or a tag, or is no YAML.
    """
    _check_size(text)
    try:
        _check_events(text)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a loader of plain values
    except (yaml.YAMLError, UnicodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or "cannot be read"
        raise DocumentUnreadable(f"no YAML: {problem}{where}") from error


def _check_size(text: str) -> None:
    if len(text) > LARGEST_BYTES or len(text.encode("utf-8", "surrogatepass")) > LARGEST_BYTES:
        raise DocumentUnreadable(f"more than {LARGEST_BYTES:,} bytes")


def _number(text: str, kind: type[int] | type[float]) -> Number:
    if len(text) > _LONGEST_NUMBER:
        raise DocumentUnreadable(f"a number of {len(text)} characters; {_LONGEST_NUMBER} are allowed")
    return Number(text, kind(text))


def _no_constant(text: str) -> Any:
    raise DocumentUnreadable(f"{text} is no number here")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        raise DocumentUnreadable(f"{next(name for name in names if names.count(name) > 1)!r} stands twice")
    return table


def _check_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise DocumentUnreadable("aliases are not followed; write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise DocumentUnreadable(f"lists and tables nest deeper than {_DEEPEST}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


_BASE = cast(type[yaml.SafeLoader], getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class _LOADER(_BASE):  # type: ignore[misc, valid-type]
    """Plain values, with the text of numbers."""


def _yaml_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Number:
    if len(node.value) > _LONGEST_NUMBER:
        raise DocumentUnreadable(f"a number of {len(node.value)} characters; {_LONGEST_NUMBER} are allowed")
    is_whole = node.tag.endswith(":int")
    try:
        value = loader.construct_yaml_int(node) if is_whole else loader.construct_yaml_float(node)
    except (ValueError, OverflowError) as error:
        raise DocumentUnreadable(f"{node.value!r} is no number") from error
    return Number(node.value, value)


def _yaml_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    pairs = []
    for key, value in node.value:
        name = loader.construct_object(key, deep=True)
        pairs.append((name if isinstance(name, str) else str(key.value), loader.construct_object(value, deep=True)))
    return _distinct(pairs)


_LOADER.add_constructor("tag:yaml.org,2002:int", _yaml_number)
_LOADER.add_constructor("tag:yaml.org,2002:float", _yaml_number)
_LOADER.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)
_LOADER.add_constructor("tag:yaml.org,2002:map", _yaml_mapping)
