"""What is written into a job that is ended: states, error codes and their texts.

Source: PanDA server, killing of jobs and verdicts of the watcher; PanDA data model, jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["failed", "reassigned", "killed"]
ErrorColumn = Literal["jobdispatcher", "taskbuffer", "reported"]
"""Where the error code of a failed job stands; ``reported``: where its pilot's report put it."""

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
"""taskbuffererrorcode of a job whose output nobody merges any more."""

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
    """What a kill code makes of a job that has not run.

    Attributes:
        substatus: None: as it was.
        taskbuffer_code: its taskbuffererrorcode.
        diag: the text of that.
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
    ("taskbuffer", TRANSFER_TIMEOUT): "output was not transferred in time",
    ("jobdispatcher", LOST_HEARTBEAT): "lost heartbeat",
    ("jobdispatcher", NOT_RECOVERED): "lost heartbeat after an error that was not recovered",
    ("jobdispatcher", NEVER_STARTED): "sent to a pilot and not heard of since",
    ("jobdispatcher", LOST_WHILE_HOLDING): "no final report while holding",
    ("jobdispatcher", LOST_WHILE_TRANSFERRING): "lost while it transferred its own output",
    ("jobdispatcher", LOST_AFTER_END): "lost after its end",
}
"""What an error code of a failed job says."""


def watcher_code(
    jobstatus: str, *, has_ended: bool, has_error: bool, dispatcher_diag: str | None, dispatcher_code: int | None
) -> int:
    """The jobdispatchererrorcode of a job that is failed because nothing was heard of it.

    Args:
        jobstatus: its state.
        has_ended: its endtime is set.
        has_error: the payload or the pilot left a diagnosis.
        dispatcher_diag: what jobdispatchererrordiag says already; the code that belongs to it stays.
        dispatcher_code: the jobdispatchererrorcode that is there.
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
