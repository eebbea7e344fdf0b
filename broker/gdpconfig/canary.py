"""Values that are tried on a share of the tasks for some time. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from broker.errors import Refused
from broker.gdpconfig.catalogue import Catalogue
from broker.gdpconfig.proposals import Proposal, readers_beside_brokerages


class CanaryRefused(Refused):
    """Values, a share or a time that cannot be tried."""


@dataclass(frozen=True)
class Canary:
    """Values that are tried.

    Attributes:
        id: its number; other tasks are chosen for each.
        proposals: the values.
        share: of the tasks, between 0 and 1.
        editor: the user who started it.
        reason: why.
        started_at: first instant, aware.
        ends_at: from this instant on it is over, aware.
        stopped_at: when it was stopped before that; None when it was not.
    """

    id: int
    proposals: tuple[Proposal, ...]
    share: float
    editor: str
    reason: str
    started_at: datetime
    ends_at: datetime
    stopped_at: datetime | None

    def runs_at(self, now: datetime) -> bool:
        """Whether it is in force at an instant."""
        return self.started_at <= now < self.over_at

    @property
    def over_at(self) -> datetime:
        """From this instant on it is not in force."""
        return self.ends_at if self.stopped_at is None else min(self.stopped_at, self.ends_at)

    def chooses(self, jeditaskid: int) -> bool:
        """Whether a task is among those on which the values are tried: always the same answer for the same task."""
        digest = hashlib.sha256(f"{self.id}:{jeditaskid}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2.0**64

    def chosen(self, jeditaskids: Iterable[int]) -> NDArray[np.bool_]:
        """(T,) which of the tasks are chosen."""
        known: dict[int, bool] = {}
        for task in jeditaskids:
            if task not in known:
                known[task] = self.chooses(task)
        return np.array([known[task] for task in jeditaskids], dtype=np.bool_)


def check_canary(
    catalogue: Catalogue,
    proposals: Iterable[Proposal],
    share: float,
    not_split: Iterable[str],
    brokerages: Collection[str],
) -> None:
    """Refuse values that cannot be tried on a share of the tasks.

    Args:
        catalogue: the keys.
        proposals: the values.
        share: of the tasks.
        not_split: keys whose value holds for the grid, not for a task.
        brokerages: their names.

    Raises:
        CanaryRefused: a share that leaves nothing to compare, or a key by which no brokerage decides about tasks.
    """
    if not (math.isfinite(share) and 0 < share < 1):
        raise CanaryRefused(f"a share of {share:g} leaves nothing to compare", "--share", "give one between 0 and 1")
    for one in proposals:
        entry = catalogue.require(one.key)
        others = readers_beside_brokerages(catalogue, one, brokerages)
        if others:
            raise CanaryRefused(f"{one.key} is read by {others}, not by a brokerage", "", "set it for all tasks")
        if entry.key in set(not_split):
            raise CanaryRefused(f"{one.key} holds for queues, not for tasks", "", "try it with broker what-if")
