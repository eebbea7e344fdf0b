"""Which jobs a site vacates when it needs cores: those with least to lose, and why. Pure.

Losses decide, for each core. The priority factor is a user's wish about the user's own jobs, so that it only chooses
among those, and only where the losses are about the same. Source: Job to Machine channel, draft 0.9, use cases 9 to 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from broker.formats.job_status import Figures

PRIORITY_TOLERANCE = 0.25
"""How much more a core may lose with a job of lower priority of the same user."""

Mode = Literal["kill", "drain"]
EndBy = Literal["limit", "estimate"]


@dataclass(frozen=True)
class RunningJob:
    """A job as the site sees it; ``None`` is unknown. Times in s, losses in CPU s, ``jobstart`` in UNIX s."""

    id: str
    user: str
    cores: int
    jobstart: int | None = None
    kill_waste: int | None = None
    draining_waste: int | None = None
    remaining_time_max: int | None = None
    remaining_time: int | None = None
    priority: int | None = None
    can_postpone: bool | None = None

    def ends_within(self, window_s: int, by: EndBy) -> bool:
        """Whether the job is over by then: by its enforced limit, or already by its own estimate."""
        end_s = self.remaining_time_max
        if by == "estimate" and self.remaining_time is not None:
            end_s = self.remaining_time
        return end_s is not None and end_s <= window_s


@dataclass(frozen=True)
class Need:
    """What the site needs.

    Attributes:
        cores: to be freed.
        mode: kill jobs now, or drain those that are over within the window.
        window_s: seconds for which the site can wait.
        ends_by: believe the enforced limit of a job, or already its estimate.
        now: UNIX seconds; ``None``: losses are taken as they are reported, without a bound, and a job without a record
            is reckoned up to the start of the youngest one.
    """

    cores: int
    mode: Mode = "kill"
    window_s: int = 0
    ends_by: EndBy = "limit"
    now: int | None = None


@dataclass(frozen=True)
class Cost:
    """What vacating a job loses (CPU s), for each core, and from what that was worked out."""

    total: float
    per_core: float
    basis: str


@dataclass(frozen=True)
class Reason:
    """One step of the choice, in words."""

    id: str
    action: Literal["wait", "vacate", "keep"]
    cost: float | None
    cost_per_core: float | None
    why: str


@dataclass(frozen=True)
class Choice:
    """What to do: jobs to wait for, jobs to vacate in order, cores that come free, whether that is enough, and why."""

    wait_for: tuple[str, ...]
    victims: tuple[str, ...]
    cores_freed: int
    enough: bool
    reasons: tuple[Reason, ...]


def choose(jobs: Sequence[RunningJob], need: Need) -> Choice:
    """The jobs to vacate for ``need``, the least loss first."""
    ending = [one for one in jobs if one.can_postpone is False and one.ends_within(need.window_s, need.ends_by)]
    reasons = [
        Reason(one.id, "wait", None, None, f"ends by itself within {need.window_s} s and takes no more work")
        for one in ending
    ]
    freed = sum(one.cores for one in ending)
    now = max((one.jobstart for one in jobs if one.jobstart is not None), default=0) if need.now is None else need.now
    left: list[tuple[RunningJob, Cost]] = []
    for one in jobs:
        if one in ending:
            continue
        cost = _cost(one, need, now)
        if isinstance(cost, str):
            reasons.append(Reason(one.id, "keep", None, None, cost))
        else:
            left.append((one, cost))
    victims: list[str] = []
    while freed < need.cores and left:
        chosen, why = _next(left)
        job, cost = chosen
        left.remove(chosen)
        victims.append(job.id)
        freed += job.cores
        reasons.append(Reason(job.id, "vacate", cost.total, round(cost.per_core, 3), f"{why}; {cost.basis}"))
    reasons += [Reason(job.id, "keep", cost.total, round(cost.per_core, 3), cost.basis) for job, cost in left]
    return Choice(tuple(one.id for one in ending), tuple(victims), freed, freed >= need.cores, tuple(reasons))


def _cost(job: RunningJob, need: Need, now: int) -> Cost | str:
    """What vacating the job loses, or why it is not to be had."""
    everything = None if job.jobstart is None else job.cores * max(0, now - job.jobstart)
    if need.mode == "drain":
        if not job.ends_within(need.window_s, need.ends_by):
            return f"not known to end within {need.window_s} s"
        bound = None if job.remaining_time_max is None else job.cores * job.remaining_time_max
        reported, name = job.draining_waste, "draining_waste"
    else:
        bound = None if need.now is None else everything
        reported, name = job.kill_waste, "kill_waste"
    if reported is None:
        if everything is None:
            return "no record and no known start: nothing to reckon with"
        return _of(job, everything, "no record, so everything since its start counts")
    if bound is not None and reported > bound:
        return _of(job, bound, f"{name} {reported} is more than it can lose; {bound} counts")
    return _of(job, reported, f"{name} {reported}")


def _of(job: RunningJob, total: float, basis: str) -> Cost:
    # a loss below 0 is none, as in the formulas
    total = max(0, total)
    return Cost(total, total / max(1, job.cores), basis)


def _next(left: Sequence[tuple[RunningJob, Cost]]) -> tuple[tuple[RunningJob, Cost], str]:
    """The next job: least loss for each core, then the least important of its user's jobs that lose hardly more."""
    cheapest = min(left, key=lambda one: (one[1].per_core, one[1].total, one[0].id))
    limit = cheapest[1].per_core * (1.0 + PRIORITY_TOLERANCE)
    alike = [one for one in left if one[0].user == cheapest[0].user and one[1].per_core <= limit]
    chosen = min(alike, key=lambda one: (one[0].priority or 0, one[1].per_core, one[1].total, one[0].id))
    if chosen is cheapest:
        return chosen, "least loss for each core"
    return chosen, f"less important to its user than {cheapest[0].id}, which loses hardly less"


def least_waste_first(jobs: Sequence[int], figures: Mapping[int, Figures], mode: Mode = "kill") -> list[int]:
    """Jobs in the order in which they are to be moved: reported losses rising, then those that reported nothing.

    Jobs of equal loss stay in the order in which they came.

    Args:
        jobs: ids, in the order in which they would be moved otherwise.
        figures: of those that reported.
        mode: whether they are killed or drained.
    """

    def loss(job: int) -> tuple[bool, int]:
        known = figures.get(job)
        waste = None if known is None else known.kill_waste if mode == "kill" else known.draining_waste
        return waste is None, waste or 0

    return sorted(jobs, key=loss)
