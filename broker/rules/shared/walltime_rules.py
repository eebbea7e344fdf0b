"""The base classes of both job brokerages' rules on the time limits of queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeVar

import numpy as np

from broker.domain.arrays import columns_at
from broker.domain.estimates import time_limit_s
from broker.domain.queues import QueueTable
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Options, Reason, limit_number, number
from broker.rules.shared.walltime import ONE_DAY_S, has_short_limit, reachable_walltime, walltime_inputs
from broker.rules.shared.walltime_capacity import (
    WalltimeOptions,
    capacity,
    day_of,
    falls_short,
    most_demand,
    under_a_day,
)


def keep_where(limited: Bools, candidates: QueueTable, keep: Callable[[QueueTable], Bools]) -> Bools:
    """(T, Q), or (1, Q) if no queue has the limit: the result of a comparison, True without a limit.

    Args:
        limited: (1, Q) queues that have the limit.
        candidates: all queues.
        keep: compares the given queues; returns (T, C).
    """
    at = np.flatnonzero(limited)
    if not len(at):
        return np.asarray(~limited)
    if len(at) == limited.shape[1]:
        return keep(candidates)
    compared = keep(columns_at(candidates, at))
    result = np.ones((len(compared), limited.shape[1]), dtype=np.bool_)
    result[:, at] = compared
    return result


PairsT = TypeVar("PairsT", bound=JobPairs)


class OneDayOptions(Options):
    """How a queue is compared with a day, and for which merge chunks.

    Attributes:
        compare: whether the longest time of the queue is compared with a day, or its capacity with a day of 10 HS06 a
            core.
        merging: whether merge chunks need a day as such, or only if their walltime is undefined.
    """

    compare: Literal["walltime", "capacity"] = "walltime"
    merging: Literal["needs_a_day", "if_undefined"] = "needs_a_day"

    def unestimated(self, pairs: JobPairs) -> Bools:
        """(T, 1): chunks of unknown length."""
        undefined = pairs.facts.walltime_undefined
        return np.asarray(undefined | pairs.chunks.merging if self.merging == "needs_a_day" else undefined)


def keeps_a_day(pairs: JobPairs, options: OneDayOptions) -> Bools:
    """(1, Q) or (T, Q): True where jobs can run for a day."""
    if options.compare == "capacity":
        return np.asarray(~under_a_day(pairs.chunks, pairs.candidates))
    return np.asarray(~has_short_limit(pairs.candidates))


def observed_day(pairs: JobPairs, options: OneDayOptions) -> Observation:
    """The longest time of the queue against a day, or its capacity against a day's; no limit if the queue has none."""
    longest = limit_number(pairs.candidates.maxtime_s) or None
    if options.compare == "capacity":
        room = limit_number(capacity(pairs.chunks, pairs.candidates, pairs.candidates.maxtime_s))
        day = number(day_of(pairs.candidates)) if room else None
        return Observation(room, ">=", day, "HS06s", "rule", {"maxtime_s": longest})
    return Observation(longest, ">=", ONE_DAY_S if longest else None, "s", "rule", {"maxtime_s": longest})


class OneDayRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues whose ``maxtime`` (s; 0, NULL: no limit), or whose capacity, is less than a day."""

    reason = Reason(
        code="scout_walltime",
        title="The queue runs jobs for at least 24 hours, for scouts",
        violation="The queue stops jobs before 24 hours, and scouts may take that long",
        no_candidate="allows a day of walltime for scouts",
        who="ask",
        cure="Other queues run the scouts, and the other jobs of the task need no 24 hours once those have ended. "
        "Where there are none, the site raises `maxtime`.",
    )
    sources = ("queues",)
    options: OneDayOptions = OneDayOptions()

    def keep(self, pairs: PairsT) -> Bools:
        """(1, Q), or (T, Q) by capacity."""
        return keeps_a_day(pairs, self.options)

    def observe(self, pairs: PairsT) -> Observation:
        """The longest time of the queue, or its capacity; no limit if the queue has none."""
        return observed_day(pairs, self.options)


class ShortestTimeRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues whose ``mintime`` (s; 0 and NULL are no limit) is longer than the expected walltime.

    An undefined walltime is too short.
    """

    reason = Reason(
        code="longwalltime",
        title="The expected walltime is not shorter than the queue wants",
        violation="The job is too short: the queue takes long jobs only",
        no_candidate="is for so short a walltime",
        who="you",
        cure="Make the jobs longer: more events or input for each (`nEventsPerJob`, `nFilesPerJob` or `nGBPerJob` of "
        "the task, and the options of `prun` of the same names).",
        limit="queue.mintime",
    )
    sources = ("queues",)
    options: WalltimeOptions = WalltimeOptions()

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q), or (1, Q) if no queue has a shortest time."""
        if self.options.by_capacity:
            return np.asarray(~falls_short(pairs.chunks, pairs.candidates, pairs.facts))
        limited = time_limit_s(pairs.candidates.mintime_s, -np.inf) != -np.inf
        if not limited.any():
            return np.asarray(~limited)
        expected = reachable_walltime(pairs.chunks, pairs.facts)
        return keep_where(limited, pairs.candidates, lambda some: np.asarray(expected.at(some) >= some.mintime_s))

    def observe(self, pairs: PairsT) -> Observation:
        """The expected walltime, or the need of the job; None where it is undefined."""
        if self.options.by_capacity:
            least = number(capacity(pairs.chunks, pairs.candidates, pairs.candidates.mintime_s))
            limited = bool(limit_number(pairs.candidates.mintime_s))
            needed = number(most_demand(pairs.chunks, pairs.candidates, pairs.facts))
            inputs = walltime_inputs(pairs.chunks, pairs.candidates)
            return Observation(needed, ">=", least if limited else None, "HS06s", "queue.mintime", inputs)
        expected = number(reachable_walltime(pairs.chunks, pairs.facts).at(pairs.candidates))
        limit = limit_number(time_limit_s(pairs.candidates.mintime_s, -np.inf))
        return Observation(expected, ">=", limit, "s", "queue.mintime", walltime_inputs(pairs.chunks, pairs.candidates))
