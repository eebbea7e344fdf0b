"""State of each key for display: the value in force, its origin, and its problems. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from broker.gdpconfig.catalogue import Catalogue, KeyEntry, UnknownKeyError, Value
from broker.gdpconfig.publish import Published
from broker.gdpconfig.values import BadRow, RowId, rows_in_scope


@dataclass(frozen=True)
class KeyState:
    """The state of one key for the tasks of one VO.

    Attributes:
        name: full name; for a family as a whole, its pattern.
        entry: catalogue entry.
        value: value in force.
        default: default in the catalogue.
        set_by: full name of the key whose row gave the value; None if the default is in force.
        vo: VO of that row, empty for a row without one; None if the default is in force.
        bad: the unusable row of this key; None if there is none.
    """

    name: str
    entry: KeyEntry
    value: Value | None
    default: Value | None
    set_by: str | None
    vo: str | None
    bad: BadRow | None

    @property
    def origin(self) -> str:
        """``config`` if a row gave the value, ``default`` otherwise."""
        return "default" if self.set_by is None else "config"


def all_states(published: Published, vo: str | None) -> tuple[KeyState, ...]:
    """Every key in the order of the catalogue, each family followed by its members that have a row.

    Args:
        published: the version to inspect.
        vo: VO of the tasks.
    """
    scope = _Scope.of(published, vo)
    members: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(scope.rows):
        members[published.catalogue.require(name).key].append(name)
    states = []
    for entry in published.catalogue:
        states.append(_state(published, scope, entry, entry.key))
        states.extend(_state(published, scope, entry, name) for name in members[entry.key] if name != entry.key)
    return tuple(states)


def state_of(published: Published, name: str, vo: str | None) -> KeyState:
    """The state of one key by its full name, or of a whole family by the family's name.

    Raises:
        UnknownKeyError: no such key.
    """
    entry = entry_named(published.catalogue, name)
    return _state(published, _Scope.of(published, vo), entry, name)


def entry_named(catalogue: Catalogue, name: str) -> KeyEntry:
    """The entry for a full name, or for a family's own name or pattern.

    Raises:
        UnknownKeyError: no such key.
    """
    match = catalogue.find(name)
    if match is not None and "<" not in name:
        return match
    for entry in catalogue:
        if name in (entry.key, entry.pattern):
            return entry
    raise UnknownKeyError(name, catalogue.closest(name))


@dataclass(frozen=True)
class _Scope:
    """The row that counts for each full name, among the rows with a usable value, and among all rows."""

    usable: Mapping[str, RowId]
    rows: Mapping[str, RowId]

    @classmethod
    def of(cls, published: Published, vo: str | None) -> _Scope:
        every = [row.row_id for row in published.rows]
        return cls(
            rows_in_scope(published.catalogue, published.judged.usable, vo),
            rows_in_scope(published.catalogue, every, vo),
        )


def _state(published: Published, scope: _Scope, entry: KeyEntry, name: str) -> KeyState:
    set_by = next((candidate for candidate in _fallbacks(entry, name) if candidate in scope.usable), None)
    value = entry.default if set_by is None else published.judged.usable[scope.usable[set_by]]
    if entry.zero_means_default and value == 0:
        set_by, value = None, entry.default
    row_id = scope.rows.get(name)
    bad = next((b for b in published.bad_rows if (b.component, b.key, b.vo or "") == row_id), None)
    return KeyState(
        name=entry.pattern if entry.is_family and name == entry.key and not entry.bare else name,
        entry=entry,
        value=value,
        default=entry.default,
        set_by=set_by,
        vo=None if set_by is None else scope.usable[set_by][2],
        bad=bad,
    )


def _fallbacks(entry: KeyEntry, name: str) -> list[str]:
    """The names that may provide the value of a name, longest first.

    The name does not show where the first of two suffixes ends, so every shorter name is looked up.
    """
    names = [name]
    if len(entry.suffixes) == 2:
        suffix = name[len(entry.key) + 1 :]
        parts = suffix.split("_")
        names += ["_".join((entry.key, *parts[:length])) for length in range(len(parts) - 1, 0, -1)]
    if entry.bare and entry.key not in names:
        names.append(entry.key)
    return names
