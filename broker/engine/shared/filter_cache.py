"""Cache of filter answers and factors of a block, shared by cycles that cannot differ in them.

The answer of a rule depends on the facts, the work and the tuning keys that it declares. Where none of these differ,
neither does the answer, and a cycle with other values or rules need not evaluate the rule again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind


@dataclass(frozen=True)
class RuleFault:
    """A rule that could not be run: it raised, or its answer is not a mask. It is counted, not hidden."""

    rule: str
    error: str


@dataclass(frozen=True)
class Evaluation:
    """Masks of a block: ``feasible`` (T, Q), and ``reason`` (T, Q): index of the deciding filter.

    An index of ``len(filters)`` and more means that filter ``index - len(filters)`` could not judge (unknown).
    """

    feasible: Bools
    reason: AnyArray
    faults: tuple[RuleFault, ...]


#: True or false for each pair: what broadcasts to a block, or the few rows and columns that differ.
Mask = Bools | RowsByKind


@dataclass(frozen=True)
class FilterAnswer:
    """The answer of one filter: for rows of a block, independent of other filters, or for pairs in a list.

    Attributes:
        rows: the rows of the block that it judged, None for all; or positions in the list.
        keep: broadcastable to (rows, Q): True where the candidate passes.
        unknown: the same, True where an input of the rule is missing; None where that is impossible.
        of_pairs: whether it judged pairs in a list; then the shape is (rows, 1).
    """

    rows: AnyArray | None
    keep: Mask
    unknown: Mask | None = None
    of_pairs: bool = False


@dataclass(frozen=True)
class AlikeRules:
    """Properties that two cycles share besides the grid and the work.

    Attributes:
        facts: whether all facts of their blocks are the same.
        rules: names of the rules that answer alike, none without the same facts.
        filters: whether all filters answer alike and are in the same order.
    """

    facts: bool = False
    rules: frozenset[str] = frozenset()
    filters: bool = False


@dataclass(frozen=True)
class LastPass:
    """State of the last pass over a block in a brokerage with several passes.

    Attributes:
        again: positions of the chunks that had a second pass.
        facts: of the block in its last pass.
        candidate_counts: (T,) how many candidates the decisive pass left to each chunk.
    """

    again: Ints
    facts: Any
    candidate_counts: Ints


@dataclass
class BlockCache:
    """Cached results of one block; a cycle that computes more adds to it.

    Attributes:
        facts: the facts of the block and its counts of jobs by status.
        filters: by name, the answers of filters that could judge and did not fail; None where they are not needed.
        factors: by name, the factors of weights.
        evaluation: of all filters together.
        last_pass: over the block; None in a brokerage of one pass.
    """

    facts: tuple[Any, RowsByKind] | None = None
    filters: dict[str, FilterAnswer] | None = field(default_factory=dict)
    factors: dict[str, Floats | RowsByKind] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    last_pass: LastPass | None = None

    def alike(self, shared: AlikeRules) -> BlockCache:
        """The part of the cache that is valid for another cycle, for it to complete."""
        if not shared.facts:
            return BlockCache()
        return BlockCache(
            self.facts,
            None if self.filters is None else _of(self.filters, shared.rules),
            _of(self.factors, shared.rules),
            self.evaluation if shared.filters else None,
            self.last_pass,
        )


def _of(answers: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: answer for name, answer in answers.items() if name in names}
