"""The analysis job brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Analysis Job Brokerage. The order is PanDA's: first what keeps a queue out for good, then what may
clear by itself.
"""

from __future__ import annotations

from broker.engine.analysis.chain import AnalysisChain
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
from broker.rules.contract import AnalysisPairs, Filter, GroupFilter, LoadCut, LoadWeight, Weight
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
from broker.rules.shared.filters.rebrokered import Rebrokered
from broker.rules.shared.filters.requested_cores import RequestedCores
from broker.rules.shared.filters.shortwalltime import Shortwalltime
from broker.rules.shared.filters.submit_pool import SubmitPool

NAME = "analysis_job"

PERSISTENT: tuple[Filter[AnalysisPairs] | GroupFilter[AnalysisPairs], ...] = (
    # the input decides first: most chunks have it at few queues
    NoInputData(),
    # what closes a queue for everybody
    OpenQueue(),
    # requirements of the job: a job that has them goes nowhere else
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
    # time: too long before too short, the 24 hours of the unknown behind
    Shortwalltime(),
    TooShort(),
    ScoutDay(),
    MinWalltime(),
    Draining(),
    # the state of the queue, and where the task belongs
    TaskPilots(),
    CloudMismatch(),
    # these compare those that are left
    IncludedFirst(),
    Hospital(),
    # PanDA asks this last, of the queues that would get jobs
    FileUnavailable(),
)
TEMPORARY: tuple[Filter[AnalysisPairs] | GroupFilter[AnalysisPairs], ...] = (
    # of these the last that rejects is shown: the user's own queue says most
    Rebrokered(),
    QueueCap(),
    BadJobs(),
    UserQueueLength(),
)

WEIGHTS: tuple[Weight[AnalysisPairs], ...] = (LocalData(), NewBasicWeight())
LOAD_WEIGHTS: tuple[LoadWeight, ...] = (AnalysisRunningQueued(),)
CUTS: tuple[LoadCut, ...] = (BelowMinWeight(),)

#: Rules that no shipped profile but ``panda`` has.
OPTIONAL = (ClosedJobs(), IdleOverload(), LongestTimeKnown(), NotWanted(), Overloaded())


def chain() -> AnalysisChain:
    """The rules of the analysis job brokerage as shipped."""
    return AnalysisChain(NAME, (*PERSISTENT, *TEMPORARY), WEIGHTS, LOAD_WEIGHTS, CUTS)
