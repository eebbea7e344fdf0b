"""Rows of PanDA's CONFIG table as typed values: conversion, range check and scope. Pure.

Source: PanDA's CONFIG table; the type column decides the conversion, and VO rows override rows without a VO.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from broker.gdpconfig.catalogue import Catalogue, KeyEntry, Value, ValueRefusedError

RowId: TypeAlias = tuple[str, str, str]
"""Component, key and VO (empty for none), which identify one of our rows within its app."""


@dataclass(frozen=True)
class ConfigRow:
    """One row of the CONFIG table, as stored.

    Attributes:
        app: name of the program for which the row is.
        component: component of that program.
        key: full name of the key.
        vo: virtual organisation; None or empty for all.
        value: the value as text; ignored for type json.
        type: str, string, int, integer, float, bool, boolean or json.
        value_json: the decoded JSON column.
    """

    app: str
    component: str
    key: str
    vo: str | None
    value: str | None
    type: str | None
    value_json: object = None

    @property
    def row_id(self) -> RowId:
        """Key of the row."""
        return (self.component, self.key, self.vo or "")


@dataclass(frozen=True)
class BadRow:
    """An unusable row, and the value used instead.

    Attributes:
        component: component of the row.
        key: key of the row.
        vo: VO of the row; None for none.
        why: what is wrong and what would be accepted.
        last_good: the last good value of the row; None if it never had one.
    """

    component: str
    key: str
    vo: str | None
    why: str
    last_good: Value | None

    def __str__(self) -> str:
        """One sentence for a log or a terminal."""
        scope = f" of VO {self.vo}" if self.vo else ""
        instead = "the default" if self.last_good is None else f"the last good value {self.last_good!r}"
        return f"CONFIG row {self.component}/{self.key}{scope}: {self.why}; {instead} is used, correct the row"


@dataclass(frozen=True)
class CheckedRows:
    """Our rows, checked.

    Attributes:
        usable: value in force per row: its own, or the last good one if it is bad. Bad rows that never had a good value
            are dropped.
        bad: unusable rows, ordered by component, key and VO.
    """

    usable: Mapping[RowId, Value]
    bad: tuple[BadRow, ...]


def rows_of_catalogue(catalogue: Catalogue, rows: Iterable[ConfigRow]) -> tuple[ConfigRow, ...]:
    """The rows that set a key of the catalogue, sorted; rows for other programs and parts are dropped."""
    return tuple(sorted((row for row in rows if _entry_of(catalogue, row) is not None), key=lambda row: row.row_id))


def judge_rows(catalogue: Catalogue, rows: Iterable[ConfigRow], last_good: Mapping[RowId, Value]) -> CheckedRows:
    """Convert and check each of our rows.

    Args:
        catalogue: the keys.
        rows: rows of the CONFIG table; those that set no key of the catalogue are ignored.
        last_good: the value of each row when it was last good.
    """
    usable: dict[RowId, Value] = {}
    bad: list[BadRow] = []
    for row in rows_of_catalogue(catalogue, rows):
        entry = catalogue.require(row.key)
        try:
            usable[row.row_id] = entry.check(convert(row))
        except ValueRefusedError as error:
            fallback = _still_good(entry, last_good.get(row.row_id))
            bad.append(BadRow(row.component, row.key, row.vo or None, str(error), fallback))
            if fallback is not None:
                usable[row.row_id] = fallback
    return CheckedRows(usable, tuple(bad))


def convert(row: ConfigRow) -> object:
    """Convert the value of a row by its type column, which is case-insensitive.

    For bool, the text ``true`` in any case is True, and everything else is False.

    Raises:
        ValueRefusedError: unknown type, or the text cannot be converted to it.
    """
    kind = None if row.type is None else row.type.lower()
    if kind == "json":
        if row.value_json is None:
            raise ValueRefusedError("type json, but value_json is empty")
        return row.value_json
    if row.value is None:
        raise ValueRefusedError("the value is empty")
    try:
        match kind:
            case "str" | "string":
                return row.value
            case "int" | "integer":
                return int(row.value)
            case "float":
                return float(row.value)
            case "bool" | "boolean":
                return row.value.strip().lower() == "true"
    except ValueError as error:
        raise ValueRefusedError(f"{row.value[:60]!r} cannot be read as type {row.type}") from error
    raise ValueRefusedError(f"type {row.type!r} is none of str, int, float, bool, json")


def in_scope(catalogue: Catalogue, usable: Mapping[RowId, Value], vo: str | None) -> dict[str, Value]:
    """The values in force for one VO, by full key name.

    A VO's own row overrides a row without a VO; where any VO counts, the first by name is used.

    Args:
        catalogue: the keys.
        usable: values per row, as judged.
        vo: VO of the tasks; None if keys of the task's VO may use any row.
    """
    return {key: usable[row_id] for key, row_id in rows_in_scope(catalogue, usable, vo).items()}


def rows_in_scope(catalogue: Catalogue, row_ids: Iterable[RowId], vo: str | None) -> dict[str, RowId]:
    """The row that counts for each key that has one, by full key name. Arguments as for ``in_scope``."""
    chosen: dict[str, RowId] = {}
    for row_id in sorted(row_ids, key=lambda identity: (identity[1], identity[2] == "", identity[2])):
        _, key, row_vo = row_id
        entry = catalogue.require(key)
        scope_vo = {"task": vo, "any": None}.get(entry.scope, entry.scope)
        if scope_vo is None or row_vo in (scope_vo, ""):
            chosen.setdefault(key, row_id)
    return chosen


def contradictions(catalogue: Catalogue, settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Pairs of values that are allowed but contradict each other, one sentence each.

    Args:
        catalogue: the keys.
        settings: values by full key name; an absent key has its default.
    """
    sentences = []
    for entry in catalogue:
        if entry.at_most is None:
            continue
        value = settings.get(entry.key, entry.default)
        limit = settings.get(entry.at_most, catalogue.entry(entry.at_most).default)
        # a limit of 0 closes what it limits, so the other value has no effect
        if isinstance(value, (int, float)) and isinstance(limit, (int, float)) and value > limit > 0:
            sentences.append(
                f"{entry.key} = {value} is larger than {entry.at_most} = {limit}; lower the first or raise the other"
            )
    return tuple(sentences)


def from_text(entry: KeyEntry, text: str) -> Value:
    """Parse and check an operator's text; unlike in a row, a bool must be true or false.

    Raises:
        ValueRefusedError: the value does not fit the key.
    """
    refusal = ValueRefusedError(f"{text[:60]!r} is not {entry.type.words}; {entry.key} takes {entry.accepts}")
    try:
        if entry.type.value == "str":
            return entry.check(text)
        if entry.type.value == "json":
            return entry.check(json.loads(text, parse_constant=_refuse_constant))
        if entry.type.value == "bool":
            return entry.check({"true": True, "false": False}[text.strip().lower()])
        return entry.check(_number(text))
    except ValueRefusedError:
        raise
    except (KeyError, ValueError, RecursionError) as error:
        raise refusal from error


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def row_of(entry: KeyEntry, name: str, vo: str, value: Value) -> ConfigRow:
    """The row that sets a key, with the type names that PanDA understands.

    Args:
        entry: catalogue entry of the key.
        name: full name of the key.
        vo: VO of the row, empty for none.
        value: checked value.
    """
    if entry.type.value == "json":
        return ConfigRow(entry.app, entry.component, name, vo, "", "json", value)
    if isinstance(value, bool):
        return ConfigRow(entry.app, entry.component, name, vo, str(value).lower(), "boolean")
    if isinstance(value, int):
        return ConfigRow(entry.app, entry.component, name, vo, str(value), "integer")
    if isinstance(value, float):
        return ConfigRow(entry.app, entry.component, name, vo, repr(value), "float")
    return ConfigRow(entry.app, entry.component, name, vo, str(value), "string")


def _entry_of(catalogue: Catalogue, row: ConfigRow) -> KeyEntry | None:
    entry = catalogue.find(row.key)
    return entry if entry and (entry.app, entry.component) == (row.app, row.component) else None


def _still_good(entry: KeyEntry, value: Value | None) -> Value | None:
    """The last good value if it is still allowed, since the catalogue may have changed."""
    if value is None:
        return None
    try:
        return entry.check(value)
    except ValueRefusedError:
        return None
