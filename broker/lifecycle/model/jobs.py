"""Jobs and queues as timeouts and rebrokerage see them, and what is written into a job that ends. Pure.

- :class:`Job`, :class:`Queue`: what decides about a timeout. Times are naive UTC, as PanDA stores them.
- :class:`WaitingJob`, :func:`youngest_first`: jobs that wait at a queue, those that lose least when taken back first.
- :data:`KILLS`, :data:`FAILURES`: states, error codes and texts of jobs that end.

Source: PanDA server, killing of jobs and verdicts of the watcher; PanDA data model, jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

JobTable = Literal["jobsdefined4", "jobsactive4"]
Clock = Literal["modificationtime", "statechangetime", "creationtime", "starttime", "endtime"]

UNSET_TIME = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in PanDA's tables
"""The default of PanDA's PostgreSQL time columns; it means NULL."""

ANALYSIS_LABELS = ("user", "panda")
BUILDING_LABEL = "panda"
DEFAULT_LABEL = "managed"
"""The label that PanDA assumes for a job without prodsourcelabel."""

NEVER_MOVED = 2
"""relocationflag of jobs whose queue is fixed."""

JEDI = "jedi"
"""lockedby of jobs that were made from tasks and can be made again."""

MERGING = "pmerge"
"""processingtype of merge jobs."""

NO_EVENT_SERVICE = 0
"""eventservice of ordinary jobs; any other value but NULL is a job of the event service, whose events PanDA watches."""

# Why a queue is exempt from all timeouts.
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
        known: whether there is a CRIC row for it; some are known only from their pilots.
        exceptions: why no timeout touches a job here: ``paused``, ``disableReassign``, or ``queue_unreadable`` when
            the row cannot be read for these two; empty when timeouts act.
        status: CRIC status, None when unknown.
        workflow: CRIC workflow.
        laststart: when a job last started, naive UTC; None when unknown.
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


WAITING_STATUSES = ("defined", "assigned", "activated", "starting")


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits. Times are naive UTC, as PanDA stores them.

    Attributes:
        pandaid: the job.
        table: where it is.
        jobstatus: one of :data:`WAITING_STATUSES`.
        queue: its computingsite.
        gshare: its share.
        jeditaskid: its task.
        jobdefinitionid: the submission that it belongs to.
        modificationtime: when it last changed.
        creationtime: when it was created.
        starttime: when it was started, if known.
    """

    pandaid: int
    table: JobTable
    jobstatus: str
    queue: str
    gshare: str | None
    jeditaskid: int | None
    jobdefinitionid: int | None
    modificationtime: datetime | None
    creationtime: datetime | None
    starttime: datetime | None

    @property
    def was_started(self) -> bool:
        """Whether it has ever been given to a worker: it is starting now, or has a time of start."""
        return self.jobstatus == "starting" or self.starttime not in (None, UNSET_TIME)

    @property
    def age_key(self) -> tuple[datetime, int]:
        """The sort key by age; a job without a creation time is older than all others."""
        return self.creationtime or UNSET_TIME, self.pandaid


def youngest_first(jobs: Iterable[WaitingJob]) -> tuple[list[int], list[int]]:
    """The jobs that were never started, and those that were, each the youngest first."""
    ordered = sorted(jobs, key=lambda job: job.age_key, reverse=True)
    return [job.pandaid for job in ordered if not job.was_started], [job.pandaid for job in ordered if job.was_started]


Action = Literal["failed", "reassigned", "killed"]
ErrorColumn = Literal["jobdispatcher", "taskbuffer", "reported"]
"""The column with the error code of a failed job; ``reported``: the one that its pilot's report filled."""

TO_REASSIGN = "toreassign"
TO_BE_KILLED = "tobekilled"

# Kill codes.
EXPIRED = 2
EXPIRED_WAITING = 4
FAST_REBROKERAGE = 10
KILLED_WITH_TASK = 50
REASSIGNED = 51
TASK_FINISHED = 55

MERGE_FAILED = 113
"""taskbuffererrorcode of a job whose output will not be merged."""

WORKER_ENDED = 300
TRANSFER_TIMEOUT = 101
"""taskbuffererrorcode of a job whose output did not arrive."""

# jobdispatchererrorcode
LOST_HEARTBEAT = 100
NOT_RECOVERED = 101
NEVER_STARTED = 102
LOST_WHILE_HOLDING = 103
LOST_WHILE_TRANSFERRING = 104
LOST_AFTER_END = 105


@dataclass(frozen=True)
class Kill:
    """What a kill code does to a job that has not run.

    Attributes:
        substatus: its new jobsubstatus; None leaves it as it was.
        taskbuffer_code: its taskbuffererrorcode.
        diag: the text of that code.
        jobstatus: closed by the system, or cancelled by a person.
    """

    substatus: str | None
    taskbuffer_code: int
    diag: str
    jobstatus: Literal["closed", "cancelled"] = "closed"


KILLS: dict[int, Kill] = {
    EXPIRED: Kill(TO_REASSIGN, 102, "expired"),
    EXPIRED_WAITING: Kill(TO_REASSIGN, 102, "expired while waiting"),
    FAST_REBROKERAGE: Kill(None, 130, "moved by the fast rebrokerage"),
    KILLED_WITH_TASK: Kill(None, 100, "its task was killed", "cancelled"),
    REASSIGNED: Kill(TO_REASSIGN, 100, "taken back for another brokerage"),
    TASK_FINISHED: Kill("taskdone", 100, "its task was finished by hand"),
}

FAILURES: dict[tuple[ErrorColumn, int], str] = {
    ("taskbuffer", WORKER_ENDED): "its worker ended before the job",
    ("taskbuffer", TRANSFER_TIMEOUT): "output was not transferred in time",
    ("jobdispatcher", LOST_HEARTBEAT): "lost heartbeat",
    ("jobdispatcher", NOT_RECOVERED): "lost heartbeat after an error that was not recovered",
    ("jobdispatcher", NEVER_STARTED): "sent to a pilot and not heard of since",
    ("jobdispatcher", LOST_WHILE_HOLDING): "no final report while holding",
    ("jobdispatcher", LOST_WHILE_TRANSFERRING): "lost while it transferred its own output",
    ("jobdispatcher", LOST_AFTER_END): "lost after its end",
}
"""The text of each error code of a failed job."""


def watcher_code(
    jobstatus: str, *, has_ended: bool, has_error: bool, dispatcher_diag: str | None, dispatcher_code: int | None
) -> int:
    """The jobdispatchererrorcode of a job that is set to failed because nothing was heard from it.

    Args:
        jobstatus: its state.
        has_ended: its endtime is set.
        has_error: the payload or the pilot left a diagnosis.
        dispatcher_diag: its present jobdispatchererrordiag; the code that belongs to it stays.
        dispatcher_code: its present jobdispatchererrorcode.
    """
    if jobstatus == "sent":
        return NEVER_STARTED
    if has_error:
        return NOT_RECOVERED
    if dispatcher_diag:
        return dispatcher_code or 0
    if not has_ended:
        return LOST_HEARTBEAT
    return {"holding": LOST_WHILE_HOLDING, "transferring": LOST_WHILE_TRANSFERRING}.get(jobstatus, LOST_AFTER_END)
