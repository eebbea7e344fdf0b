"""The gdpconfig values in force for one cycle, as read by rules."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from broker.gdpconfig.catalogue import (
    Catalogue,
    KeyEntry,
    UnknownKeyError,
    Value,
    ValueRefusedError,
    ValueType,
    shipped_catalogue,
)

UNPUBLISHED_VERSION = 0
"""Version of values that come from no published version: defaults, tests and what-if."""


class UndeclaredKeyError(LookupError):
    """A rule read a key that is not among the keys it declares."""

    def __init__(self, key: str, declared: Iterable[str]) -> None:
        """Remember the key and the declared keys."""
        self.key = key
        self.declared = tuple(sorted(declared))
        super().__init__(key, self.declared)

    def __str__(self) -> str:
        """One sentence that says what to do."""
        return f"{self.key} was read, but only {', '.join(self.declared) or 'no key'} is declared; add it to the keys"


class WrongKindError(TypeError):
    """A key was read as a type other than its own."""


@dataclass(frozen=True)
class KeySource:
    """Where a value comes from, for explanations.

    Attributes:
        key: full name of the key that set the value; for a default, the name that could set it for all.
        value: the value in force.
        unit: its unit, ``-`` for none.
        origin: ``config`` when a row set it, ``default`` otherwise.
    """

    key: str
    value: Value | None
    unit: str
    origin: Literal["default", "config"]


@dataclass(frozen=True)
class Tuning:
    """Every key's value in one version, for one VO. Immutable, picklable, and resolved once.

    Attributes:
        version: version of the published values; 0 for unpublished values.
        vo: VO whose rows were used; None for no particular one.
        settings: values of the keys that are set, by full name; do not modify.
        catalogue: the keys.
        declared: the keys that may be read; None for all.
    """

    version: int
    vo: str | None
    settings: Mapping[str, Value] = field(default_factory=dict, hash=False)
    catalogue: Catalogue = field(default_factory=shipped_catalogue, hash=False, repr=False)
    declared: frozenset[str] | None = None
    _resolved: dict[str, Value | None] = field(init=False, repr=False, compare=False)
    _views: dict[frozenset[str], Tuning] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Check the settings and resolve every key once."""
        settings = {}
        for name, value in self.settings.items():
            settings[name] = self.catalogue.require(name).check(value)
        object.__setattr__(self, "settings", settings)
        allowed = [e for e in self.catalogue if self.declared is None or e.key in self.declared]
        object.__setattr__(self, "_resolved", {entry.key: self._in_force(entry, entry.key)[0] for entry in allowed})

    @classmethod
    def defaults(cls, vo: str | None = "atlas", catalogue: Catalogue | None = None) -> Tuning:
        """Every key at its default."""
        return cls(UNPUBLISHED_VERSION, vo, catalogue=catalogue or shipped_catalogue())

    def with_values(self, values: Mapping[str, Value]) -> Tuning:
        """The tuning with some keys set, checked against the catalogue; the version is 0, as nothing is published.

        Raises:
            UnknownKeyError: a name belongs to no key.
            ValueRefusedError: a value does not fit its key.
        """
        return Tuning(UNPUBLISHED_VERSION, self.vo, {**self.settings, **values}, self.catalogue, self.declared)

    def only(self, keys: Collection[str]) -> Tuning:
        """A view in which every other key is refused. Families are named without suffix.

        Raises:
            UnknownKeyError: a name is no key.
        """
        wanted = frozenset(keys)
        if wanted not in self._views:
            for key in keys:
                self.catalogue.entry(key)
            self._views[wanted] = Tuning(self.version, self.vo, self.settings, self.catalogue, wanted)
        return self._views[wanted]

    def differing_keys(self, other: Tuning) -> frozenset[str]:
        """The keys in which the two differ, families by name; a key explicitly set to its default counts as different.

        All keys differ between two VOs or two catalogues.
        """
        if self.vo != other.vo or self.catalogue != other.catalogue:
            return frozenset(entry.key for one in (self, other) for entry in one.catalogue)
        mine, theirs = self.settings, other.settings
        names = {name for name in {**mine, **theirs} if name not in mine or name not in theirs}
        names |= {name for name in mine if name in theirs and mine[name] != theirs[name]}
        return frozenset(self.catalogue.require(name).key for name in names)

    def number(self, key: str) -> float:
        """The value of a numeric key; ``inf`` if the default is no limit.

        Raises:
            UndeclaredKeyError: the key is outside this view.
            UnknownKeyError: no such key.
            WrongKindError: the key is not numeric.
        """
        value = self._read(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong_kind(key, "number")
        return float(value)

    def flag(self, key: str) -> bool:
        """The value of a bool key. Raises as ``number``."""
        value = self._read(key)
        if not isinstance(value, bool) or self.catalogue.entry(key).type is not ValueType.BOOL:
            raise self._wrong_kind(key, "flag")
        return value

    def is_set(self, key: str) -> bool:
        """Whether the key itself is set to any value; suffixes of a family do not count. Raises as ``number``."""
        self._read(key)
        return key in self.settings

    def text(self, key: str) -> str | None:
        """The value of a str key, None when it is not set and has no default. Raises as ``number``."""
        value = self._read(key)
        if self.catalogue.entry(key).type is not ValueType.STR:
            raise self._wrong_kind(key, "text")
        return None if value is None else str(value)

    def json(self, key: str) -> Value | None:
        """The value of a json key, None when it is not set and has no default. Raises as ``number``."""
        value = self._read(key)
        if self.catalogue.entry(key).type is not ValueType.JSON:
            raise self._wrong_kind(key, "json")
        return value

    def by_suffix(self, family: str, suffixes: Sequence[str | None]) -> NDArray[np.float64]:
        """Values of a numeric family for many suffixes.

        Args:
            family: name of the family, as NQUEUELIMITSITE.
            suffixes: one suffix per element, None for none.

        Returns:
            float64 of shape ``(len(suffixes),)``; a suffix without its own value has that of the family.
        """
        entry = self._numeric_family(family, 1)
        values = {suffix: self._number_of(entry, suffix) for suffix in set(suffixes)}
        return np.fromiter((values[suffix] for suffix in suffixes), np.float64, len(suffixes))

    def by_two_suffixes(
        self, family: str, firsts: Sequence[str | None], seconds: Sequence[str | None]
    ) -> NDArray[np.float64]:
        """Values of a numeric family with two suffixes, as MIN_WEIGHT_<label>_<gshare>.

        Args:
            family: name of the family.
            firsts: first suffix, one per element.
            seconds: second suffix, as many.

        Returns:
            float64 of shape ``(len(firsts),)``; the pair's value, else the first suffix's, else the family's.

        Raises:
            ValueError: the two sequences differ in length.
        """
        entry = self._numeric_family(family, 2)
        pairs = list(zip(firsts, seconds, strict=True))
        values = {pair: self._number_of(entry, *pair) for pair in set(pairs)}
        return np.fromiter((values[pair] for pair in pairs), np.float64, len(pairs))

    def source_of(self, key: str, *suffixes: str | None) -> KeySource:
        """Find the key that set a value.

        Args:
            key: name of the key, for a family without suffix.
            suffixes: suffixes of a family; omitted ones and None are not looked up.
        """
        self._read(key)
        entry = self.catalogue.entry(key)
        value, name, origin = self._look_up(entry, suffixes)
        return KeySource(name, value, entry.unit, origin)

    def _read(self, key: str) -> Value | None:
        try:
            return self._resolved[key]
        except KeyError:
            self.catalogue.entry(key)
            raise UndeclaredKeyError(key, self.declared or ()) from None

    def _in_force(self, entry: KeyEntry, name: str) -> tuple[Value | None, Literal["default", "config"]]:
        value = self.settings.get(name)
        if value is None or (value == 0 and entry.zero_means_default):
            return entry.default, "default"
        return value, "config"

    def _look_up(
        self, entry: KeyEntry, suffixes: Sequence[str | None]
    ) -> tuple[Value | None, str, Literal["default", "config"]]:
        """Value, name and origin: the longest name that is set wins."""
        known_suffixes: list[str] = []
        for suffix in suffixes:
            if suffix is None:
                break
            known_suffixes.append(suffix)
        for length in range(len(known_suffixes), 0, -1):
            name = "_".join((entry.key, *known_suffixes[:length]))
            if name in self.settings:
                value, origin = self._in_force(entry, name)
                return value, name, origin
        value, origin = self._in_force(entry, entry.key)
        name = (
            entry.key
            if entry.bare or not entry.is_family
            else "_".join((entry.key, *known_suffixes))
            if known_suffixes
            else entry.pattern
        )
        return value, name, origin

    def _number_of(self, entry: KeyEntry, *suffixes: str | None) -> float:
        value = self._look_up(entry, suffixes)[0]
        return float(value) if isinstance(value, (int, float)) else math.nan

    def _numeric_family(self, family: str, count: int) -> KeyEntry:
        self._read(family)
        entry = self.catalogue.entry(family)
        if len(entry.suffixes) != count or not entry.type.is_numeric:
            raise WrongKindError(f"{entry.pattern} is no family of numbers with {count} suffix(es)")
        return entry

    def _wrong_kind(self, key: str, reader: str) -> WrongKindError:
        entry = self.catalogue.entry(key)
        return WrongKindError(f"{key} is {entry.type.words}; it cannot be read with {reader}()")


__all__ = [
    "UNPUBLISHED_VERSION",
    "KeySource",
    "Tuning",
    "UndeclaredKeyError",
    "UnknownKeyError",
    "ValueRefusedError",
    "WrongKindError",
]
