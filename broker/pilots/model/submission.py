"""Which pilots the submitter sends, ends and gives up, from what is wanted, what is there and its limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

PilotState = Literal["planned", "submitted", "running", "ended"]
JOB_NAME = "gridbroker-{harvester}-{worker}-{planned_s:x}"
"""Name of the batch job of a pilot; by it a pilot is found after a crash around its submission."""
WAITING = ("planned", "submitted")


@dataclass(frozen=True)
class SentPilot:
    """A pilot that has not ended, as far as is known.

    Attributes:
        worker: its number.
        panda_queue: where it was sent.
        resource_type: of the jobs that it is for.
        executor: of PSI/J.
        native_id: of its batch job; None: not known.
        state: planned, submitted or running.
        planned_at: when it was written down.
        submitted_at: when it was handed over; None: not known.
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
class Wanted:
    """New pilots that a queue could use as they were counted, those sent since, and waiting ones that no job needs."""

    resource_type: str
    number: int
    surplus: int
    sent: int = 0


@dataclass(frozen=True)
class SubmissionLimits:
    """What the submitter never passes at one queue.

    Attributes:
        most_waiting: pilots of its own that wait.
        most_pilots: that wait and run.
        most_new: submissions in one cycle.
        longest_wait_s: after which a waiting pilot is ended.
        withdrawn_after_s: after which a waiting pilot that no job needs is ended.
    """

    most_waiting: int
    most_pilots: int
    most_new: int
    longest_wait_s: float
    withdrawn_after_s: float


def job_name(harvester: str, pilot: SentPilot) -> str:
    """The name of the batch job of a pilot.

    The second in which it was planned is in it: numbers begin anew in another database, whose batch system remembers.
    """
    planned_s = int(pilot.planned_at.timestamp())
    return JOB_NAME.format(harvester=harvester, worker=pilot.worker, planned_s=planned_s)


def to_submit(wanted: Sequence[Wanted], alive: Sequence[SentPilot], limits: SubmissionLimits) -> dict[str, int]:
    """How many pilots are sent to a queue now, by resource type, in the order in which they are wanted.

    Args:
        wanted: at the queue.
        alive: pilots that were sent there and have not ended.
        limits: of the queue.
    """
    waiting = sum(one.state in WAITING for one in alive)
    room = min(limits.most_waiting - waiting, limits.most_pilots - len(alive), limits.most_new)
    found: dict[str, int] = {}
    for one in wanted:
        number = max(min(one.number - one.sent, room), 0)
        if number:
            found[one.resource_type] = number
            room -= number
    return found


def to_end(
    wanted: Sequence[Wanted], alive: Sequence[SentPilot], limits: SubmissionLimits, now: datetime
) -> dict[int, str]:
    """Waiting pilots of a queue that are ended now, each with the reason: waited_too_long or withdrawn.

    Of those that no job needs the last ones sent go first.
    """
    waiting = [one for one in alive if one.state == "submitted"]
    found = {one.worker: "waited_too_long" for one in waiting if _waits_s(one, now) > limits.longest_wait_s}
    surplus: Mapping[str, int] = {one.resource_type: one.surplus for one in wanted}
    for name, number in surplus.items():
        of_type = [one for one in waiting if one.resource_type == name and one.worker not in found]
        of_type.sort(key=lambda one: -one.worker)
        for one in of_type[:number]:
            if _waits_s(one, now) > limits.withdrawn_after_s:
                found[one.worker] = "withdrawn"
    return found


def outcome_of(native: str, said: str | None) -> str:
    """What became of a pilot whose batch job is gone.

    The batch system's word is no success: a job that it does not know any more counts as completed there. Only the
    pilot's own report of its end says that it finished.

    Args:
        native: state that the batch system names last.
        said: what the pilot reported of itself; None: nothing.
    """
    if said == "finished":
        return "finished"
    return {"FAILED": "failed", "CANCELED": "cancelled"}.get(native, "ended")


def may_be_healed(pilot: SentPilot, now: datetime, settle: timedelta) -> bool:
    """Whether a planned pilot is old enough that no submission of it can still be under way."""
    return pilot.state == "planned" and now - pilot.planned_at >= settle


def _waits_s(pilot: SentPilot, now: datetime) -> float:
    return (now - (pilot.submitted_at or pilot.planned_at)).total_seconds()
