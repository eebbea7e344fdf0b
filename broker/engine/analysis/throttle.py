"""The throttle stage of the analysis brokerage: chunks for which no jobs are made now, at any queue, and why.

:func:`throttle_of` gives the first condition that holds for a chunk, with the observed figure and its cap.
:data:`THROTTLE_REASONS` states the conditions as users read them.

Source: ATLAS Analysis Job Brokerage, throttle; PanDA analysis brokerage, caps, quota and share usage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.analysis import CLASS_A, CLASS_B, CLASS_C, AnalysisGrid, OwnerJobs, QuotaLine
from broker.domain.arrays import Floats, RowsByKind, Texts, numbered
from broker.domain.decisions import Reason
from broker.domain.work import WorkTable
from broker.engine.analysis.steps import Throttles
from broker.gdpconfig import Tuning

USER_JOBS, GROUP_JOBS = "CAP_RUNNING_USER_JOBS", "CAP_RUNNING_GROUP_JOBS"
USER_CORES, GROUP_CORES = "CAP_RUNNING_USER_CORES", "CAP_RUNNING_GROUP_CORES"
THRESHOLD_A = "USER_USAGE_THRESHOLD_A"
USE_L1 = "USE_L1_SHARE_USAGE"
KEYS = (USER_JOBS, GROUP_JOBS, USER_CORES, GROUP_CORES, THRESHOLD_A, USE_L1)

#: Twice as many jobs or cores may wait as may run.
QUEUED_TIMES = 2.0
#: Above this part of the quota only merging goes on.
NEAR_QUOTA = 0.9
#: The only share whose usage throttles.
THROTTLED_SHARE = "User Analysis"
USAGE_LIMITS_PERCENT = {CLASS_C: 90.0, CLASS_B: 95.0}
#: Part of the target that counts for a task of class A whose user has not been evaluated.
UNKNOWN_USER_RATIO = 0.5
NO_JOBS = OwnerJobs()
#: PanDA keeps no short user name for tasks of this label; jobs of nobody have the empty one.
PANDA_LABEL, NOBODY = "panda", ""


@dataclass(frozen=True)
class Throttle:
    """Why a chunk gets no jobs now: the condition, the observed figure, and the cap that it exceeds."""

    condition: str
    figure: float
    cap: float
    unit: str
    key: str

    @property
    def note(self) -> str:
        """The throttle as a note of its decision, parsed by :meth:`read`."""
        return f"throttle:{self.condition}:{self.figure:.17g}:{self.cap:.17g}:{self.unit}:{self.key}"

    @classmethod
    def read(cls, note: str) -> Throttle | None:
        """Parse a :attr:`note`; None for a note on something else."""
        parts = note.split(":")
        if len(parts) != 6 or parts[0] != "throttle":
            return None
        return cls(parts[1], float(parts[2]), float(parts[3]), parts[4], parts[5])


@dataclass(frozen=True)
class Requester:
    """Fields of a chunk that the throttle reads; ``task_class`` is None if not evaluated, or too old.

    ``counted_as`` is the name under which jobs and evaluation of the user are found; None for that of the user.
    """

    user: str
    group: str | None
    share: str | None
    merging: bool
    task_class: float | None
    counted_as: str | None = None

    @property
    def owner(self) -> str:
        """The user whose jobs and evaluation count."""
        return self.user if self.counted_as is None else self.counted_as


def requesters(
    chunks: WorkTable,
    task_class: Floats,
    throttles: Throttles = Throttles(),  # noqa: B008 - immutable
) -> list[Requester]:
    """The :class:`Requester` of each chunk."""
    columns = (chunks.username, chunks.workinggroup, chunks.gshare, chunks.merging, task_class)
    no_user = (chunks.prodsourcelabel == PANDA_LABEL) & (throttles.options.panda_label == "of_nobody")
    known: dict[tuple[object, ...], Requester] = {}
    result = []
    rows = zip(*(column.tolist() for column in (*columns, no_user)), strict=True)
    for user, group, share, merging, of_task, has_no_user in rows:
        # NaN equals nothing, not even itself
        evaluated = of_task if of_task == of_task else None
        key = user, group, share, merging, evaluated, has_no_user
        if key not in known:
            counted_as = NOBODY if has_no_user else None
            known[key] = Requester(user or "", group or None, share, merging, evaluated, counted_as)
        result.append(known[key])
    return result


def throttle_of(
    requester: Requester,
    grid: AnalysisGrid,
    tuning: Tuning,
    quota_usable: bool,
    quota_closed: bool,
    throttles: Throttles = Throttles(),  # noqa: B008 - immutable
) -> Throttle | None:
    """The first condition that holds, None if the chunk may go on.

    Args:
        requester: the chunk.
        grid: figures of users, shares and accounts.
        tuning: with the caps.
        quota_usable: the source of quotas can be used.
        quota_closed: no chunk may go on while it cannot; otherwise no quota is checked.
        throttles: how shares and quotas are read.
    """
    throttle = None if requester.merging else _by_caps(requester, grid, tuning)
    if throttle is None:
        throttle = _by_share(requester, grid, tuning, throttles)
    if throttle is not None:
        return throttle
    if not quota_usable:
        return Throttle("quota_unknown", 0.0, 0.0, "-", "config") if quota_closed else None
    lines = grid.quotas.get(requester.group or requester.user, ())
    if throttles.options.quota == "in_order":
        return quota_in_order(lines, requester.merging)
    return by_quota(lines, requester.merging)


def _by_caps(requester: Requester, grid: AnalysisGrid, tuning: Tuning) -> Throttle | None:
    of_group = bool(requester.group)
    owners: Mapping[str, OwnerJobs] = grid.of_group if of_group else grid.of_user
    seen = owners.get(requester.group or requester.owner, NO_JOBS)
    jobs, cores = (GROUP_JOBS, GROUP_CORES) if of_group else (USER_JOBS, USER_CORES)
    conditions = (
        ("running_jobs", seen.running_jobs, 1.0, jobs, "jobs"),
        ("queued_jobs", seen.queued_jobs, QUEUED_TIMES, jobs, "jobs"),
        ("running_cores", seen.running_cores, 1.0, cores, "cores"),
        ("queued_cores", seen.queued_cores, QUEUED_TIMES, cores, "cores"),
    )
    for condition, figure, times, key, unit in conditions:
        cap = times * tuning.number(key)
        # a cap of 0 is not applied, like one that is not set
        if cap > 0 and figure > cap:
            return Throttle(condition, figure, cap, unit, key)
    return None


def _by_share(requester: Requester, grid: AnalysisGrid, tuning: Tuning, throttles: Throttles) -> Throttle | None:
    if requester.share != THROTTLED_SHARE or requester.task_class is None or requester.share not in grid.share_usage:
        return None
    usage = grid.share_usage[requester.share]
    smaller = throttles.options.share_usage == "smaller" or tuning.flag(USE_L1)
    if smaller and requester.share in grid.share_usage_l1:
        usage = min(usage, grid.share_usage_l1[requester.share])
    percent = 100.0 * usage
    limit = USAGE_LIMITS_PERCENT.get(int(requester.task_class))
    if requester.task_class == CLASS_A:
        limit = _limit_of_class_a(requester, grid, tuning)
    if limit is None or not percent > limit:
        return None
    key = THRESHOLD_A if requester.task_class == CLASS_A else "rule"
    return Throttle("share_usage", percent, limit, "%", key)


def _limit_of_class_a(requester: Requester, grid: AnalysisGrid, tuning: Tuning) -> float | None:
    """Percent of the target; None without a limit: the user runs nothing at queues of class hi."""
    threshold = tuning.number(THRESHOLD_A)
    feasible = grid.user_slots_left.get(requester.owner)
    ratio = UNKNOWN_USER_RATIO if feasible is None else 1.0 - feasible / threshold if threshold > 0 else 1.0
    return 100.0 / min(ratio, 1.0) if ratio > 0 else None


def by_quota(lines: tuple[QuotaLine, ...], merging: bool) -> Throttle | None:
    """The first line that is used up, else, unless it merges, the first that nearly is; 0 and less are no limit."""
    limited = [line for line in lines if line.limit_bytes > 0]
    for line in limited:
        if line.used_bytes > line.limit_bytes:
            return Throttle("global_quota", line.used_bytes, line.limit_bytes, "B", "quota")
    for line in limited:
        if not merging and line.used_bytes > NEAR_QUOTA * line.limit_bytes:
            return Throttle("near_global_quota", line.used_bytes, NEAR_QUOTA * line.limit_bytes, "B", "quota")
    return None


def quota_in_order(lines: tuple[QuotaLine, ...], merging: bool) -> Throttle | None:
    """The first line that is used up or nearly is; later lines are not checked."""
    for line in lines:
        if line.limit_bytes > 0 and line.used_bytes > NEAR_QUOTA * line.limit_bytes:
            return by_quota((line,), merging)
    return None


def over_quota(requesters: Sequence[Requester], full: Mapping[str, frozenset[str]], endpoints: Texts) -> RowsByKind:
    """(T, U): the owner has no quota left at the output endpoint (U,) of a queue.

    Args:
        requesters: (T,) the requesters of the chunks.
        full: by account, the endpoints at which it has used up its quota.
        endpoints: (U,) of the queues, empty for none.
    """
    nothing: frozenset[str] = frozenset()
    known, kind = numbered(full.get(requester.group or requester.user, nothing) for requester in requesters)
    names = endpoints.tolist()
    table = [[name in used for name in names] if used else [False] * len(names) for used in known]
    return RowsByKind(np.array(table, dtype=np.bool_).reshape(len(known), len(names)), kind)


THROTTLED = "throttled_"
THROTTLE_REASONS = (
    Reason(
        code=f"{THROTTLED}running_jobs",
        title="enough jobs of the user or group run",
        who="wait",
        cure="Wait: it goes on as your jobs end. `broker user NAME` shows the figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}queued_jobs",
        title="enough jobs of the user or group wait",
        who="wait",
        cure="Wait: it goes on as your jobs start. Submit less at once; `broker user NAME` shows the "
        "figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}running_cores",
        title="enough cores of the user or group are busy",
        who="wait",
        cure="Wait: it goes on as your jobs end. `broker user NAME` shows the figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}queued_cores",
        title="enough cores of the user or group are asked for",
        who="wait",
        cure="Wait: it goes on as your jobs start. Submit less at once; `broker user NAME` shows the "
        "figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}share_usage",
        title="the global share is used up, and the user has had the most of it",
        who="wait",
        cure="Wait: it goes on when others of the share have had their part.",
    ),
    Reason(
        code=f"{THROTTLED}global_quota",
        title="the quota of the user is used up",
        who="you",
        cure="Delete output that you do not need, or ask for more quota. `broker user NAME` shows the quota.",
    ),
    Reason(
        code=f"{THROTTLED}near_global_quota",
        title="the quota of the user is nearly used up",
        who="you",
        cure="Delete output that you do not need, or ask for more quota. Until then only merging goes on; "
        "`broker user NAME` shows the quota.",
    ),
    Reason(
        code=f"{THROTTLED}quota_unknown",
        title="the quota of the user cannot be read, and until it can no jobs are made",
        who="ask",
        cure="Operators look at the source of quotas (`broker alarms`). The work goes on by itself when it is back.",
    ),
)
