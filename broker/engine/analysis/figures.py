"""The figures of the stabilizer that are kept with a decision: at its candidates, and where the stabilizer rejected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import AnyArray, Floats, Ints
from broker.domain.stabilizer import FIGURES, StabilizerLoad, stabilize, stats_of_all

#: Jobs that were placed for the accounting key of a chunk, for its user, and users that were new, at the same pairs.
Placed = tuple[Floats, Floats, Floats]


def load_at(facts: AnalysisFacts, chunk: AnyArray, queue: Ints, placed: Placed | None) -> StabilizerLoad:
    """(N,): the load at pairs of chunks of a block and candidates, with what was placed."""

    def at(name: str) -> Floats:
        return facts.at(name, chunk, queue)

    defined, user_queued, users = at("defined"), at("user_queued"), at("users")
    if placed is not None:
        defined, user_queued, users = defined + placed[0], user_queued + placed[1], users + placed[2]
    return StabilizerLoad(
        defined + at("assigned") + at("activated") + at("starting"),
        at("users_running"),
        at("to_running_rate"),
        user_queued,
        at("user_running"),
        users,
    )


def figures_at(load: StabilizerLoad, number_of: Callable[[str], float]) -> Floats:
    """(F, N): the figures in their order."""
    seen = stats_of_all(load, stabilize(load, number_of))
    return np.array([seen[name] for name in FIGURES], dtype=np.float64)
