"""Which pilots the submitter sends, ends and gives up, from the demand, the current pilots and its limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

PilotState = Literal["planned", "submitted", "running", "ended"]
JOB_NAME = "gridbroker-{harvester}-{worker}-{planned_s:x}"
"""Name of the batch job of a pilot, by which the pilot is found after a crash around its submission."""
WAITING = ("planned", "submitted")


@dataclass(frozen=True)
class SentPilot:
    """A pilot that has not ended, as far as is known.

    Attributes:
        worker: its number.
        panda_queue: where it was sent.
        resource_type: resource type of the jobs that it is for.
        executor: executor of PSI/J.
        native_id: id of its batch job; None: not known.
        state: planned, submitted or running.
        planned_at: when it was recorded.
        submitted_at: when it was submitted; None: not known.
    """

    worker: int
    panda_queue: str
    resource_type: str
    executor: str
    native_id: str | None
    state: PilotState
    planned_at: datetime
    submitted_at: datetime | None


@dataclass(frozen=True)
class PilotRequests:
    """New pilots that a queue could use at the last count, those sent since, and waiting ones that no job needs."""

    resource_type: str
    number: int
    surplus: int
    sent: int = 0


@dataclass(frozen=True)
class SubmissionLimits:
    """Limits that the submitter never exceeds at one queue.

    Attributes:
        most_waiting: pilots of its own that wait.
        most_pilots: pilots of its own that wait and run.
        most_new: submissions in one cycle.
        longest_wait_s: time after which a waiting pilot is ended.
        withdrawn_after_s: time after which a waiting pilot that no job needs is ended.
    """

    most_waiting: int
    most_pilots: int
    most_new: int
    longest_wait_s: float
    withdrawn_after_s: float


def job_name(harvester: str, pilot: SentPilot) -> str:
    """The name of the batch job of a pilot.

    It contains the second in which the pilot was planned: another database begins its numbers anew, but its batch
    system remembers the old ones.
    """
    planned_s = int(pilot.planned_at.timestamp())
    return JOB_NAME.format(harvester=harvester, worker=pilot.worker, planned_s=planned_s)


def to_submit(wanted: Sequence[PilotRequests], alive: Sequence[SentPilot], limits: SubmissionLimits) -> dict[str, int]:
    """How many pilots are sent to a queue now, by resource type, in the order in which they are wanted.

    Args:
        wanted: pilots wanted at the queue.
        alive: pilots that were sent there and have not ended.
        limits: limits of the queue.
    """
    waiting = sum(one.state in WAITING for one in alive)
    room = min(limits.most_waiting - waiting, limits.most_pilots - len(alive), limits.most_new)
    counts: dict[str, int] = {}
    for one in wanted:
        number = max(min(one.number - one.sent, room), 0)
        if number:
            counts[one.resource_type] = number
            room -= number
    return counts


def to_end(
    wanted: Sequence[PilotRequests], alive: Sequence[SentPilot], limits: SubmissionLimits, now: datetime
) -> dict[int, str]:
    """Waiting pilots of a queue that are ended now, each with the reason: waited_too_long or withdrawn.

    Of those that no job needs the last ones sent go first.
    """
    waiting = [pilot for pilot in alive if pilot.state == "submitted"]
    endings = {pilot.worker: "waited_too_long" for pilot in waiting if _waits_s(pilot, now) > limits.longest_wait_s}
    surplus: Mapping[str, int] = {one.resource_type: one.surplus for one in wanted}
    for name, number in surplus.items():
        of_type = [pilot for pilot in waiting if pilot.resource_type == name and pilot.worker not in endings]
        of_type.sort(key=lambda pilot: -pilot.worker)
        for pilot in of_type[:number]:
            if _waits_s(pilot, now) > limits.withdrawn_after_s:
                endings[pilot.worker] = "withdrawn"
    return endings


def outcome_of(native: str, status: str | None) -> str:
    """What became of a pilot whose batch job is gone.

    The batch system's state proves no success: a job that it no longer knows counts as completed there. Only the
    pilot's own report of its end shows that it finished.

    Args:
        native: last state that the batch system names.
        status: status that the pilot reported; None: none.
    """
    if status == "finished":
        return "finished"
    return {"FAILED": "failed", "CANCELED": "cancelled"}.get(native, "ended")


def may_be_healed(pilot: SentPilot, now: datetime, settle: timedelta) -> bool:
    """Whether a planned pilot is old enough that no submission of it can still be under way."""
    return pilot.state == "planned" and now - pilot.planned_at >= settle


def _waits_s(pilot: SentPilot, now: datetime) -> float:
    return (now - (pilot.submitted_at or pilot.planned_at)).total_seconds()
