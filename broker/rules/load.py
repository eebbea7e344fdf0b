"""The jobs at the candidates as a cycle goes on, as rules that move with them see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import Bools, Floats


@dataclass(frozen=True)
class LoadDetails:
    """Figures of candidates that only some options of rules read; shapes as in :class:`Load`.

    ``typed_*`` are jobs of the resource types that the task has at the queue, ``typed_known`` whether any was counted.
    """

    real_running: Floats  # running jobs of the tag, with nothing that stands in for them
    all_running: Floats  # of all shares
    is_ucore: Bools
    one_nucleus_queue: Bools  # the chunk asks for the nucleus alone
    typed_running: Floats
    typed_queued: Floats  # defined, activated and starting
    typed_assigned: Floats
    typed_known: Bools


@dataclass(frozen=True)
class Load:
    """Jobs at the candidates as the cycle goes on: ``defined`` includes those that this cycle has placed.

    Arrays are (Q,) when chunks are taken one by one, (T, Q) when each meets the same grid; the columns of the chunk are
    scalars in the first case and (T, 1) in the second.
    """

    running: Floats  # the largest reading of "running", see JobFacts.running_equivalent
    defined: Floats
    assigned: Floats
    activated: Floats
    starting: Floats
    all_local: Bools
    queue_limit: Floats  # NQUEUELIMITSITE of the chunk's share
    min_weight: Floats  # MIN_WEIGHT of the chunk's label and share
    urgent: Bools
    bootstrap_allowed: Bools  # priority at or below MAX_PRIO_TO_BOOTSTRAP, not merging, not express
    details: LoadDetails | None = None
    preferred: Bools | None = None  # candidates that go before the others, whatever they weigh

    @cached_property
    def bootstrap(self) -> Bools:
        """Shape of ``running``: no jobs of the share at all, so that the candidate gets some to start with."""
        jobs = self.running + self.activated + self.assigned + self.starting + self.defined
        return np.asarray((jobs == 0) & self.bootstrap_allowed)
