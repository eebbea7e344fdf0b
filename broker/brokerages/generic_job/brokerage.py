"""The generic job brokerage."""

from __future__ import annotations

from broker.brokerages.base import Rules
from broker.brokerages.generic_job import rules as shipped
from broker.brokerages.job.brokerage import JobBrokerage
from broker.codec.work_codec import WorkCorruptError
from broker.domain.retry import PENDING_MINUTES
from broker.domain.work import Work
from broker.engine.generic.cycle import GenericCycle
from broker.engine.job.step_keys import STEP_KEYS
from broker.engine.job.why_not import PRODUCTION_REASONS
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot


class GenericJob(JobBrokerage):
    """Chooses queues for the input chunks of tasks of any label, for VOs without a brokerage of their own.

    Source: PanDA JEDI, GenJobBroker, which its shipped configuration names for the VO ``wlcg``.
    """

    name = shipped.NAME
    title = "generic job brokerage"
    pending_minutes = PENDING_MINUTES
    gives = (*JobBrokerage.gives, *PRODUCTION_REASONS)
    step_keys = STEP_KEYS
    tables = "agents.brokerage.generic_job:GenericJobTables"

    def chain(self) -> QueueChain:
        """The ordered rules as shipped."""
        return shipped.chain()

    def engine_cycle(
        self, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> GenericCycle:
        """The engine over chunks of tasks of any label."""
        if not isinstance(rules.chain, QueueChain):
            raise WorkCorruptError(f"the work is that of jobs, and {rules.chain.brokerage} is no brokerage of jobs")
        return GenericCycle(snapshot, work, tuning, rules.chain, independent=independent)
