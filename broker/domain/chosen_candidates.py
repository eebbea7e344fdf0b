"""The chosen candidates of decisions as arrays: of one, or of a table of many; objects are made when asked for.

Legend of packed decisions: the candidates of a snapshot and the codes of a chain of rules.
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


@dataclass(frozen=True, eq=False, repr=False)
class CandidateArrays:
    """Candidates as arrays: (C,) of one decision, (B, C) of B decisions.

    Attributes:
        place: (..., C) position of each in the names of the legend.
        weight: (..., C).
        factors: (..., F, C), in the order of the legend's factors; F 0 where nothing was weighed.
        bootstrap: (..., C).
    """

    place: Ints
    weight: Floats
    factors: Floats
    bootstrap: Bools


@dataclass(frozen=True, eq=False, repr=False)
class ChosenCandidates(CandidateArrays, Sequence[Candidate]):
    """The C candidates of one decision, the best first; ``legend`` names candidates and factors."""

    legend: Legend

    @cached_property
    def objects(self) -> tuple[Candidate, ...]:
        """The candidates one by one."""
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

    __hash__ = None  # type: ignore[assignment]  # as unhashable as what it stands for

    def __repr__(self) -> str:
        return repr(self.objects)


def no_candidates(legend: Legend) -> ChosenCandidates:
    """The packed form of a decision without any candidate."""
    none = np.zeros(0, dtype=np.int64)
    return ChosenCandidates(none, none.astype(np.float64), np.zeros((0, 0)), none.astype(np.bool_), legend)


@dataclass(frozen=True, eq=False, repr=False)
class CandidateTable(CandidateArrays):
    """The candidates of B decisions, each with as many places; of each decision the first ``size`` (B,) count."""

    legend: Legend
    size: Ints

    def columns(self, rows: Sequence[int]) -> CandidateColumns:
        """The candidates of these decisions, one decision after the other."""
        at = np.array(rows, dtype=np.int64)
        size = self.size[at]
        taken = np.arange(self.place.shape[1]) < size[:, None]
        cell = (at[:, None] * self.place.shape[1] + np.arange(self.place.shape[1]))[taken]
        factors = self.factors.transpose(1, 0, 2)[:, at][:, taken]
        place, weight, bootstrap = (
            column.reshape(-1).take(cell) for column in (self.place, self.weight, self.bootstrap)
        )
        return CandidateColumns(place, weight, factors, bootstrap, size)


class TableCandidates(ChosenCandidates):
    """The candidates of one decision of a table; its columns are cut out of it when asked for.

    Args:
        table: of many decisions.
        at: the decision.
        size: how many candidates it has.
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
    """The candidates of D decisions, concatenated, C in all; each decision has ``size`` (D,) of them."""

    size: Ints


def joined_columns(parts: Sequence[CandidateColumns]) -> CandidateColumns:
    """The decisions of all parts, which have as many factors."""
    if len(parts) == 1:
        return parts[0]
    return CandidateColumns(
        np.concatenate([one.place for one in parts]),
        np.concatenate([one.weight for one in parts]),
        np.concatenate([one.factors for one in parts], axis=1),
        np.concatenate([one.bootstrap for one in parts]),
        np.concatenate([one.size for one in parts]),
    )


def columns_of(chosen: Sequence[ChosenCandidates]) -> CandidateColumns:
    """The candidates of decisions that have as many factors."""
    count = len(chosen[0].factors)
    return CandidateColumns(
        np.concatenate([one.place for one in chosen]),
        np.concatenate([one.weight for one in chosen]).astype(np.float64, copy=False),
        np.concatenate([one.factors.reshape(count, -1) for one in chosen], axis=1) if count else np.zeros((0, 0)),
        np.concatenate([one.bootstrap for one in chosen]),
        np.array([len(one) for one in chosen], dtype=np.int64),
    )
