"""State of each key for display: the value in force, its origin, and problems with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from broker.gdpconfig.catalogue import Catalogue, KeyEntry, UnknownKeyError, Value
from broker.gdpconfig.publish import Published
from broker.gdpconfig.values import BadRow, rows_in_scope


@dataclass(frozen=True)
class KeyState:
    """One key as it is in force for the tasks of one VO.

    Attributes:
        name: full name; for a family without member, its pattern.
        entry: of the catalogue.
        value: in force.
        default: of the catalogue.
        set_by: full name of the key whose row gave the value, None when the default is in force.
        vo: VO of that row, empty for a row without; None when the default is in force.
        bad: the row of this key that cannot be used, None when there is none.
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
        """``config`` when a row gave the value, ``default`` otherwise."""
        return "default" if self.set_by is None else "config"


def all_states(published: Published, vo: str | None) -> tuple[KeyState, ...]:
    """Every key in the order of the catalogue, each family followed by its members that have a row.

    Args:
        published: the version to look at.
        vo: VO of the tasks.
    """
    catalogue = published.catalogue
    with_row = sorted(rows_in_scope(catalogue, [row.row_id for row in published.rows], vo))
    states = []
    for entry in catalogue:
        members = [name for name in with_row if catalogue.require(name) is entry and name != entry.key]
        states.append(_state(published, vo, entry, entry.key))
        states.extend(_state(published, vo, entry, name) for name in members)
    return tuple(states)


def state_of(published: Published, name: str, vo: str | None) -> KeyState:
    """One key, by its full name or, for a family as a whole, by the family's.

    Raises:
        UnknownKeyError: no such key.
    """
    entry = entry_named(published.catalogue, name)
    return _state(published, vo, entry, name)


def entry_named(catalogue: Catalogue, name: str) -> KeyEntry:
    """The entry of a full name or of a family's own name or pattern.

    Raises:
        UnknownKeyError: no such key.
    """
    found = catalogue.find(name)
    if found is not None and "<" not in name:
        return found
    for entry in catalogue:
        if name in (entry.key, entry.pattern):
            return entry
    raise UnknownKeyError(name, catalogue.closest(name))


def _state(published: Published, vo: str | None, entry: KeyEntry, name: str) -> KeyState:
    usable = published.judged.usable
    in_force = rows_in_scope(published.catalogue, usable, vo)
    chosen = next((candidate for candidate in _fall_backs(entry, name) if candidate in in_force), None)
    value = entry.default if chosen is None else usable[in_force[chosen]]
    if entry.zero_means_default and value == 0:
        chosen, value = None, entry.default
    row_id = rows_in_scope(published.catalogue, [row.row_id for row in published.rows], vo).get(name)
    bad = next((b for b in published.bad_rows if (b.component, b.key, b.vo or "") == row_id), None)
    return KeyState(
        name=entry.pattern if entry.is_family and name == entry.key and not entry.bare else name,
        entry=entry,
        value=value,
        default=entry.default,
        set_by=chosen,
        vo=None if chosen is None else in_force[chosen][2],
        bad=bad,
    )


def _fall_backs(entry: KeyEntry, name: str) -> list[str]:
    """The names that may give the value of a name, longest first.

    Where the first of two suffixes ends is not written in the name, so every shorter name is looked for.
    """
    names = [name]
    if len(entry.suffixes) == 2:
        suffix = name[len(entry.key) + 1 :]
        parts = suffix.split("_")
        names += ["_".join((entry.key, *parts[:length])) for length in range(len(parts) - 1, 0, -1)]
    if entry.bare and entry.key not in names:
        names.append(entry.key)
    return names
