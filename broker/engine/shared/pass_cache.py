"""Filter answers of one pass over a block, cached for a second pass over some of its chunks.

Passes differ in few facts. The answer of a filter that reads none of them does not differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from broker.domain.arrays import Ints, RowsByKind
from broker.engine.shared.filter_cache import FilterAnswer, Mask
from broker.rules.contract import Filter

SAME = "same_in_passes"


@dataclass(frozen=True)
class Passes:
    """Answers that the passes over a block exchange.

    Attributes:
        earlier: by name, answers of filters that are not evaluated again.
        noted: by name, answers that are kept for a later pass; None where there is none.
    """

    earlier: Mapping[str, FilterAnswer] = field(default_factory=dict)
    noted: dict[str, FilterAnswer] | None = None

    def note(self, rule: Filter[Any], answer: FilterAnswer, known: dict[str, FilterAnswer] | None) -> None:
        """Record the answer of a rule; in ``known``, it is kept for other cycles as well.

        A class derived from one that answers alike in all passes need not do so itself.
        """
        if known is not None:
            known[rule.name] = answer
        if self.noted is not None and not answer.of_pairs and vars(type(rule)).get(SAME, False):
            self.noted[rule.name] = answer


ONE_PASS = Passes()


def of_chunks(answers: Mapping[str, FilterAnswer], chunks: Ints, count: int) -> dict[str, FilterAnswer]:
    """The answers for some of the ``count`` chunks of a block, by their positions."""
    return {name: _of_chunks(answer, chunks, count) for name, answer in answers.items()}


def _of_chunks(answer: FilterAnswer, chunks: Ints, count: int) -> FilterAnswer:
    rows, at = None, chunks
    if answer.rows is not None:
        inside = np.full(count, -1)
        inside[answer.rows] = np.arange(len(answer.rows))
        at = inside.take(chunks)
        rows = np.flatnonzero(at >= 0)
        at = at.take(rows)
    unknown = None if answer.unknown is None else _rows(answer.unknown, at)
    return replace(answer, rows=rows, keep=_rows(answer.keep, at), unknown=unknown)


def _rows(mask: Mask, at: Ints) -> Mask:
    if isinstance(mask, RowsByKind):
        return mask.of(at)
    return mask if mask.shape[0] == 1 else mask.take(at, axis=0)
