"""The generic job brokerage: its rules, in order, with the reason for each position.

Source: PanDA JEDI, GenJobBroker. The order is PanDA's, so that its operators find their way.
"""

from __future__ import annotations

from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage
from broker.codec.work_codec import WorkCorruptError
from broker.domain.decisions import PENDING_MINUTES
from broker.domain.work import Work
from broker.engine.generic.cycle import CloudQueues, GenericCycle, JobsOfVo
from broker.engine.job.snapshot_reading import SnapshotReading
from broker.engine.job.steps import JobSteps
from broker.engine.job.veto import Veto
from broker.engine.job.why_not import PRODUCTION_REASONS
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, GroupFilter, JobPairs, LoadCut, LoadWeight
from broker.rules.generic_job.cuts.file_dispatch import FileDispatch
from broker.rules.generic_job.cuts.five_queues import FiveQueues
from broker.rules.generic_job.filters.matching_cores import MatchingCores
from broker.rules.generic_job.filters.maxtime_missing import MaxtimeMissing
from broker.rules.generic_job.filters.panda_site import PandaSite
from broker.rules.generic_job.filters.processing_types import ProcessingTypes
from broker.rules.generic_job.filters.queue_pilots import QueuePilots
from broker.rules.generic_job.filters.queue_scratch import QueueScratch
from broker.rules.generic_job.filters.queue_space import QueueSpace
from broker.rules.generic_job.filters.raw_memory import RawMemory
from broker.rules.generic_job.filters.raw_walltime import RawWalltime
from broker.rules.generic_job.weights.running_waiting import RunningWaiting
from broker.rules.production_job.filters.status import Status
from broker.snapshot.snapshot import Snapshot

NAME = "generic_job"

FILTERS: tuple[Filter[JobPairs] | GroupFilter[JobPairs], ...] = (
    # what closes a queue to everybody, and where the task belongs
    Status(),
    PandaSite(),
    # what the job needs
    QueueScratch(),
    QueueSpace(),
    MaxtimeMissing(),
    RawWalltime(),
    MatchingCores(),
    RawMemory(),
    # what the queue's owners decided, and its state
    ProcessingTypes(),
    QueuePilots(),
)
LOAD_WEIGHTS: tuple[LoadWeight, ...] = (RunningWaiting(),)
CUTS: tuple[LoadCut, ...] = (
    FiveQueues(),
    # applied to the chosen queues: no other queue moves up for one that is dropped
    FileDispatch(),
)
#: Unified queues are candidates alongside their pseudo-queues, as on PanDA's map.
_ON_THE_MAP = {"unified_parents": True, "minrss": "whole", "null_rss": "ends_expansion"}
STEPS = JobSteps(
    snapshot_reading=SnapshotReading().configured(_ON_THE_MAP, "Candidates are all queues of PanDA's map."),
    initial_list=CloudQueues(),
    veto=Veto().configured(
        {"causes": ["files_without_ramcount", "cpu_figures_missing"]}, "The brokerage of the task ends with an error."
    ),
    job_count_reading=JobsOfVo(),
)


def chain() -> QueueChain:
    """The rules of the generic job brokerage as shipped."""
    return QueueChain(NAME, FILTERS, (), LOAD_WEIGHTS, CUTS, STEPS)


class GenericJob(JobBrokerage):
    """Chooses queues for the input chunks of tasks of any label, for VOs without a brokerage of their own.

    Source: PanDA JEDI, GenJobBroker, which its shipped configuration names for the VO ``wlcg``.
    """

    name = NAME
    title = "generic job brokerage"
    pending_minutes = PENDING_MINUTES
    gives = (*JobBrokerage.gives, *PRODUCTION_REASONS)
    tables = "agents.brokerage.job_tables:GenericJobTables"

    def chain(self) -> QueueChain:
        """The ordered rules as shipped."""
        return chain()

    def engine_cycle(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> GenericCycle:
        """The engine for chunks of tasks of any label."""
        if not isinstance(rules.chain, QueueChain):
            raise WorkCorruptError(f"the work is that of jobs, and {rules.chain.brokerage} is no brokerage of jobs")
        return GenericCycle(snapshot, work, tuning, rules.chain, independent=independent)
