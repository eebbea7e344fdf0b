"""Legend of packed decisions: the candidates of a snapshot and the codes of a chain of rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from broker.domain.arrays import Ints

#: Candidates that a kind has at least on average, for kinds to say anything.
_LEAST_OF_A_KIND = 8


class LegendCorruptError(Exception):
    """A stored legend that cannot be read."""


@dataclass(frozen=True)
class Legend:
    """The names behind a packed decision. Equal while queues and rules are the same.

    Attributes:
        names: (Q,) candidates: pseudo-queues or nuclei.
        groups: (Q,) the unified queue of each; empty where candidates have none.
        codes: (C,) reason codes.
        order: the indices of codes in the order of the funnel.
        departure: (C,) when the candidates of a code go: the larger, the later.
        factors: names of the factors of a weight.
        stats: names of the figures of a remark.
        remark: what a remark begins with.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    departure: tuple[int, ...] = ()
    factors: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    remark: str = ""

    def __hash__(self) -> int:
        """Cached hash: decisions are grouped by their legend, which has thousands of names."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, one.name) for one in fields(self)))

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The unified queues, each once, in the order of their first candidates."""
        return tuple(dict.fromkeys(self.groups))

    @cached_property
    def group_of(self) -> Ints:
        """(Q,) for each candidate the position of its group in :attr:`group_names`."""
        place = {name: index for index, name in enumerate(self.group_names)}
        return np.array([place[name] for name in self.groups], dtype=np.int64)

    @cached_property
    def by_kind(self) -> Ints:
        """(Q,) the candidates in an order in which those of one kind are neighbours: names end alike behind a slash.

        What rejects them is mostly the same. It is the order of the names where ends do not tell kinds. Stored reasons
        are in this order: it stays as it is.
        """
        kinds = [name.partition("/")[2] for name in self.names]
        if len(set(kinds)) * _LEAST_OF_A_KIND > len(kinds):
            return np.arange(len(kinds))
        return np.array(sorted(range(len(kinds)), key=kinds.__getitem__), dtype=np.int64)

    @cached_property
    def place_of(self) -> Mapping[str, int]:
        """The position of each candidate by its name; of a unified queue that of its first candidate."""
        groups = {name: place for place, name in reversed(list(enumerate(self.groups)))}
        return {**groups, **{name: place for place, name in enumerate(self.names)}}

    @cached_property
    def text(self) -> str:
        """The legend as JSON."""
        reported = {one.name: getattr(self, one.name) for one in fields(self)}
        return json.dumps(reported, sort_keys=True, separators=(",", ":"))

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the legend, the key under which it is stored once."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()

    @classmethod
    def from_json(cls, reported: Mapping[str, Any]) -> Legend:
        """The inverse of :attr:`text`, read as JSON.

        Raises:
            LegendCorruptError: it is of another form.
        """
        try:
            values = {one.name: _plain(reported[one.name]) for one in fields(cls) if one.name in reported}
            legend = cls(**values)
        except (KeyError, TypeError) as error:
            raise LegendCorruptError(f"damaged legend: {error!r}") from error
        if legend.groups and len(legend.groups) != len(legend.names):
            raise LegendCorruptError(f"damaged legend: {len(legend.groups)} groups of {len(legend.names)} names")
        return legend


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else _texts(value)


def _texts(value: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value)
