"""Values of one job that do not go together, and what was assumed where the document does not say. Pure.

Source: Scalable Systems Software Job Object Specification 3.0.3, times of a job.
"""

from __future__ import annotations

from itertools import pairwise

from broker.formats.model.sss.inheritance import WholeJob
from broker.formats.model.sss.model import Block, JobLevel

WALL_TOLERANCE_S = 60
_ORDER = ("SubmissionTime", "StagedTime", "StartTime", "EndTime")


def remarks_on(whole: WholeJob) -> tuple[str, ...]:
    """What is odd about a job: times out of order, a duration that does not fit them."""
    job = whole.job
    found = []
    times = [(name, value) for name in _ORDER if (value := job.integer(name)) is not None]
    for (earlier, first), (later, second) in pairwise(times):
        if first > second:
            found.append(f"times out of order: {earlier} is {first - second} s later than {later}")
    eligible, deadline = job.integer("EligibleTime"), job.integer("DeadlineTime")
    if eligible is not None and deadline is not None and eligible > deadline:
        found.append("times out of order: EligibleTime is later than DeadlineTime")
    wall_s, spent_s = delivered_wall_s(job), _spent_s(job)
    if wall_s is not None and spent_s is not None and abs(wall_s - spent_s) > WALL_TOLERANCE_S:
        found.append(f"delivered WallDuration {wall_s} s, but {spent_s} s from StartTime to EndTime")
    return tuple(found)


def delivered_wall_s(job: JobLevel) -> int | None:
    """The delivered wall time, ``None`` where it is not said."""
    return None if job.delivered is None else wall_s_in(job.delivered)


def wall_s_in(delivered: Block) -> int | None:
    """The same in a block of what was delivered."""
    value = next((one.value for one in delivered.all_of("WallDuration")), None)
    return value if isinstance(value, int) else None


def _spent_s(job: JobLevel) -> int | None:
    start, end = job.integer("StartTime"), job.integer("EndTime")
    return None if start is None or end is None else end - start
