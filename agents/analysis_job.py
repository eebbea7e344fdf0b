"""The agent of the analysis job brokerage: as that of production, with what is known of users.

The decision itself is pure and lies in :mod:`broker.brokerages` and :mod:`broker.engine.analysis_cycle`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, cast

import sqlalchemy as sa
from pydantic import Field

from agents.base import CycleContext
from agents.grid_reading import GridReading
from agents.process import ProcessSettings
from agents.production_job import ProductionJobAgent, ProductionJobOptions, WaysOfTasks
from broker.brokerages.alternatives import with_chosen_ways
from broker.brokerages.analysis_job import NAME
from broker.brokerages.estimated_jobs import estimated_jobs
from broker.brokerages.profile import ProfileError
from broker.domain.arrays import Floats
from broker.domain.work import Work
from broker.engine.analysis_chain import AnalysisChain
from broker.engine.analysis_cycle import NEW_WEIGHT, AnalysisCycle
from broker.engine.job_cycle import JobCycle
from broker.gdpconfig import Tuning
from broker.store.analysis_work import load_analysis_work
from broker.store.gdpconfig_rows import TuningStore
from broker.store.tables import TableCatalogue
from broker.work.assemble import CycleWork

DONE_JOB_HOURS = "TW_DONE_JOB_STAT"


class AnalysisJobOptions(ProductionJobOptions):
    """Options of the agent, beside those of production.

    Attributes:
        quota_unknown: what to do while quotas cannot be read: ``closed`` gives users no jobs, ``open`` asks for none.
    """

    quota_unknown: Literal["closed", "open"] = Field(default="closed")


class AnalysisJobAgent(ProductionJobAgent):
    """Brokers the input chunks of users' tasks and makes their jobs."""

    name = NAME
    title = "analysis job brokerage"
    options_type = AnalysisJobOptions
    for_users = True

    def __init__(self, options: AnalysisJobOptions, process: ProcessSettings) -> None:
        """Read the profile and build the chain of rules.

        Raises:
            ProfileError: the profile or one of its rules cannot be used.
        """
        super().__init__(options, process)
        if not isinstance(self._chain, AnalysisChain):
            raise ProfileError(f"brokerage {NAME}: its list of rules is not one for analysis")
        self._closed = options.quota_unknown == "closed"

    def _work(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext, vo: str) -> CycleWork:
        work = super()._work(connection, catalogue, context, vo)
        tuning = TuningStore(context.database.names).read_current(connection, live=True).tuning(vo)
        hours = tuning.only((DONE_JOB_HOURS,)).number(DONE_JOB_HOURS)
        wishes, left_out = load_analysis_work(connection, catalogue, work.work.chunks, context.now, hours)
        together = dataclasses.replace(work.work, left_out=(*work.work.left_out, *left_out), wishes=wishes)
        return dataclasses.replace(work, work=together)

    def _job_cycle(
        self, grid: GridReading, read: CycleWork, ways: WaysOfTasks, tuning: Tuning, context: CycleContext
    ) -> tuple[JobCycle, CycleWork]:

        def cycle_over(work: Work, independent: bool = True) -> JobCycle:
            chain = cast(AnalysisChain, self._chain)
            closed = self._closed
            return AnalysisCycle(grid.snapshot, work, tuning, chain, independent=independent, quota_closed=closed)

        read = with_chosen_ways(read, ways, cycle_over)
        wishes = read.work.wishes
        if wishes is not None and tuning.only((NEW_WEIGHT,)).flag(NEW_WEIGHT):
            jobs: Floats = estimated_jobs(read)
            chunks = dataclasses.replace(read.work, wishes=dataclasses.replace(wishes, jobs_estimate=jobs))
            read = dataclasses.replace(read, work=chunks)
        return cycle_over(read.work, context.request.independent), read
