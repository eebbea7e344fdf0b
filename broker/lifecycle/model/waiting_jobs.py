"""Jobs that wait at a queue, and which of them lose least when they are taken back. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from broker.lifecycle.model.jobs import UNSET_TIME, JobTable

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
        modificationtime: of its last change.
        creationtime: when it was made.
        starttime: when it was started, as far as that is known.
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
    def made(self) -> tuple[datetime, int]:
        """What says which of two jobs is older; one without a time of creation is older than all others."""
        return self.creationtime or UNSET_TIME, self.pandaid


def youngest_first(jobs: Iterable[WaitingJob]) -> tuple[list[int], list[int]]:
    """The jobs that were never started, and those that were, the youngest first."""
    some = sorted(jobs, key=lambda job: job.made, reverse=True)
    return [job.pandaid for job in some if not job.was_started], [job.pandaid for job in some if job.was_started]
