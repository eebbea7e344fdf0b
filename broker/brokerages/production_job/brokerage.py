"""The production job brokerage: its rules, in order, with the reason for each position.

Source: ATLAS Production Job Brokerage. The order is PanDA's, so that its operators find their way. The result does not
depend on it, except for the code shown: that of the first rule that rejects for good, else of the last that rejects
for now.
"""

from __future__ import annotations

from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage
from broker.codec.work_codec import WorkCorruptError
from broker.domain.decisions import PENDING_MINUTES
from broker.domain.work import Work
from broker.engine.job.cycle import JobCycle
from broker.engine.job.why_not import PRODUCTION_REASONS
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, GroupFilter, JobPairs, LoadCut, LoadWeight, Rule, Weight
from broker.rules.production_job.cuts.cap import Cap
from broker.rules.production_job.cuts.cap_rt import CapRt
from broker.rules.production_job.cuts.one_nucleus_queue import OneNucleusQueue
from broker.rules.production_job.filters.connectivity import Connectivity
from broker.rules.production_job.filters.core_count import CoreCount
from broker.rules.production_job.filters.disk_io import DiskIo
from broker.rules.production_job.filters.es import Es
from broker.rules.production_job.filters.es_ucore import EsUcore
from broker.rules.production_job.filters.eshigh import Eshigh
from broker.rules.production_job.filters.fewevents import Fewevents
from broker.rules.production_job.filters.free_space import FreeSpace
from broker.rules.production_job.filters.full_chain import FullChain
from broker.rules.production_job.filters.inactive import Inactive
from broker.rules.production_job.filters.io import Io
from broker.rules.production_job.filters.jumbo import Jumbo
from broker.rules.production_job.filters.link_blocked import LinkBlocked
from broker.rules.production_job.filters.link_full import LinkFull
from broker.rules.production_job.filters.longwalltime import Longwalltime
from broker.rules.production_job.filters.low_network_weight import LowNetworkWeight
from broker.rules.production_job.filters.non_local import NonLocal
from broker.rules.production_job.filters.non_pledged import NonPledged
from broker.rules.production_job.filters.nones import Nones
from broker.rules.production_job.filters.not_full_chain import NotFullChain
from broker.rules.production_job.filters.nucleus_endpoint import NucleusEndpoint
from broker.rules.production_job.filters.nucleus_full import NucleusFull
from broker.rules.production_job.filters.opportunistic import Opportunistic
from broker.rules.production_job.filters.output_scope import OutputScope
from broker.rules.production_job.filters.over_pledged import OverPledged
from broker.rules.production_job.filters.pilots import Pilots
from broker.rules.production_job.filters.read_lan_blacklist import ReadLanBlacklist
from broker.rules.production_job.filters.read_wan_blacklist import ReadWanBlacklist
from broker.rules.production_job.filters.regexpcmtconfig import Regexpcmtconfig
from broker.rules.production_job.filters.resource_type_known import ResourceTypeKnown
from broker.rules.production_job.filters.scout_walltime import ScoutWalltime
from broker.rules.production_job.filters.scratch_disk import ScratchDisk
from broker.rules.production_job.filters.software import Software
from broker.rules.production_job.filters.source_blacklist import SourceBlacklist
from broker.rules.production_job.filters.status import Status
from broker.rules.production_job.filters.t1weight import T1weight
from broker.rules.production_job.filters.transferring import Transferring
from broker.rules.production_job.filters.write_lan_blacklist import WriteLanBlacklist
from broker.rules.production_job.filters.write_wan_blacklist import WriteWanBlacklist
from broker.rules.production_job.filters.zeroshare import Zeroshare
from broker.rules.production_job.weights.cpu_level import CpuLevel
from broker.rules.production_job.weights.data_availability import DataAvailability
from broker.rules.production_job.weights.network import Network
from broker.rules.production_job.weights.nucleus_boost import NucleusBoost
from broker.rules.production_job.weights.running_queued import RunningQueued
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

NAME = "production_job"

FILTERS: tuple[Filter[JobPairs] | GroupFilter[JobPairs], ...] = (
    # what closes a queue to everybody comes first: it is cheap and explains most
    Status(),
    # output goes to the nucleus: without a way there, nothing else matters
    NucleusEndpoint(),
    NucleusFull(),
    LinkBlocked(),
    LinkFull(),
    # work that must not wait avoids queues where it may wait
    Opportunistic(),
    Inactive(),
    # requirements of the job: a job that has them cannot run elsewhere
    AskedSite(),
    SubmitPool(),
    # what the queue's owners decided
    Zeroshare(),
    # what the job is
    Fewevents(),
    Jumbo(),
    DiskIo(),
    CoreCount(),
    MaxCoreCount(),
    RequestedCores(),
    Software(),
    Regexpcmtconfig(),
    MemoryMax(),
    MemoryMin(),
    DirectAccess(),
    ScratchDisk(),
    # the storage of the queue: space, then local access, then transfers; of these only the first failing is shown
    FreeSpace(),
    ReadLanBlacklist(),
    WriteLanBlacklist(),
    WriteWanBlacklist(),
    ReadWanBlacklist(),
    SourceBlacklist(),
    # time: too long before too short, the 24 hours for jobs of unknown length in between, as PanDA shows them
    Shortwalltime(),
    ScoutWalltime(),
    MinWalltime(),
    Draining(),
    Longwalltime(),
    Connectivity(),
    Es(),
    Eshigh(),
    EsUcore(),
    Nones(),
    # the state of the queue
    Transferring(),
    NonPledged(),
    OverPledged(),
    # where the task belongs
    T1weight(),
    MaxIoIntensity(),
    FullChain(),
    NotFullChain(),
    Pilots(),
    # what recently failed there
    Rebrokered(),
    QueueUnhealthy(),
    TaskFailsHere(),
    # input: these compare the remaining candidates, so they come after all other checks
    Io(),
    # queues that are skipped for now are out at this point, so the rest judges only queues usable at once
    NonLocal(),
    # urgent work uses good links only
    LowNetworkWeight(),
    # comes last: all other rules must have left another queue
    RetryElsewhere(),
)

WEIGHTS: tuple[Weight[JobPairs], ...] = (DataAvailability(), NucleusBoost(), Network(), CpuLevel())
LOAD_WEIGHTS: tuple[LoadWeight, ...] = (RunningQueued(),)
CUTS: tuple[LoadCut, ...] = (
    # a full queue takes nothing, whatever its weight
    Cap(),
    BelowMinWeight(),
)


#: Rules that the profile ``seed`` does not use and other profiles may add.
OPTIONAL: tuple[Rule, ...] = (CapRt(), LongestTimeKnown(), OneNucleusQueue(), OutputScope(), ResourceTypeKnown())


def chain() -> QueueChain:
    """The rules of the production job brokerage as shipped."""
    return QueueChain(NAME, FILTERS, WEIGHTS, LOAD_WEIGHTS, CUTS)


class ProductionJob(JobBrokerage):
    """Chooses queues for the input chunks of production tasks. Source: ATLAS Production Job Brokerage."""

    name = NAME
    title = "production job brokerage"
    pending_minutes = PENDING_MINUTES
    gives = (*JobBrokerage.gives, *PRODUCTION_REASONS)
    tables = "agents.brokerage.job_tables:ProductionJobTables"

    def chain(self) -> QueueChain:
        """The ordered rules as shipped."""
        return chain()

    def optional_rules(self) -> tuple[Rule, ...]:
        """Rules that a profile may add."""
        return OPTIONAL

    def engine_cycle(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> JobCycle:
        """The engine for chunks of production tasks."""
        if not isinstance(rules.chain, QueueChain):
            raise WorkCorruptError(f"the work is that of jobs, and {rules.chain.brokerage} is no brokerage of jobs")
        # chunks that are decided together all meet the grid of the snapshot
        alone = independent or rules.chain.steps.placement.together
        return JobCycle(snapshot, work, tuning, rules.chain, independent=alone)
