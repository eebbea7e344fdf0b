"""Which queues are eligible for which pools, and why the others are not: all queues at once, one parameter at a time.

The parameters of all queues are arranged in columns once for each VO. Numbers are compared by their rank among the
exact numbers of the column, never as binary floats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt

from broker.pools.model.description import number_of
from broker.pools.model.requirement import Requirement, SubmitPool
from broker.pools.model.resources import EffectiveQueue, ParameterValue, QueueName, Resources

Codes = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

ELIGIBLE, NO_VO = 0, 1
#: What can be wrong with one requirement; the code of requirement n is FIRST + n * len(KINDS) + the kind.
KINDS = ("missing", "no-common-value", "below", "resource-not-a-number")
FIRST = 2
_MISSING, _NO_COMMON_VALUE, _BELOW, _NOT_A_NUMBER = range(len(KINDS))
_FITS = -1


@dataclass(frozen=True)
class Column:
    """One parameter of all queues.

    Attributes:
        present: queues that have the parameter.
        by_text: queues that offer a text, by the text.
        numbers: the distinct numbers, ascending.
        ranks: for each queue, the position of its number among them; -1 without a number.
    """

    present: Flags
    by_text: Mapping[str, npt.NDArray[np.intp]]
    numbers: tuple[Decimal, ...]
    ranks: npt.NDArray[np.int32]

    def faults(self, requirement: Requirement) -> npt.NDArray[np.int8]:
        """For each queue the kind of fault, or -1."""
        if requirement.operator == "ge":
            needed = bisect_left(self.numbers, Decimal(requirement.values[0]))
            faults = np.where(self.ranks >= needed, _FITS, _BELOW).astype(np.int8)
            faults[self.ranks < 0] = _NOT_A_NUMBER
        else:
            faults = np.full(len(self.present), _NO_COMMON_VALUE, np.int8)
            for text in requirement.values:
                if text in self.by_text:
                    faults[self.by_text[text]] = _FITS
        faults[~self.present] = _MISSING
        return faults


class QueueColumns:
    """The queues as one VO sees them, in columns; the faults of a requirement are cached for later pools with it."""

    def __init__(self, queues: Sequence[EffectiveQueue]) -> None:
        self._admitted: Flags = np.array([queue.admitted for queue in queues], dtype=np.bool_)
        values: dict[str, list[tuple[int, ParameterValue]]] = defaultdict(list)
        for row, queue in enumerate(queues):
            for name, value in queue.parameters.items():
                values[name].append((row, value))
        self._values = values
        self._columns: dict[str, Column] = {}
        self._faults: dict[Requirement, npt.NDArray[np.int8]] = {}

    def codes(self, pool: SubmitPool) -> Codes:
        """For each queue 0, or the code of its first fault; see ``reason``."""
        codes = np.where(self._admitted, ELIGIBLE, NO_VO).astype(np.int16)
        for number, requirement in enumerate(pool.requirements):
            faults = self._faults_of(requirement)
            newly_rejected = (codes == ELIGIBLE) & (faults != _FITS)
            codes[newly_rejected] = FIRST + number * len(KINDS) + faults[newly_rejected]
        return codes

    def _faults_of(self, requirement: Requirement) -> npt.NDArray[np.int8]:
        faults = self._faults.get(requirement)
        if faults is None:
            if requirement.name not in self._columns:
                self._columns[requirement.name] = _column(self._values.get(requirement.name, ()), len(self._admitted))
            faults = self._faults[requirement] = self._columns[requirement.name].faults(requirement)
        return faults


@dataclass(frozen=True)
class Eligibility:
    """Eligibility of some pools at all queues.

    Attributes:
        pools: the rows.
        queues: the columns.
        codes: shape (pools, queues): 0 eligible, else a code that ``reason`` puts into words.
    """

    pools: tuple[SubmitPool, ...]
    queues: tuple[QueueName, ...]
    codes: Codes

    @cached_property
    def eligible(self) -> Flags:
        """(pools, queues): true where the queue meets the requirements of the pool."""
        return np.equal(self.codes, ELIGIBLE)

    def eligible_queues(self, row: int) -> list[QueueName]:
        """The queues that are eligible for one pool, sorted."""
        return [self.queues[column] for column in np.flatnonzero(self.codes[row] == ELIGIBLE)]

    def reasons(self, row: int) -> dict[QueueName, str]:
        """For one pool, each queue that is not eligible with the first reason in canonical order."""
        pool, codes = self.pools[row], self.codes[row]
        return {self.queues[column]: reason(pool, int(codes[column])) for column in np.flatnonzero(codes != ELIGIBLE)}


def reason(pool: SubmitPool, code: int) -> str:
    """A code other than 0 in words: ``vo``, ``missing:<name>``, ``no-common-value:<name>``, ``below:<name>`` ..."""
    if code == NO_VO:
        return "vo"
    number, kind = divmod(code - FIRST, len(KINDS))
    return f"{KINDS[kind]}:{pool.requirements[number].name}"


def match_pools(pools: Sequence[SubmitPool], resources: Resources) -> Eligibility:
    """All pools, of any VOs, at all queues, with reasons."""
    columns: dict[str, QueueColumns] = {}
    codes = np.zeros((len(pools), len(resources.queues)), np.int16)
    for row, pool in enumerate(pools):
        if pool.vo not in columns:
            columns[pool.vo] = QueueColumns(resources.effective(pool.vo))
        codes[row] = columns[pool.vo].codes(pool)
    return Eligibility(tuple(pools), resources.queues, codes)


def evaluate(pools: Sequence[SubmitPool], resources: Resources) -> Flags:
    """Which queues are eligible: shape (pools, queues), in the order of ``resources.queues``."""
    return match_pools(pools, resources).eligible


def _column(values: Sequence[tuple[int, ParameterValue]], count: int) -> Column:
    present = np.zeros(count, np.bool_)
    by_text: dict[str, list[int]] = defaultdict(list)
    numbers: dict[int, Decimal] = {}
    parsed: dict[str, Decimal | None] = {}
    for row, value in values:
        present[row] = True
        for text in (value,) if isinstance(value, str) else value:
            by_text[text].append(row)
        if isinstance(value, str):
            if value not in parsed:
                parsed[value] = number_of(value)
            number = parsed[value]
            if number is not None:
                numbers[row] = number
    order = tuple(sorted(set(numbers.values())))
    rank_of = {number: place for place, number in enumerate(order)}
    ranks = np.full(count, -1, np.int32)
    for row, number in numbers.items():
        ranks[row] = rank_of[number]
    return Column(present, {text: np.array(rows, np.intp) for text, rows in by_text.items()}, order, ranks)
