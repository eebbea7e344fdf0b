"""The analysis job brokerage."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from broker.brokerages.analysis_job import rules as shipped
from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage, StoredChunks
from broker.brokerages.job.estimated_jobs import jobs_of_weight
from broker.codec.work_codec import WorkCorruptError
from broker.domain.decisions import Decision
from broker.domain.retry import PENDING_MINUTES_OF_USERS
from broker.domain.work import Work
from broker.engine.analysis.chain import AnalysisChain
from broker.engine.analysis.cycle import NEW_WEIGHT, AnalysisCycle
from broker.engine.analysis.throttle_reasons import THROTTLE_REASONS, THROTTLED
from broker.engine.job.cycle import JobCycle
from broker.engine.job.step_keys import STEP_KEYS
from broker.engine.job.why_not import ANALYSIS_REASONS
from broker.engine.shared.answer import Answer
from broker.gdpconfig import Tuning
from broker.rules.contract import Rule
from broker.snapshot.snapshot import Snapshot
from broker.work.assemble import CycleWork

QUOTA_UNKNOWN = "quota_unknown"


class AnalysisJob(JobBrokerage):
    """Chooses queues for the input chunks of analysis tasks, after throttles. Source: ATLAS Analysis Job Brokerage.

    The option ``quota_unknown`` says what happens while quotas cannot be read: ``closed`` assigns no jobs.
    """

    name = shipped.NAME
    title = "analysis job brokerage"
    pending_minutes = PENDING_MINUTES_OF_USERS
    decision_options: ClassVar[dict[str, str]] = {QUOTA_UNKNOWN: "closed"}
    gives = (*JobBrokerage.gives, *THROTTLE_REASONS, *ANALYSIS_REASONS)
    step_keys = STEP_KEYS
    tables = "agents.brokerage.analysis_job:AnalysisJobTables"

    def chain(self) -> AnalysisChain:
        """The ordered rules as shipped."""
        return shipped.chain()

    def optional_rules(self) -> tuple[Rule, ...]:
        """Rules that a profile may add."""
        return shipped.OPTIONAL

    def completes(self, tuning: Tuning, rules: Rules) -> bool:
        """Whether work is completed with estimates: with the new basic weight."""
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
        """The engine over chunks of analysis tasks."""
        if not isinstance(rules.chain, AnalysisChain):
            raise WorkCorruptError(f"the work is that of analysis, and {rules.chain.brokerage} is no such brokerage")
        if work.analysis_request is None:
            raise WorkCorruptError("the stored work has no columns of analysis")
        closed = _is_closed(rules)
        return AnalysisCycle(snapshot, work, tuning, rules.chain, independent=independent, quota_closed=closed)

    def cycle_beside(
        self, beside: JobCycle, snapshot: Snapshot, work: Work, tuning: Tuning, rules: Rules
    ) -> JobCycle | None:
        """A cycle beside another as in production; unreadable quotas follow this brokerage's option."""
        found = super().cycle_beside(beside, snapshot, work, tuning, rules)
        if isinstance(found, AnalysisCycle):
            found.quota_closed = _is_closed(rules)
        return found

    def why_not(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredChunks, rules: Rules, decision: Decision, name: str
    ) -> list[Answer]:
        """Why a stored decision did not choose a queue."""
        # with quotas that could not be read, the agent's option said whether anything went
        closed = decision.reason == f"{THROTTLED}{QUOTA_UNKNOWN}"
        then = dataclasses.replace(rules, options={QUOTA_UNKNOWN: "closed" if closed else "open"})
        return super().why_not(snapshot, tuning, batch, then, decision, name)


def _is_closed(rules: Rules) -> bool:
    """Whether nothing goes while the quotas cannot be read."""
    return bool(rules.options.get(QUOTA_UNKNOWN, "closed") == "closed")
