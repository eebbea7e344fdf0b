"""What the analysis brokerage reads besides the tables of production: users, quotas, classes, and its own facts.

- Tables: :class:`AnalysisGrid` (jobs, cores and quotas of users at one instant) and :class:`AnalysisWork` (columns of
  length T in addition to those of the work table).
- Facts of a block of T chunks and Q candidates: :class:`AnalysisFacts` and its groups.
- The Analysis Stabilizer (:func:`stabilize`): how many jobs a user may have queued at a queue, and the figures
  behind the number.
- The release that a user's task runs, parsed from its ``transHome`` (:func:`what_is_run`).

Source: ATLAS Analysis Job Brokerage, Analysis Stabilizer and release/cache availability; PanDA analysis brokerage,
inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from broker.domain.arrays import LATER, Bools, Floats, Ints, Texts
from broker.domain.decisions import Value
from broker.domain.facts import JobFacts

#: Classes as PanDA numbers them: of tasks S, A, B and C, of queues hi, mid and lo.
CLASS_S, CLASS_A, CLASS_B, CLASS_C = 2, 1, 0, -1
SITE_HI, SITE_MID, SITE_LO = 1, 0, -1
#: Suffix of the names of virtual-placement endpoints.
VP_ENDING = "_VP_DISK"


@dataclass(frozen=True)
class OwnerJobs:
    """Jobs and cores of a user or a working group."""

    running_jobs: float = 0.0
    queued_jobs: float = 0.0
    running_cores: float = 0.0
    queued_cores: float = 0.0


@dataclass(frozen=True)
class QuotaLine:
    """One line of an account: bytes used, and the limit; 0 or less means no limit."""

    place: str
    used_bytes: float
    limit_bytes: float


@dataclass(frozen=True)
class UserQueue:
    """One user's queued and running jobs of one share and label, at the unified queues with positions ``unified``."""

    unified: Ints
    queued: Floats
    running: Floats


@dataclass(frozen=True)
class AnalysisGrid:
    """Figures of users and classes at one instant, without outdated rows.

    Attributes:
        starts: (U,) jobs of all shares that started in the last 6 hours.
        users: by share, (U,) how many users have any job there.
        users_running: by share and label, (U,) running jobs of all users, without merge jobs; NaN without any such job.
        present: by user and share, the unified queues (positions) at which the user has any job.
        by_user: by user, share and label; without merge jobs.
        by_type: by share and resource type, (2, U) queued and running jobs.
        of_user: analysis jobs outside working groups, and those for groups in the table of defined jobs.
        of_group: jobs of working groups.
        share_usage: running over target by share; 1.0 is on target.
        share_usage_l1: the same by top-level share, with the targets of idle shares given to the busy ones.
        site_class: (U,) SITE_HI, SITE_MID or SITE_LO; NaN without a fresh row.
        user_slots_left: by user, slots left below USER_USAGE_THRESHOLD_A.
        quotas: lines by account.
        full_endpoints: endpoints at which the account has used up its quota, by account.
    """

    starts: Floats = field(default_factory=lambda: np.zeros(0))
    users: Mapping[str, Floats] = field(default_factory=dict)
    users_running: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    present: Mapping[tuple[str, str], Ints] = field(default_factory=dict)
    by_user: Mapping[tuple[str, str, str], UserQueue] = field(default_factory=dict)
    by_type: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    of_user: Mapping[str, OwnerJobs] = field(default_factory=dict)
    of_group: Mapping[str, OwnerJobs] = field(default_factory=dict)
    share_usage: Mapping[str, float] = field(default_factory=dict)
    share_usage_l1: Mapping[str, float] = field(default_factory=dict)
    site_class: Floats = field(default_factory=lambda: np.zeros(0))
    user_slots_left: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, tuple[QuotaLine, ...]] = field(default_factory=dict)
    full_endpoints: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class AnalysisWork:
    """Columns of length T in addition to those of the work table.

    Lists of queues are comma-separated, as users write them. ``bad_jobs`` is a JSON object: for each queue the
    finished, failed and closed jobs of the task within TW_DONE_JOB_STAT hours.
    """

    transuses: Texts
    included_sites: Texts
    excluded_sites: Texts
    avoid_vp: Bools  # AV
    allow_incomplete: Bools  # AI
    gb_per_job: Floats  # NG, 0 without
    task_class: Floats  # CLASS_*, NaN without a fresh evaluation
    bad_jobs: Texts
    jobs_estimate: Floats  # jobs that the chunk would make
    sites_per_job: Ints = field(metadata={LATER: 1})  # NS: queues at which each job is to run, 1 without job cloning


@dataclass(frozen=True)
class TaskChoiceFacts:
    """Facts about the queues that a task names or excludes."""

    site_named: Bools  # (T, 1) the task names the one queue
    named: Bools  # (T, Q) the task names the queue
    reserve: Bools  # (T, Q) only AUTO in includedSite makes the queue a candidate
    wanted: Bools  # (T, Q) the task includes the queue and does not exclude it
    local_pass: Bools  # (T, 1) the input must be at the queue
    transuses: Texts  # (T, 1)
    gb_per_job: Floats  # (T, 1)
    cloud_of_queue: Texts  # (1, Q)


@dataclass(frozen=True)
class LocalityFacts:
    """Where the input is, and whether the queue may fetch it."""

    has_input: Bools  # (T, Q) as much of the input as the locality check requires
    needs_wan: Bools  # (T, Q) input comes from elsewhere
    avoids_vp: Bools  # (T, 1)
    is_vp: Bools  # (1, Q)
    without_vp: Bools  # (T, Q) the input is there without virtual placement, or need not be
    locality_weight: Floats  # (T, Q)
    lacks_files: Bools  # (T, Q) the queue reads only local data, and has not all of it


@dataclass(frozen=True)
class ScopedStorageFacts:
    """Storages of the queue by the scope in use, and the quota that the user has left there."""

    has_output: Bools  # (1, Q)
    has_input_storage: Bools  # (1, Q)
    output_usable_gb: Floats  # (1, Q) NaN without a figure
    input_usable_gb: Floats  # (1, Q) of the default input endpoint, where it is another one; NaN
    reads_lan: Bools  # (1, Q)
    writes_lan: Bools
    receives: Bools
    sends: Bools
    over_local_quota: Bools  # (T, Q)


@dataclass(frozen=True)
class TypeLoadFacts:
    """Jobs by resource type, jobs of the share everywhere, and earlier jobs of the task."""

    queued_of_type: Floats  # (T, Q) of the share and resource type
    running_of_type: Floats
    share_queued: Floats  # (T, 1) over all queues
    share_running: Floats
    jobs_finished: Floats  # (T, Q)
    jobs_bad: Floats
    jobs_closed: Floats


@dataclass(frozen=True)
class StabilizerFacts:
    """Facts that the stabilizer reads."""

    to_running_rate: Floats  # (T, Q) jobs an hour
    user_queued: Floats  # (T, Q)
    user_running: Floats
    users: Floats  # (T, Q)
    users_running: Floats
    user_ignored: Bools  # (T, Q) the user does not count there
    can_be_throttled: Bools  # (T, Q)
    new_weight: Floats  # (T, Q)


@dataclass(frozen=True)
class AnalysisFacts(JobFacts, TaskChoiceFacts, LocalityFacts, ScopedStorageFacts, TypeLoadFacts, StabilizerFacts):
    """Facts of a block of T chunks and Q candidates for the rules of analysis."""


QUEUE_LENGTH = "BASE_QUEUE_LENGTH_PER_PQ"
WAIT_HOURS = "BASE_EXPECTED_WAIT_HOUR_ON_PQ"
USER_LENGTH = "BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER"
QUEUE_RATIO = "BASE_QUEUE_RATIO_ON_PQ"
RUNNING_RATIO = "STATIC_MAX_QUEUE_RUNNING_RATIO"
MAX_WAIT_HOURS = "MAX_EXPECTED_WAIT_HOUR"
KEYS = (QUEUE_LENGTH, WAIT_HOURS, USER_LENGTH, QUEUE_RATIO, RUNNING_RATIO, MAX_WAIT_HOURS)


@dataclass(frozen=True)
class StabilizerLoad:
    """Jobs of the share at the queue, of all users and of one; arrays that broadcast against each other."""

    queued: Floats
    running: Floats
    to_running_rate: Floats  # jobs an hour
    user_queued: Floats
    user_running: Floats
    users: Floats


@dataclass(frozen=True)
class Stabilized:
    """The figures of the stabilizer, all of the shape of the load."""

    can_be_throttled: Bools
    nq_max: Floats
    percentage: Floats  # of nq_max that is for the user, as a fraction
    max_q_len: Floats


def load_of(known: AnalysisFacts) -> StabilizerLoad:
    """The load figures that the stabilizer reads."""
    queued = known.defined + known.assigned + known.activated + known.starting
    return StabilizerLoad(
        queued, known.users_running, known.to_running_rate, known.user_queued, known.user_running, known.users
    )


def stabilize(load: StabilizerLoad, number_of: Callable[[str], float]) -> Stabilized:
    """Compute whether the queue can be throttled, and the longest queue of the user.

    ``number_of`` gives the value of each of KEYS. At a queue without running jobs the user gets an equal part among its
    users; at one without users, the part of a first user.
    """
    length = number_of(QUEUE_LENGTH)
    enough = (load.queued >= length) & (load.queued >= number_of(WAIT_HOURS) * load.to_running_rate)
    nq_max = np.maximum(
        np.maximum(length, number_of(RUNNING_RATIO) * load.running),
        number_of(MAX_WAIT_HOURS) * load.to_running_rate,
    )
    of_running = np.divide(
        load.user_running, load.running, out=np.zeros(np.shape(load.running)), where=load.running > 0
    )
    percentage = np.maximum(of_running, 1.0 / np.maximum(load.users, 1.0))
    max_q_len = np.maximum(
        np.maximum(number_of(USER_LENGTH), number_of(QUEUE_RATIO) * load.running), nq_max * percentage
    )
    return Stabilized(np.asarray(enough), np.asarray(nq_max), np.asarray(percentage), np.asarray(max_q_len))


#: The figures by the names of the specification, in the order in which they are shown.
FIGURES = (
    "nQ", "nR", "trr", "nQ_user", "nR_user", "nUsers", "can_be_throttled", "nQ_max", "percentage", "max_q_len"
)  # fmt: skip


def stats_of_all(load: StabilizerLoad, stabilized: Stabilized) -> dict[str, Floats]:
    """Every figure under the names of the specification, of the shape of the load."""
    return {
        "nQ": load.queued,
        "nR": load.running,
        "trr": load.to_running_rate,
        "nQ_user": load.user_queued,
        "nR_user": load.user_running,
        "nUsers": load.users,
        "can_be_throttled": stabilized.can_be_throttled.astype(np.float64),
        "nQ_max": stabilized.nq_max,
        "percentage": stabilized.percentage,
        "max_q_len": stabilized.max_q_len,
    }


def stats(load: StabilizerLoad, stabilized: Stabilized) -> dict[str, Value]:
    """:func:`stats_of_all` for one chunk and one candidate."""
    seen: dict[str, Value] = {name: float(values.item()) for name, values in stats_of_all(load, stabilized).items()}
    return seen | {"can_be_throttled": bool(stabilized.can_be_throttled.item())}


#: A task with only the transformation: its release is in ``transUses``.
NO_CACHE = "AnalysisTransforms"
_TRANSFORMS = re.compile(r"^[^-]+-*")


def what_is_run(transhome: str) -> str:
    """Project and version, without the leading name of the transformation, and with ``_`` replaced by ``-``."""
    return _TRANSFORMS.sub("", transhome).replace("_", "-")
