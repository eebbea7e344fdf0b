"""Many expressions over tags, looked at together: each as alternatives of tags that are there and tags that are not.

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
"""An expression with more is looked at by itself."""

_Alternative = tuple[frozenset[str], frozenset[str]]
"""Tags that are there, and tags that are not."""


class TagIndex:
    """Expressions, each of which holds or not where some tags are.

    Args:
        expressions: in this order.
    """

    def __init__(self, expressions: Sequence[Tags]) -> None:
        self._count = len(expressions)
        self._alone: list[tuple[int, Tags]] = []
        present: dict[str, list[int]] = {}
        absent: dict[str, list[int]] = {}
        needs: list[int] = []
        owners: list[int] = []
        for number, expression in enumerate(expressions):
            found = alternatives(expression, holds=True)
            if found is None:
                self._alone.append((number, expression))
                continue
            for there, missing in found:
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
        """(E,) for each expression whether it is true where exactly these tags are."""
        known = set(tags)
        there = [self._present[tag] for tag in known if tag in self._present]
        missing = [self._absent[tag] for tag in known if tag in self._absent]
        fits: Bools = np.equal(_counts(there, len(self._needs)), self._needs)
        if missing:
            fits[np.concatenate(missing)] = False
        found = np.zeros(self._count, dtype=np.bool_)
        found[self._owners[fits]] = True
        for number, expression in self._alone:
            found[number] = expression.holds(known)
        return found


def alternatives(expression: Tags, *, holds: bool) -> list[_Alternative] | None:
    """What makes an expression true, or false; none where nothing does, None where there are too many."""
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
        found = {one for part in known for one in part}
        return list(found) if len(found) <= MOST_ALTERNATIVES else None
    return _all_of(known)


def _all_of(parts: Sequence[list[_Alternative]]) -> list[_Alternative] | None:
    found: list[_Alternative] = [(frozenset(), frozenset())]
    for part in parts:
        pairs = ((one[0] | other[0], one[1] | other[1]) for one, other in product(found, part))
        found = list({(there, missing) for there, missing in pairs if there.isdisjoint(missing)})
        if len(found) > MOST_ALTERNATIVES:
            return None
    return found


def _counts(places: Sequence[Ints], length: int) -> Ints:
    """(C,) how often each number is there."""
    found = np.concatenate([*places, np.zeros(0, dtype=np.int64)])
    return np.bincount(found, minlength=length).astype(np.int64)


def _arrays(places: dict[str, list[int]]) -> dict[str, Ints]:
    return {tag: np.array(found, dtype=np.int64) for tag, found in places.items()}
