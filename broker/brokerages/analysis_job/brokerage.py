"""The analysis job brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Analysis Job Brokerage. The order is PanDA's: rules that keep a queue out for good come first, then those
whose cause may clear by itself.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage, StoredChunks
from broker.brokerages.job.chunk_jobs import jobs_of_weight
from broker.codec.work_codec import WorkCorruptError
from broker.domain.decisions import PENDING_MINUTES_OF_USERS, Decision
from broker.domain.work import Work
from broker.engine.analysis.chain import AnalysisChain
from broker.engine.analysis.cycle import NEW_WEIGHT, AnalysisCycle
from broker.engine.analysis.throttle import THROTTLE_REASONS, THROTTLED
from broker.engine.job.cycle import JobCycle
from broker.engine.job.why_not import ANALYSIS_REASONS
from broker.engine.shared.answer import CandidateVerdict
from broker.gdpconfig import Tuning
from broker.rules.analysis_job.filters.analysis_scratch import AnalysisScratch
from broker.rules.analysis_job.filters.avoid_vp import AvoidVp
from broker.rules.analysis_job.filters.bad_jobs import BadJobs
from broker.rules.analysis_job.filters.blacklist import Blacklist
from broker.rules.analysis_job.filters.closed_jobs import ClosedJobs
from broker.rules.analysis_job.filters.cloud_mismatch import CloudMismatch
from broker.rules.analysis_job.filters.core_kind import CoreKind
from broker.rules.analysis_job.filters.file_unavailable import FileUnavailable
from broker.rules.analysis_job.filters.hospital import Hospital
from broker.rules.analysis_job.filters.idle_overload import IdleOverload
from broker.rules.analysis_job.filters.included_first import IncludedFirst
from broker.rules.analysis_job.filters.input_space import InputSpace
from broker.rules.analysis_job.filters.local_quota import LocalQuota
from broker.rules.analysis_job.filters.no_input_data import NoInputData
from broker.rules.analysis_job.filters.no_share import NoShare
from broker.rules.analysis_job.filters.not_wanted import NotWanted
from broker.rules.analysis_job.filters.open_queue import OpenQueue
from broker.rules.analysis_job.filters.output_space import OutputSpace
from broker.rules.analysis_job.filters.overloaded import Overloaded
from broker.rules.analysis_job.filters.queue_cap import QueueCap
from broker.rules.analysis_job.filters.scout_day import ScoutDay
from broker.rules.analysis_job.filters.task_disk_io import TaskDiskIo
from broker.rules.analysis_job.filters.task_pilots import TaskPilots
from broker.rules.analysis_job.filters.task_platform import TaskPlatform
from broker.rules.analysis_job.filters.task_software import TaskSoftware
from broker.rules.analysis_job.filters.too_short import TooShort
from broker.rules.analysis_job.filters.user_queue_length import UserQueueLength
from broker.rules.analysis_job.weights.analysis_running_queued import AnalysisRunningQueued
from broker.rules.analysis_job.weights.local_data import LocalData
from broker.rules.analysis_job.weights.new_basic_weight import NewBasicWeight
from broker.rules.contract import AnalysisPairs, Filter, GroupFilter, LoadCut, LoadWeight, Rule, Weight
from broker.rules.shared.cuts.below_min_weight import BelowMinWeight
from broker.rules.shared.filters.asked_site import AskedSite
from broker.rules.shared.filters.direct_access import DirectAccess
from broker.rules.shared.filters.draining import Draining
from broker.rules.shared.filters.longest_time_known import LongestTimeKnown
from broker.rules.shared.filters.max_core_count import MaxCoreCount
from broker.rules.shared.filters.max_io_intensity import MaxIoIntensity
from broker.rules.shared.filters.memory_max import MemoryMax
from broker.rules.shared.filters.memory_min import MemoryMin
from broker.rules.shared.filters.min_walltime import MinWalltime
from broker.rules.shared.filters.queue_unhealthy import QueueUnhealthy
from broker.rules.shared.filters.rebrokered import Rebrokered
from broker.rules.shared.filters.requested_cores import RequestedCores
from broker.rules.shared.filters.retry_elsewhere import RetryElsewhere
from broker.rules.shared.filters.shortwalltime import Shortwalltime
from broker.rules.shared.filters.submit_pool import SubmitPool
from broker.rules.shared.filters.task_fails_here import TaskFailsHere
from broker.snapshot.snapshot import Snapshot
from broker.work.assemble import CycleWork

NAME = "analysis_job"

PERSISTENT: tuple[Filter[AnalysisPairs] | GroupFilter[AnalysisPairs], ...] = (
    # the input decides first: most chunks have it at few queues
    NoInputData(),
    # what closes a queue to everybody
    OpenQueue(),
    # requirements of the job: a job that has them cannot run elsewhere
    AskedSite(),
    SubmitPool(),
    # what the queue's owners decided
    NoShare(),
    # what the job is
    TaskDiskIo(),
    MaxIoIntensity(),
    AvoidVp(),
    CoreKind(),
    MaxCoreCount(),
    RequestedCores(),
    TaskSoftware(),
    TaskPlatform(),
    MemoryMax(),
    MemoryMin(),
    DirectAccess(),
    AnalysisScratch(),
    # the storage of the queue: space, access, quota
    OutputSpace(),
    InputSpace(),
    Blacklist(),
    LocalQuota(),
    # time: too long before too short, then the 24 hours for jobs of unknown length
    Shortwalltime(),
    TooShort(),
    ScoutDay(),
    MinWalltime(),
    Draining(),
    # the state of the queue, and where the task belongs
    TaskPilots(),
    CloudMismatch(),
    # these compare the remaining queues
    IncludedFirst(),
    Hospital(),
    # PanDA checks this last, for the queues that would get jobs
    FileUnavailable(),
)
TEMPORARY: tuple[Filter[AnalysisPairs] | GroupFilter[AnalysisPairs], ...] = (
    # of these the last that rejects is shown: the user's own queue explains most
    Rebrokered(),
    QueueCap(),
    BadJobs(),
    QueueUnhealthy(),
    TaskFailsHere(),
    UserQueueLength(),
    # comes last: all other rules must have left another queue
    RetryElsewhere(),
)

WEIGHTS: tuple[Weight[AnalysisPairs], ...] = (LocalData(), NewBasicWeight())
LOAD_WEIGHTS: tuple[LoadWeight, ...] = (AnalysisRunningQueued(),)
CUTS: tuple[LoadCut, ...] = (BelowMinWeight(),)

#: Rules that of the shipped profiles only ``panda`` has.
OPTIONAL = (ClosedJobs(), IdleOverload(), LongestTimeKnown(), NotWanted(), Overloaded())


def chain() -> AnalysisChain:
    """The rules of the analysis job brokerage as shipped."""
    return AnalysisChain(NAME, (*PERSISTENT, *TEMPORARY), WEIGHTS, LOAD_WEIGHTS, CUTS)


QUOTA_UNKNOWN = "quota_unknown"


class AnalysisJob(JobBrokerage):
    """Chooses queues for the input chunks of analysis tasks, after throttles. Source: ATLAS Analysis Job Brokerage.

    The option ``quota_unknown`` controls what happens while quotas cannot be read: ``closed`` assigns no jobs.
    """

    name = NAME
    title = "analysis job brokerage"
    pending_minutes = PENDING_MINUTES_OF_USERS
    decision_options: ClassVar[dict[str, str]] = {QUOTA_UNKNOWN: "closed"}
    gives = (*JobBrokerage.gives, *THROTTLE_REASONS, *ANALYSIS_REASONS)
    tables = "agents.brokerage.job_tables:AnalysisJobTables"

    def chain(self) -> AnalysisChain:
        """The ordered rules as shipped."""
        return chain()

    def optional_rules(self) -> tuple[Rule, ...]:
        """Rules that a profile may add."""
        return OPTIONAL

    def completes(self, tuning: Tuning, rules: Rules) -> bool:
        """Whether work is completed with estimates, which the new basic weight needs."""
        if not isinstance(rules.chain, AnalysisChain):
            return False
        return rules.chain.steps.basic_weight.is_new(tuning.only((NEW_WEIGHT,)).flag(NEW_WEIGHT))

    def complete(self, work: CycleWork, tuning: Tuning, rules: Rules) -> CycleWork:
        """The work with the estimated number of jobs of each chunk, for the new basic weight."""
        analysis_request = work.work.analysis_request
        if analysis_request is None or not self.completes(tuning, rules):
            return work
        estimated = dataclasses.replace(analysis_request, jobs_estimate=jobs_of_weight(work))
        return dataclasses.replace(work, work=dataclasses.replace(work.work, analysis_request=estimated))

    def engine_cycle(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> AnalysisCycle:
        """The engine for chunks of analysis tasks."""
        if not isinstance(rules.chain, AnalysisChain):
            raise WorkCorruptError(f"the work is that of analysis, and {rules.chain.brokerage} is no such brokerage")
        if work.analysis_request is None:
            raise WorkCorruptError("the stored work has no columns of analysis")
        closed = _is_closed(rules)
        return AnalysisCycle(snapshot, work, tuning, rules.chain, independent=independent, quota_closed=closed)

    def cycle_beside(
        self, beside: JobCycle, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules
    ) -> JobCycle | None:
        """A cycle that reuses the data of another one; unreadable quotas follow this brokerage's option."""
        cycle = super().cycle_beside(beside, snapshot, work, tuning, rules)
        if isinstance(cycle, AnalysisCycle):
            cycle.quota_closed = _is_closed(rules)
        return cycle

    def why_not(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, rules: Rules, decision: Decision, name: str
    ) -> list[CandidateVerdict]:
        """Why a stored decision did not choose a queue."""
        # when quotas could not be read, the agent's option decided whether anything was assigned
        closed = decision.reason == f"{THROTTLED}{QUOTA_UNKNOWN}"
        then = dataclasses.replace(rules, options={QUOTA_UNKNOWN: "closed" if closed else "open"})
        return super().why_not(snapshot, tuning, batch, then, decision, name)


def _is_closed(rules: Rules) -> bool:
    """Whether nothing is assigned while the quotas cannot be read."""
    return bool(rules.options.get(QUOTA_UNKNOWN, "closed") == "closed")
