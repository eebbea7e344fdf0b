"""The analysis job brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Analysis Job Brokerage. The order is PanDA's: first what keeps a queue out for good, then what may
clear by itself.
"""

from __future__ import annotations

from broker.engine.analysis_chain import AnalysisChain
from broker.rules.analysis.analysis_running_queued import AnalysisRunningQueued
from broker.rules.analysis.analysis_scratch import AnalysisScratch
from broker.rules.analysis.avoid_vp import AvoidVp
from broker.rules.analysis.bad_jobs import BadJobs
from broker.rules.analysis.blacklist import Blacklist
from broker.rules.analysis.cloud_mismatch import CloudMismatch
from broker.rules.analysis.core_kind import CoreKind
from broker.rules.analysis.file_unavailable import FileUnavailable
from broker.rules.analysis.hospital import Hospital
from broker.rules.analysis.input_space import InputSpace
from broker.rules.analysis.local_data import LocalData
from broker.rules.analysis.local_quota import LocalQuota
from broker.rules.analysis.new_basic_weight import NewBasicWeight
from broker.rules.analysis.no_input_data import NoInputData
from broker.rules.analysis.no_share import NoShare
from broker.rules.analysis.open_queue import OpenQueue
from broker.rules.analysis.output_space import OutputSpace
from broker.rules.analysis.queue_cap import QueueCap
from broker.rules.analysis.scout_day import ScoutDay
from broker.rules.analysis.task_disk_io import TaskDiskIo
from broker.rules.analysis.task_pilots import TaskPilots
from broker.rules.analysis.task_platform import TaskPlatform
from broker.rules.analysis.task_software import TaskSoftware
from broker.rules.analysis.too_short import TooShort
from broker.rules.analysis.user_queue_length import UserQueueLength
from broker.rules.contract import Filter, GroupFilter, LoadCut, LoadWeight, Weight
from broker.rules.cuts.below_min_weight import BelowMinWeight
from broker.rules.filters.asked_site import AskedSite
from broker.rules.filters.direct_access import DirectAccess
from broker.rules.filters.draining import Draining
from broker.rules.filters.max_core_count import MaxCoreCount
from broker.rules.filters.max_io_intensity import MaxIoIntensity
from broker.rules.filters.memory_max import MemoryMax
from broker.rules.filters.memory_min import MemoryMin
from broker.rules.filters.min_walltime import MinWalltime
from broker.rules.filters.rebrokered import Rebrokered
from broker.rules.filters.requested_cores import RequestedCores
from broker.rules.filters.shortwalltime import Shortwalltime
from broker.rules.filters.submit_pool import SubmitPool

NAME = "analysis_job"

PERSISTENT: tuple[Filter | GroupFilter, ...] = (
    # the input decides first: most chunks have it at few queues
    NoInputData(),
    # what closes a queue for everybody
    OpenQueue(),
    # what the job requires of resources: whoever asks, goes nowhere else
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
    # this one compares those that are left
    Hospital(),
    # PanDA asks this last, of the queues that would get jobs
    FileUnavailable(),
)
TEMPORARY: tuple[Filter | GroupFilter, ...] = (
    # of these the last that rejects is shown: the user's own queue says most
    Rebrokered(),
    QueueCap(),
    BadJobs(),
    UserQueueLength(),
)

WEIGHTS: tuple[Weight, ...] = (LocalData(), NewBasicWeight())
LOAD_WEIGHTS: tuple[LoadWeight, ...] = (AnalysisRunningQueued(),)
CUTS: tuple[LoadCut, ...] = (BelowMinWeight(),)


def chain() -> AnalysisChain:
    """The rules of the analysis job brokerage as shipped."""
    return AnalysisChain(NAME, (*PERSISTENT, *TEMPORARY), WEIGHTS, LOAD_WEIGHTS, CUTS)
