"""What a pilot asks for, and what it gets: a job, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from broker.pilots.model.matcher import Pilot

AVOID_NODE = "avoid node"
"""Why the pilot of a node at which jobs of several tasks fail gets none."""
RETRY_ELSEWHERE = "retry elsewhere"
"""Why a pilot gets none where jobs that are left for it wait for another node, since input of them failed at its."""
NumberedRequest = tuple[str, int]
"""A pilot by name, and the number of its request."""
Asked = tuple[Pilot, NumberedRequest | None]
"""A pilot that wants a job, and its request where that has a number."""


@dataclass(frozen=True)
class Match:
    """A job that was given to the pilot: its status is ``sent``.

    Attributes:
        pandaid: the job.
        jeditaskid: its task.
        task_queue: where it waited.
        panda_queue: of the pilot.
        pool: SubmitPool of the job; None without.
        specs: canonical text of what the job asks of a node; None: nothing, or its task queue is gone.
        place_tags: that are declared for the place of the pilot.
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
        panda_queue: of the pilot.
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


MatchFound = Match | NoMatch
