"""The catalogue of tuning keys: types, ranges and meanings."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from broker import resources
from broker.domain.installation_vo import DEFAULT_VO
from broker.errors import BrokerError, NotFound, Refused
from broker.yaml_text import read_yaml

Value: TypeAlias = bool | int | float | str | list[object] | dict[str, object]
"""A converted value of a key."""

KEY_MAX_CHARACTERS = 64
VALUE_MAX_CHARACTERS = 256
VO_MAX_CHARACTERS = 32


class CatalogueError(BrokerError, ValueError):
    """An invalid catalogue file; the message names the key and what to correct."""


class UnknownKeyError(NotFound, LookupError):
    """No such key in the catalogue.

    Attributes:
        key: the requested name.
        closest: names in the catalogue that look like it, best first.
    """

    def __init__(self, key: str, closest: Iterable[str] = ()) -> None:
        """Remember the name and the closest known names."""
        self.key = key
        self.closest = tuple(closest)
        hint = f"did you mean {' or '.join(self.closest)}?" if self.closest else "broker config list shows all"
        super().__init__(f"{_short(key)} is not a key of the gdpconfig catalogue", "", hint)

    def __reduce__(self) -> tuple[type[UnknownKeyError], tuple[str, tuple[str, ...]]]:
        """Pickle the two arguments, not the message composed of them."""
        return (UnknownKeyError, (self.key, self.closest))


class ValueRefusedError(Refused, ValueError):
    """A value does not fit its key; the message names the accepted type and range."""


class ValueType(StrEnum):
    """Accepted type of the values of a key."""

    INT = "int"
    FLOAT = "float"
    NUMBER = "number"
    BOOL = "bool"
    STR = "str"
    JSON = "json"

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers."""
        return self in (ValueType.INT, ValueType.FLOAT, ValueType.NUMBER)

    @property
    def words(self) -> str:
        """The type in plain words."""
        return {
            ValueType.INT: "a whole number",
            ValueType.FLOAT: "a number",
            ValueType.NUMBER: "a number",
            ValueType.BOOL: "true or false",
            ValueType.STR: "text",
            ValueType.JSON: "JSON",
        }[self]


class KeyEntry(BaseModel):
    """One key, or one family of keys that differ in their suffix.

    The fields are those of the catalogue file, which describes them at its top.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(pattern=r"^[A-Z][A-Za-z0-9_]*$", max_length=KEY_MAX_CHARACTERS)
    component: str = Field(min_length=1, max_length=64)
    app: str = Field(default="jedi", min_length=1, max_length=64)
    scope: str = Field(min_length=1, max_length=VO_MAX_CHARACTERS)
    suffixes: tuple[str, ...] = Field(default=(), max_length=2)
    bare: bool = False
    type: ValueType
    unit: str = Field(min_length=1)
    default: bool | int | float | str | list[object] | dict[str, object] | None
    zero_means_default: bool = False
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    at_most: str | None = None
    stored_as: str | None = Field(default=None, pattern=r"^[A-Z][A-Za-z0-9_]*$", max_length=KEY_MAX_CHARACTERS)
    meaning: str = Field(min_length=1)
    read_by: Mapping[str, tuple[str, ...]]

    @model_validator(mode="after")
    def _fits_together(self) -> KeyEntry:
        if self.stored_as and self.suffixes:
            raise ValueError("stored_as is for a key without suffixes")
        if self.bare and not self.suffixes:
            raise ValueError("bare is for families; a key without suffixes has no other form")
        if not self.type.is_numeric and (self.minimum is not None or self.maximum is not None or self.at_most):
            raise ValueError(f"minimum, maximum and at_most are for numbers, not for type {self.type.value}")
        if self.zero_means_default and not self.type.is_numeric:
            raise ValueError("zero_means_default is for numbers")
        if self.default is None and self.type not in (ValueType.STR, ValueType.JSON):
            raise ValueError(f"type {self.type.value} needs a default (.inf for a number without limit)")
        if self.default is not None and self.default != math.inf:
            self.check(self.default)
        return self

    @property
    def is_family(self) -> bool:
        """Whether the key takes a suffix."""
        return bool(self.suffixes)

    @property
    def pattern(self) -> str:
        """The key with its suffixes spelled out, as in ``MIN_WEIGHT_<label>_<gshare>``."""
        return self.key + "".join(f"_<{suffix}>" for suffix in self.suffixes)

    @property
    def accepted_range(self) -> str:
        """The accepted range in words; empty when every value of the type is accepted."""
        parts = []
        if self.minimum is not None:
            parts.append(f"{'>' if self.exclusive_minimum else '>='} {self.minimum:g}")
        if self.maximum is not None:
            parts.append(f"{'<' if self.exclusive_maximum else '<='} {self.maximum:g}")
        if self.at_most is not None:
            parts.append(f"<= {self.at_most}")
        return " and ".join(parts)

    @property
    def accepts(self) -> str:
        """Type, unit and range in words, for messages."""
        unit = "" if self.unit == "-" else f" in {self.unit}"
        limits = f", {self.accepted_range}" if self.accepted_range else ""
        return f"{self.type.words}{unit}{limits}"

    def matches(self, name: str) -> bool:
        """Whether a full name, such as ``NQUEUELIMITSITE_Express``, belongs to this entry."""
        if name == self.key:
            return not self.is_family or self.bare
        return self.is_family and name.startswith(f"{self.key}_") and len(name) > len(self.key) + 1

    def check(self, value: object) -> Value:
        """Check type and range of a converted value.

        Args:
            value: the value read or typed, already converted to a Python value.

        Returns:
            The value; a whole float of an int key is converted to int.

        Raises:
            ValueRefusedError: the value is of another type, not finite, or out of range.
        """
        match self.type:
            case ValueType.BOOL if isinstance(value, bool):
                return value
            case ValueType.STR if isinstance(value, str):
                return value
            case ValueType.JSON if isinstance(value, (bool, int, float, str, list, dict)):
                return value
            case ValueType.INT | ValueType.FLOAT | ValueType.NUMBER if isinstance(
                value, (int, float)
            ) and not isinstance(value, bool):
                return self._check_number(value)
            case _:
                raise ValueRefusedError(f"{_short(value)} is not {self.type.words}; {self.key} takes {self.accepts}")

    def _check_number(self, value: int | float) -> int | float:
        try:
            number = float(value)
        except OverflowError as error:
            raise ValueRefusedError(f"{_short(value)} is too large; {self.key} takes {self.accepts}") from error
        if not math.isfinite(number):
            raise ValueRefusedError(f"{value} is not a finite number; {self.key} takes {self.accepts}")
        if self.type is ValueType.INT and not number.is_integer():
            raise ValueRefusedError(f"{value} is not {self.type.words}; {self.key} takes {self.accepts}")
        too_low = self.minimum is not None and (
            number < self.minimum or (self.exclusive_minimum and number == self.minimum)
        )
        too_high = self.maximum is not None and (
            number > self.maximum or (self.exclusive_maximum and number == self.maximum)
        )
        if too_low or too_high:
            raise ValueRefusedError(f"{_short(value)} is out of range; {self.key} takes {self.accepts}")
        return int(value) if self.type is ValueType.INT else value


class Catalogue:
    """All keys, by name.

    Iterating gives the entries in the order of the file. Immutable, and cheap to share.
    """

    def __init__(self, entries: Iterable[KeyEntry], vo: str = DEFAULT_VO) -> None:
        """Index the entries.

        Args:
            entries: the keys.
            vo: the VO of the installation.

        Raises:
            CatalogueError: a name occurs twice, or a rule between two keys names an unknown key.
        """
        self.vo = vo
        by_key: dict[str, KeyEntry] = {}
        for entry in entries:
            if entry.key in by_key:
                raise CatalogueError(f"gdpconfig catalogue: {entry.key} is there twice; keep one of the entries")
            by_key[entry.key] = entry
        for entry in by_key.values():
            self._check_pair(entry, by_key)
        self._by_key = MappingProxyType(by_key)
        self._stored_as = {(e.app, e.component, e.stored_as): e.key for e in by_key.values() if e.stored_as}
        # longest first, so that a family never matches a key whose own name begins with that of the family
        self._families = tuple(sorted((e for e in by_key.values() if e.is_family), key=lambda e: -len(e.key)))

    def __reduce__(self) -> tuple[type[Catalogue], tuple[tuple[KeyEntry, ...], str]]:
        """Pickle as the list of entries, with the VO."""
        return (Catalogue, (tuple(self._by_key.values()), self.vo))

    def of_installation(self, vo: str) -> Catalogue:
        """The keys for an installation of another VO: keys that PanDA reads for ``atlas`` only are read for this VO."""
        if vo == self.vo:
            return self
        return Catalogue(
            (
                entry.model_copy(update={"scope": vo}) if entry.scope == self.vo else entry
                for entry in self._by_key.values()
            ),
            vo,
        )

    def __eq__(self, other: object) -> bool:
        """Whether VO and entries are equal."""
        return isinstance(other, Catalogue) and self.vo == other.vo and self._by_key == other._by_key

    def __hash__(self) -> int:
        """Hash of the key names."""
        return hash(tuple(self._by_key))

    def __iter__(self) -> Iterator[KeyEntry]:
        """Entries in file order."""
        return iter(self._by_key.values())

    def __len__(self) -> int:
        """Number of entries; a family counts once."""
        return len(self._by_key)

    def __contains__(self, key: object) -> bool:
        """Whether there is an entry under exactly this key (the family's name for a family)."""
        return key in self._by_key

    def entry(self, key: str) -> KeyEntry:
        """The entry under exactly this key (the family's name for a family).

        Raises:
            UnknownKeyError: no such entry.
        """
        try:
            return self._by_key[key]
        except KeyError:
            raise UnknownKeyError(key, self.closest(key)) from None

    def find(self, name: str) -> KeyEntry | None:
        """The entry that a full name belongs to, such as NQUEUELIMITSITE for ``NQUEUELIMITSITE_Express``."""
        exact = self._by_key.get(name)
        if exact is not None:
            return exact if exact.matches(name) else None
        return next((family for family in self._families if family.matches(name)), None)

    def name_of_row(self, app: str, component: str, column_key: str) -> str:
        """The full name of the key that a row of the CONFIG table sets."""
        return self._stored_as.get((app, component, column_key), column_key)

    def require(self, name: str) -> KeyEntry:
        """Like ``find``, but the name must exist.

        Raises:
            UnknownKeyError: the name belongs to no entry.
        """
        entry = self.find(name)
        if entry is None:
            raise UnknownKeyError(name, self.closest(name))
        return entry

    def closest(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Names that look like the given one, best first; families with their suffixes spelled out."""
        upper = name.upper()
        matches = difflib.get_close_matches(upper, list(self._by_key), n=count, cutoff=0.6)
        families = [f.key for f in self._families if upper.startswith(f.key) and f.key not in matches]
        return tuple(self._by_key[key].pattern for key in [*families, *matches][:count])

    @staticmethod
    def _check_pair(entry: KeyEntry, by_key: Mapping[str, KeyEntry]) -> None:
        if entry.at_most is None:
            return
        other = by_key.get(entry.at_most)
        if other is None or not other.type.is_numeric or other.is_family or entry.is_family:
            raise CatalogueError(
                f"gdpconfig catalogue: at_most of {entry.key} must name another plain number key, not {entry.at_most}"
            )


class _CatalogueFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = Field(ge=1, le=1)
    keys: tuple[KeyEntry, ...] = Field(min_length=1)


def parse_catalogue(text: str, source: str) -> Catalogue:
    """Read a catalogue file's text.

    Args:
        text: the YAML text.
        source: where it came from, for messages.

    Raises:
        CatalogueError: not YAML, a field is missing, unknown or of the wrong type, or a key occurs twice.
    """
    try:
        content = read_yaml(text)
    except yaml.YAMLError as error:
        raise CatalogueError(f"gdpconfig catalogue: {source} is not valid YAML: {error}") from error
    try:
        parsed = _CatalogueFile.model_validate(content)
    except ValidationError as error:
        raise CatalogueError(f"gdpconfig catalogue: {source}: {_first_fault(error, content)}") from error
    return Catalogue(parsed.keys)


def _first_fault(error: ValidationError, content: object) -> str:
    """The first validation fault with the name of its key instead of its number in the list."""
    fault = error.errors(include_url=False)[0]
    where = [str(part) for part in fault["loc"]]
    if len(fault["loc"]) >= 2 and isinstance(content, dict) and isinstance(fault["loc"][1], int):
        item = content["keys"][fault["loc"][1]]
        name = item.get("key") if isinstance(item, dict) else None
        where = [str(name or f"entry {fault['loc'][1] + 1}"), *where[2:]]
    return f"{'.'.join(where) or 'the file'}: {fault['msg']}"


def _short(value: object) -> str:
    """A value for a message, cut so that a hostile one does not fill the terminal."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "the number"
    return text if len(text) <= 60 else text[:57] + "..."


CATALOGUE_FILE = "config/gdpconfig.yaml"


@cache
def shipped_catalogue(vo: str = DEFAULT_VO) -> Catalogue:
    """The catalogue in ``config/gdpconfig.yaml``, for an installation whose VO is ``vo``.

    Raises:
        CatalogueError: the file was changed and is now invalid.
    """
    if vo != DEFAULT_VO:
        return shipped_catalogue().of_installation(vo)
    path = resources.path(CATALOGUE_FILE)
    return parse_catalogue(path.read_text(encoding="utf-8"), CATALOGUE_FILE)
