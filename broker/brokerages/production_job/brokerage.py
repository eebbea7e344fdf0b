"""The production job brokerage."""

from __future__ import annotations

from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.production_job import rules as shipped
from broker.codec.work_codec import WorkCorruptError
from broker.domain.retry import PENDING_MINUTES
from broker.domain.work import Work
from broker.engine.job.cycle import JobCycle
from broker.engine.job.step_keys import STEP_KEYS
from broker.engine.job.why_not import PRODUCTION_REASONS
from broker.engine.shared.chain import QueueChain
from broker.flow.model.flow_problem import FLOW_KEYS
from broker.gdpconfig import Tuning
from broker.rules.contract import Rule
from broker.snapshot.snapshot import Snapshot


class ProductionJob(JobBrokerage):
    """Chooses queues for the input chunks of production tasks. Source: ATLAS Production Job Brokerage."""

    name = shipped.NAME
    title = "production job brokerage"
    pending_minutes = PENDING_MINUTES
    gives = (*JobBrokerage.gives, *PRODUCTION_REASONS)
    step_keys = (*STEP_KEYS, *FLOW_KEYS)
    tables = "agents.brokerage.production_job:ProductionJobTables"

    def chain(self) -> QueueChain:
        """The ordered rules as shipped."""
        return shipped.chain()

    def optional_rules(self) -> tuple[Rule, ...]:
        """Rules that a profile may add."""
        return shipped.OPTIONAL

    def engine_cycle(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> JobCycle:
        """The engine over chunks of production tasks."""
        if not isinstance(rules.chain, QueueChain):
            raise WorkCorruptError(f"the work is that of jobs, and {rules.chain.brokerage} is no brokerage of jobs")
        # chunks that are decided together all meet the grid of the snapshot
        alone = independent or rules.chain.steps.placement.together
        return JobCycle(snapshot, work, tuning, rules.chain, independent=alone)
