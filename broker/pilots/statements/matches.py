"""What a pilot asks for, and what it gets: a job, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from broker.pilots.model.matcher import Pilot

AVOID_NODE = "avoid node"
"""Reason of no match: jobs of several tasks fail at the pilot's node."""
RETRY_ELSEWHERE = "retry elsewhere"
"""Reason of no match: the jobs left for the pilot wait for another node, because their input failed at its own."""
NumberedRequest = tuple[str, int]
"""A pilot by name, and the number of its request."""
MatchRequest = tuple[Pilot, NumberedRequest | None]
"""A pilot that wants a job, and its request if that has a number."""


@dataclass(frozen=True)
class Match:
    """A job that was given to the pilot: its status is ``sent``.

    Attributes:
        pandaid: the job.
        jeditaskid: its task.
        task_queue: where it waited.
        panda_queue: PanDA queue of the pilot.
        pool: SubmitPool of the job; None: none.
        specs: canonical text of what the job asks of a node; None: nothing, or its task queue is gone.
        place_tags: tags declared for the place of the pilot.
    """

    pandaid: int
    jeditaskid: int | None
    task_queue: int
    panda_queue: str
    pool: str | None
    specs: str | None = None
    place_tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NoMatch:
    """Why a pilot got no job.

    Attributes:
        panda_queue: PanDA queue of the pilot.
        reason: the field nearest to a match, ``nothing_waits``, ``taken_by_others``, ``avoid node`` or
            ``retry elsewhere``.
        rejected: task queues that failed, by the first field that did not fit.
        node, held_until: with ``retry elsewhere`` the node, and when the first of the jobs is given there again.
    """

    panda_queue: str
    reason: str
    rejected: dict[str, int]
    node: str | None = None
    held_until: datetime | None = None


MatchOutcome = Match | NoMatch
