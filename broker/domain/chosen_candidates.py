"""The chosen candidates of one decision or a table of many, as arrays; objects are made on access.

The legend of packed decisions holds the candidates of a snapshot and the codes of a chain of rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, overload

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.decisions import Candidate

#: Fewest candidates per kind, on average, for kinds to be meaningful.
_LEAST_OF_A_KIND = 8


class LegendCorruptError(Exception):
    """A stored legend that cannot be read."""


@dataclass(frozen=True)
class Legend:
    """The names behind a packed decision; legends are equal as long as queues and rules are the same.

    Attributes:
        names: (Q,) candidates: pseudo-queues or nuclei.
        groups: (Q,) the unified queue of each; empty if candidates have none.
        codes: (C,) reason codes.
        order: indices of the codes in funnel order.
        departure: (C,) when the candidates of a code are rejected: the larger, the later.
        factors: names of the factors of a weight.
        stats: names of the figures of a remark.
        remark: prefix of a remark.
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
        """Return the cached hash: decisions are grouped by legend, which has thousands of names."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, one.name) for one in fields(self)))

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The distinct unified queues, in the order of their first candidates."""
        return tuple(dict.fromkeys(self.groups))

    @cached_property
    def group_of(self) -> Ints:
        """(Q,) the position of each candidate's group in :attr:`group_names`."""
        place = {name: index for index, name in enumerate(self.group_names)}
        return np.array([place[name] for name in self.groups], dtype=np.int64)

    @cached_property
    def by_kind(self) -> Ints:
        """(Q,) the candidates, ordered so that those of one kind, with equal names after the slash, are adjacent.

        They are mostly rejected for the same reasons. Where the name endings do not form kinds, it is the order of the
        names. Stored reasons depend on this order, so it must not change.
        """
        kinds = [name.partition("/")[2] for name in self.names]
        if len(set(kinds)) * _LEAST_OF_A_KIND > len(kinds):
            return np.arange(len(kinds))
        return np.array(sorted(range(len(kinds)), key=kinds.__getitem__), dtype=np.int64)

    @cached_property
    def place_of(self) -> Mapping[str, int]:
        """The position of each candidate by name; for a unified queue, that of its first candidate."""
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
            LegendCorruptError: the JSON is of another form.
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


@dataclass(frozen=True, eq=False, repr=False)
class CandidateArrays:
    """Candidates as arrays: (C,) of one decision, (B, C) of B decisions.

    Attributes:
        place: (..., C) position of each in the names of the legend.
        weight: (..., C).
        factors: (..., F, C) in the order of the legend's factors; F is 0 if nothing was weighed.
        bootstrap: (..., C).
    """

    place: Ints
    weight: Floats
    factors: Floats
    bootstrap: Bools


@dataclass(frozen=True, eq=False, repr=False)
class ChosenCandidates(CandidateArrays, Sequence[Candidate]):
    """The C candidates of one decision, best first; ``legend`` names candidates and factors."""

    legend: Legend

    @cached_property
    def objects(self) -> tuple[Candidate, ...]:
        """The candidates as objects."""
        names = self.legend.factors if len(self.factors) else ()
        columns = zip(self.place.tolist(), self.weight.tolist(), self.factors.T.tolist(), strict=True)
        return tuple(
            Candidate(self.legend.names[at], weight, dict(zip(names, factors, strict=True)), bootstrap)
            for (at, weight, factors), bootstrap in zip(columns, self.bootstrap.tolist(), strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, index: int | slice) -> Candidate | tuple[Candidate, ...]:
        return self.objects[index]

    def __len__(self) -> int:
        return len(self.place)

    def __eq__(self, other: object) -> bool:
        return self.objects == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as unhashable as the sequence it stands for

    def __repr__(self) -> str:
        return repr(self.objects)


def no_candidates(legend: Legend) -> ChosenCandidates:
    """The packed form of a decision without any candidate."""
    none = np.zeros(0, dtype=np.int64)
    return ChosenCandidates(none, none.astype(np.float64), np.zeros((0, 0)), none.astype(np.bool_), legend)


@dataclass(frozen=True, eq=False, repr=False)
class CandidateTable(CandidateArrays):
    """The candidates of B decisions, padded to equal length; the first ``size`` (B,) of each decision count."""

    legend: Legend
    size: Ints

    def columns(self, rows: Sequence[int]) -> CandidateColumns:
        """The candidates of these decisions, concatenated."""
        decisions = np.array(rows, dtype=np.int64)
        size = self.size[decisions]
        is_used = np.arange(self.place.shape[1]) < size[:, None]
        cell = (decisions[:, None] * self.place.shape[1] + np.arange(self.place.shape[1]))[is_used]
        factors = self.factors.transpose(1, 0, 2)[:, decisions][:, is_used]
        place, weight, bootstrap = (
            column.reshape(-1).take(cell) for column in (self.place, self.weight, self.bootstrap)
        )
        return CandidateColumns(place, weight, factors, bootstrap, size)


class TableCandidates(ChosenCandidates):
    """The candidates of one decision of a table; columns are sliced from it on access.

    Args:
        table: table of many decisions.
        at: position of the decision.
        size: number of its candidates.
    """

    def __init__(self, table: CandidateTable, at: int, size: int) -> None:
        self.__dict__.update(legend=table.legend, table=table, at=at, size=size)

    table: CandidateTable
    at: int
    size: int

    @cached_property
    def place(self) -> Ints:
        """(C,) positions of the chosen candidates, best first."""
        return self.table.place[self.at, : self.size]

    @cached_property
    def weight(self) -> Floats:
        """(C,) weights of the chosen candidates."""
        return self.table.weight[self.at, : self.size]

    @cached_property
    def factors(self) -> Floats:
        """(F, C) factors of the weights."""
        return self.table.factors[self.at, :, : self.size]

    @cached_property
    def bootstrap(self) -> Bools:
        """(C,) True for candidates that bootstrap."""
        return self.table.bootstrap[self.at, : self.size]

    def __len__(self) -> int:
        return self.size


@dataclass(frozen=True, eq=False)
class CandidateColumns(CandidateArrays):
    """The concatenated candidates of D decisions, C in total; each decision has ``size`` (D,) of them."""

    size: Ints


def joined_columns(parts: Sequence[CandidateColumns]) -> CandidateColumns:
    """Join the decisions of all parts, which have equally many factors."""
    if len(parts) == 1:
        return parts[0]
    return CandidateColumns(
        np.concatenate([part.place for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.factors for part in parts], axis=1),
        np.concatenate([part.bootstrap for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


def columns_of(chosen: Sequence[ChosenCandidates]) -> CandidateColumns:
    """The candidates of decisions that have equally many factors."""
    count = len(chosen[0].factors)
    return CandidateColumns(
        np.concatenate([one.place for one in chosen]),
        np.concatenate([one.weight for one in chosen]).astype(np.float64, copy=False),
        np.concatenate([one.factors.reshape(count, -1) for one in chosen], axis=1) if count else np.zeros((0, 0)),
        np.concatenate([one.bootstrap for one in chosen]),
        np.array([len(one) for one in chosen], dtype=np.int64),
    )
