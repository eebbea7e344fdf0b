"""Many expressions over tags, evaluated together: each as alternatives of tags that are present and that are absent.

Which alternatives hold is counted from the tags of a node alone, so that thousands of expressions cost little more than
the few that mention one of its tags.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.matching.specs.tags import Tags

MOST_ALTERNATIVES = 64
"""An expression with more is evaluated by itself."""

_Alternative = tuple[frozenset[str], frozenset[str]]
"""Tags that must be present, and tags that must be absent."""


class TagIndex:
    """Expressions that are evaluated together for a set of tags.

    Args:
        expressions: the expressions, in the order of the results.
    """

    def __init__(self, expressions: Sequence[Tags]) -> None:
        self._count = len(expressions)
        self._alone: list[tuple[int, Tags]] = []
        present: dict[str, list[int]] = {}
        absent: dict[str, list[int]] = {}
        needs: list[int] = []
        owners: list[int] = []
        for number, expression in enumerate(expressions):
            cases = alternatives(expression, holds=True)
            if cases is None:
                self._alone.append((number, expression))
                continue
            for there, missing in cases:
                for tag in there:
                    present.setdefault(tag, []).append(len(needs))
                for tag in missing:
                    absent.setdefault(tag, []).append(len(needs))
                needs.append(len(there))
                owners.append(number)
        self._present, self._absent = _arrays(present), _arrays(absent)
        self._needs: Ints = np.array(needs, dtype=np.int64)
        self._owners: Ints = np.array(owners, dtype=np.int64)

    def holds(self, tags: Collection[str]) -> Bools:
        """(E,) whether each expression is true where exactly these tags are present."""
        known = set(tags)
        there = [self._present[tag] for tag in known if tag in self._present]
        missing = [self._absent[tag] for tag in known if tag in self._absent]
        fits: Bools = np.equal(_counts(there, len(self._needs)), self._needs)
        if missing:
            fits[np.concatenate(missing)] = False
        result = np.zeros(self._count, dtype=np.bool_)
        result[self._owners[fits]] = True
        for number, expression in self._alone:
            result[number] = expression.holds(known)
        return result


def alternatives(expression: Tags, *, holds: bool) -> list[_Alternative] | None:
    """What makes an expression true, or false; an empty list where nothing does, None where there are too many."""
    if expression.operator == "atom":
        atom = frozenset((expression.atom,))
        return [(atom, frozenset()) if holds else (frozenset(), atom)]
    if expression.operator == "~":
        return alternatives(expression.parts[0], holds=not holds)
    parts = [alternatives(part, holds=holds) for part in expression.parts]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if (expression.operator == "|") == holds:
        merged = {case for part in known for case in part}
        return list(merged) if len(merged) <= MOST_ALTERNATIVES else None
    return _all_of(known)


def _all_of(parts: Sequence[list[_Alternative]]) -> list[_Alternative] | None:
    combined: list[_Alternative] = [(frozenset(), frozenset())]
    for part in parts:
        pairs = ((left[0] | right[0], left[1] | right[1]) for left, right in product(combined, part))
        combined = list({(there, missing) for there, missing in pairs if there.isdisjoint(missing)})
        if len(combined) > MOST_ALTERNATIVES:
            return None
    return combined


def _counts(places: Sequence[Ints], length: int) -> Ints:
    """(C,) how often each number occurs."""
    numbers = np.concatenate([*places, np.zeros(0, dtype=np.int64)])
    return np.bincount(numbers, minlength=length).astype(np.int64)


def _arrays(places: dict[str, list[int]]) -> dict[str, Ints]:
    return {tag: np.array(numbers, dtype=np.int64) for tag, numbers in places.items()}
