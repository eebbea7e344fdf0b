"""The checks of a queue's storage in their fixed order, and the base class of the four rules on its endpoints.

All these rejections are temporary, and the last temporary one is shown; so each check passes where an earlier one
fails, and the first failing check gives the reason. Each rule on endpoints (:class:`EndpointRule`) is about one of
their activities; any DATADISK endpoint that works is enough. Space is in GB.

Source: ATLAS Production Job Brokerage, DISK size check and storage endpoints.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np

from broker.domain.facts import JobFacts
from broker.rules.contract import Bools, Filter, Floats, JobPairs, Observation, Options, TuningView, flag

MIN_FREE_GB = "STORAGE_MIN_FREE_SIZE"
FREE_SPACE = "free_space"


class SpaceOptions(Options):
    """The space that counts: free space, or usable space (with expired, without reserved and unavailable).

    Free space must be larger than the limit; of usable space exactly the limit is enough.
    """

    space: Literal["free", "usable"] = "free"


SHIPPED = SpaceOptions()


def space_gb(facts: JobFacts, options: SpaceOptions = SHIPPED) -> Floats:
    """(1, Q): the space in GB; NaN without an endpoint on record."""
    return facts.space_free_gb if options.space == "free" else facts.space_usable_gb


def has_free_space(facts: JobFacts, tuning: TuningView, options: SpaceOptions = SHIPPED) -> Bools:
    """(1, Q): the space is enough; without an endpoint on record it is not checked."""
    space, limit = space_gb(facts, options), tuning.number(MIN_FREE_GB)
    return np.asarray(~(space <= limit) if options.space == "free" else ~(space < limit))


def works_over_lan(facts: JobFacts, tuning: TuningView, options: SpaceOptions = SHIPPED) -> Bools:
    """(1, Q): there is free space, and jobs can read and write."""
    return np.asarray(has_free_space(facts, tuning, options) & facts.can_read & facts.can_write)


def space_options(pairs: JobPairs) -> SpaceOptions:
    """The options of the rule on free space, which later rules follow."""
    options = pairs.prepared.get(FREE_SPACE)
    return options if isinstance(options, SpaceOptions) else SHIPPED


class EndpointRule(Filter[JobPairs]):
    """Rejects queues without an endpoint for the needed activity, where the earlier checks pass."""

    kind = "temporary"
    keys = (MIN_FREE_GB,)
    sources = ("storages",)
    reads = (FREE_SPACE,)

    @abstractmethod
    def works(self, pairs: JobPairs) -> Bools:
        """(T, Q) or (1, Q): whether some endpoint of the queue allows the needed activity."""

    @abstractmethod
    def prerequisites(self, pairs: JobPairs) -> Bools:
        """(T, Q) or (1, Q): the checks before this one pass."""

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q) or (1, Q): true where an endpoint works or an earlier check fails."""
        return np.asarray(self.works(pairs) | ~self.prerequisites(pairs))

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether an endpoint works, and whether an earlier check fails."""
        works, earlier_pass = flag(self.works(pairs)), flag(self.prerequisites(pairs))
        return Observation(works or not earlier_pass, "==", True, "-", "rule", {"works": works, "asked": earlier_pass})
