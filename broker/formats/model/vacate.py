"""Which jobs a site vacates when it needs cores: those with the least to lose, and why. Pure.

The loss for each core decides. The priority factor is a user's wish about the user's own jobs, so it only chooses among
those, and only where the losses are about the same. Source: Job to Machine channel, draft 0.9, use cases 9 to 12.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, Strict, StrictBool, StrictInt

from broker.formats.model.job_status import Stats, UnixSeconds

PRIORITY_TOLERANCE = 0.25
"""How much more, as a fraction, a core may lose with a job of lower priority of the same user."""

MAX_LOSS_CPU_S = 10**18 - 1
"""A larger loss counts as this: no file of a record holds more digits, and no machine has lost so much."""

MAX_CORES = 10**9
Mode = Literal["kill", "drain"]
EndBy = Literal["limit", "estimate"]


@dataclass(frozen=True)
class RunningJob:
    """A job as the site sees it; ``None`` is unknown. Times in s, losses in CPU s, ``jobstart`` in UNIX s."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=False)  # a mapping will do; its values are strict

    id: Annotated[str, Field(strict=True, min_length=1)]
    user: Annotated[str, Strict()]
    cores: Annotated[int, Field(strict=True, ge=1, le=MAX_CORES)]
    jobstart: UnixSeconds | None = None
    kill_waste: StrictInt | None = None
    draining_waste: StrictInt | None = None
    remaining_time_max: StrictInt | None = None
    remaining_time: StrictInt | None = None
    priority: StrictInt | None = None
    can_postpone: StrictBool | None = None

    def ends_within(self, window_s: int, by: EndBy) -> bool:
        """Whether the job ends within the window: by its enforced limit, or already by its own estimate."""
        end_s = self.remaining_time_max
        if by == "estimate" and self.remaining_time is not None:
            end_s = self.remaining_time
        return end_s is not None and end_s <= window_s


@dataclass(frozen=True)
class Need:
    """What the site needs.

    Attributes:
        cores: the cores to free, ``cores_needed`` in a document.
        mode: kill jobs now, or drain those that end within the window.
        window_s: seconds for which the site can wait.
        ends_by: trust the enforced limit of a job, or already its estimate.
        now: UNIX seconds; ``None``: losses are taken as they are reported, without a bound, and a job without a record
            is counted up to the start of the youngest one.
    """

    cores: Annotated[int, Field(strict=True, ge=0, le=MAX_CORES, validation_alias="cores_needed")]
    mode: Mode = "kill"
    window_s: Annotated[int, Field(strict=True, ge=0)] = 0
    ends_by: EndBy = "limit"
    now: Annotated[int | None, Field(strict=True, ge=0)] = None


@dataclass(frozen=True)
class RankRequest(Need):
    """What the site needs, and the jobs that run there."""

    jobs: list[RunningJob] = field(kw_only=True)


@dataclass(frozen=True)
class Cost:
    """What vacating a job loses (CPU s), also for each core, and how that was worked out."""

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
    """The jobs to vacate for ``need``, those with the least loss first."""
    ending: list[RunningJob] = []
    reasons: list[Reason] = []
    now = max((job.jobstart for job in jobs if job.jobstart is not None), default=0) if need.now is None else need.now
    candidates: list[_Candidate] = []
    for job in jobs:
        if job.can_postpone is False and job.ends_within(need.window_s, need.ends_by):
            ending.append(job)
            continue
        cost = _cost(job, need, now)
        if isinstance(cost, str):
            reasons.append(Reason(job.id, "keep", None, None, cost))
        else:
            candidates.append(_Candidate(job, cost, len(candidates)))
    ends = f"ends by itself within {need.window_s} s and takes no more work"
    reasons = [*(Reason(job.id, "wait", None, None, ends) for job in ending), *reasons]
    freed = sum(job.cores for job in ending)
    order = _Order(candidates)
    victims: list[str] = []
    while freed < need.cores and (chosen := order.take()) is not None:
        victim, why = chosen
        victims.append(victim.job.id)
        freed += victim.job.cores
        reasons.append(_reason(victim, "vacate", f"{why}; {victim.cost.basis}"))
    left = (candidate for candidate in candidates if candidate.position not in order.taken)
    reasons += [_reason(candidate, "keep", candidate.cost.basis) for candidate in left]
    return Choice(tuple(job.id for job in ending), tuple(victims), freed, freed >= need.cores, tuple(reasons))


@dataclass(frozen=True)
class _Candidate:
    """A job that may be vacated, the loss, and its position among the candidates."""

    job: RunningJob
    cost: Cost
    position: int

    def by_loss(self) -> tuple[float, float, str, int]:
        return self.cost.per_core, self.cost.total, self.job.id, self.position

    def by_importance(self) -> tuple[int, float, float, str, int]:
        return self.job.priority or 0, *self.by_loss()


def _reason(candidate: _Candidate, action: Literal["vacate", "keep"], why: str) -> Reason:
    return Reason(candidate.job.id, action, candidate.cost.total, round(candidate.cost.per_core, 3), why)


def _cost(job: RunningJob, need: Need, now: int) -> Cost | str:
    """What vacating the job loses, or why it cannot be vacated."""
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
    # a loss below 0 counts as none, as in the formulas
    if total > MAX_LOSS_CPU_S:
        total, basis = MAX_LOSS_CPU_S, f"{basis}, of which {MAX_LOSS_CPU_S} counts"
    total = max(0, total)
    return Cost(total, total / max(1, job.cores), basis)


class _Order:
    """Candidates in the order in which they are vacated: each is considered once by loss and once by importance.

    The least loss for each core only rises, so a job that was near enough once stays so until it is taken.
    """

    def __init__(self, candidates: Sequence[_Candidate]) -> None:
        self.taken: set[int] = set()
        self._by_loss = sorted(candidates, key=_Candidate.by_loss)
        self._next = 0
        self._users: dict[str, _OfUser] = {}
        for candidate in self._by_loss:
            self._users.setdefault(candidate.job.user, _OfUser()).by_loss.append(candidate)

    def take(self) -> tuple[_Candidate, str] | None:
        """The next job, and why: the least loss for each core, or less important to its user with hardly more loss."""
        while self._next < len(self._by_loss) and self._by_loss[self._next].position in self.taken:
            self._next += 1
        if self._next == len(self._by_loss):
            return None
        cheapest = self._by_loss[self._next]
        chosen = self._users[cheapest.job.user].take(cheapest.cost.per_core * (1.0 + PRIORITY_TOLERANCE))
        self.taken.add(chosen.position)
        if chosen is cheapest:
            return chosen, "least loss for each core"
        return chosen, f"less important to its user than {cheapest.job.id}, which loses hardly less"


@dataclass
class _OfUser:
    """The jobs of one user by loss, and those of them that were near enough to be chosen by importance."""

    by_loss: list[_Candidate] = field(default_factory=list)
    _near: list[tuple[tuple[int, float, float, str, int], _Candidate]] = field(default_factory=list)
    _seen: int = 0

    def take(self, limit: float) -> _Candidate:
        """The least important of the jobs that lose at most ``limit`` for each core."""
        while self._seen < len(self.by_loss) and self.by_loss[self._seen].cost.per_core <= limit:
            candidate = self.by_loss[self._seen]
            heapq.heappush(self._near, (candidate.by_importance(), candidate))
            self._seen += 1
        return heapq.heappop(self._near)[1]


def least_waste_first(jobs: Sequence[int], stats: Mapping[int, Stats], mode: Mode = "kill") -> list[int]:
    """Jobs in the order in which they are moved: by rising reported loss, then those that reported nothing.

    Jobs of equal loss keep their order.

    Args:
        jobs: ids, in the order in which they would be moved otherwise.
        stats: the figures of those that reported.
        mode: whether they are killed or drained.
    """

    def loss(job: int) -> tuple[bool, int]:
        known = stats.get(job)
        waste = None if known is None else known.kill_waste if mode == "kill" else known.draining_waste
        return waste is None, waste or 0

    return sorted(jobs, key=loss)
