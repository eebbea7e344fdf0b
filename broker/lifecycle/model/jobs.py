"""A job and its queue as the timeouts see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

JobTable = Literal["jobsdefined4", "jobsactive4"]
Clock = Literal["modificationtime", "statechangetime", "creationtime", "starttime", "endtime"]

UNSET_TIME = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in PanDA's tables
"""What PanDA's PostgreSQL columns hold when nobody set them; it means NULL."""

ANALYSIS_LABELS = ("user", "panda")
BUILDING_LABEL = "panda"
DEFAULT_LABEL = "managed"
"""What PanDA takes a job without prodsourcelabel for."""

NEVER_MOVED = 2
"""relocationflag of jobs whose queue is fixed."""

JEDI = "jedi"
"""lockedby of jobs that were made from tasks, and can be made again."""

MERGING = "pmerge"
"""processingtype of merge jobs."""

NO_EVENT_SERVICE = 0
"""eventservice of ordinary jobs; any other value but NULL is a job of the event service, whose events PanDA watches."""

# Why a queue is excepted from all timeouts.
PAUSED = "paused"
DISABLE_REASSIGN = "disableReassign"
UNREADABLE = "queue_unreadable"


@dataclass(frozen=True)
class Job:
    """The columns of a job that decide about its timeouts. Times are naive UTC, as PanDA stores them."""

    pandaid: int
    table: JobTable
    jobstatus: str
    computingsite: str | None = None
    jeditaskid: int | None = None
    prodsourcelabel: str | None = None
    currentpriority: int | None = None
    lockedby: str | None = None
    relocationflag: int | None = None
    processingtype: str | None = None
    eventservice: int | None = None
    transformation: str | None = None
    jobsubstatus: str | None = None
    commandtopilot: str | None = None
    exeerrordiag: str | None = None
    piloterrordiag: str | None = None
    jobdispatchererrorcode: int | None = None
    jobdispatchererrordiag: str | None = None
    modificationtime: datetime | None = None
    statechangetime: datetime | None = None
    creationtime: datetime | None = None
    starttime: datetime | None = None
    endtime: datetime | None = None

    def time(self, clock: Clock) -> datetime | None:
        """A time of the job; PanDA's default for a column that was not set is NULL."""
        value: datetime | None = getattr(self, clock)
        return None if value == UNSET_TIME else value

    @property
    def label(self) -> str:
        """The production source label."""
        return self.prodsourcelabel or DEFAULT_LABEL

    @property
    def is_event_service(self) -> bool:
        """Whether the job works on single events (PanDA's job table: 1 to 6), so that no timeout touches it."""
        return self.eventservice not in (None, NO_EVENT_SERVICE)

    @property
    def is_build(self) -> bool:
        """Whether the job builds the software of a user's jobs."""
        return self.label == BUILDING_LABEL and "build" in (self.transformation or "")


@dataclass(frozen=True)
class Queue:
    """A queue as the timeouts see it.

    Attributes:
        name: as jobs name it.
        known: whether there is a CRIC row for it; some are only known by their pilots.
        exceptions: why no timeout touches a job here: ``paused``, ``disableReassign``, or ``queue_unreadable`` when
            what the row says of these two is not known; empty when they do.
        status: CRIC status, None when unknown.
        workflow: CRIC workflow.
        laststart: when a job last started, naive UTC; None when that is not known.
    """

    name: str
    known: bool = True
    exceptions: tuple[str, ...] = ()
    status: str | None = "online"
    workflow: str | None = None
    laststart: datetime | None = None

    def starts_nothing(self, before: datetime) -> bool:
        """Whether the queue is offline or in test, or its last start is known and older than ``before``."""
        return self.status in ("offline", "test") or (self.laststart is not None and self.laststart < before)
