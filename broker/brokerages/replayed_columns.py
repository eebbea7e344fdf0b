"""Replayed outcomes as columns, without a decision, a name or a word for each piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from broker.domain.arrays import Bools, Ints, Texts


@dataclass(frozen=True)
class ReplayedColumns:
    """The outcomes of T pieces of work over Q candidates.

    Attributes:
        names: (Q,) of the candidates.
        outcome: (T,) as in a decision.
        reason: (T,) why there are no candidates; empty if there are.
        chosen: (T, Q) the candidates.
        jobs: (T, Q) what is assigned there.
        position: (T, Q) index into ``codes`` of what rejected the candidate; negative where nothing did.
        codes: what may reject, by index.
        cycle: that decided; another one can be made beside it.
    """

    names: Texts
    outcome: Texts
    reason: Texts
    chosen: Bools
    jobs: Ints
    position: Ints
    codes: tuple[str, ...]
    cycle: Any
