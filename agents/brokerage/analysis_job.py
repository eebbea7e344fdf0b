"""The tables of the analysis job brokerage: as those of production, with what is known of users."""

from __future__ import annotations

import dataclasses
from typing import Literal

from pydantic import Field

from agents.brokerage.production_job import ProductionJobOptions, ProductionJobTables
from agents.brokerage.tables import Reading
from broker.store.reads.analysis_requests import load_analysis_work
from broker.work.assemble import CycleWork

DONE_JOB_HOURS = "TW_DONE_JOB_STAT"


class AnalysisJobOptions(ProductionJobOptions):
    """Options of the agent, beside those of production.

    Attributes:
        quota_unknown: what to do while quotas cannot be read: ``closed`` gives users no jobs, ``open`` asks for none.
    """

    quota_unknown: Literal["closed", "open"] = Field(default="closed")


class AnalysisJobTables(ProductionJobTables):
    """Reads the input chunks of analysis tasks with the requests of their users, and writes their jobs."""

    options_type = AnalysisJobOptions
    for_analysis, needs_nucleus = True, False
    divided_by = "VO"

    def takes_vo(self, reading: Reading, vo: str) -> bool:
        """A VO belongs to one part: users are counted in all its shares."""
        return reading.context.part.takes(vo)

    def shares_taken(self, reading: Reading, vo: str) -> None:
        """Return None: the work of all shares is read."""
        return

    def read(self, reading: Reading, vo: str) -> CycleWork:
        """The input chunks of one VO, each with what its task requests and what its earlier jobs did."""
        work = super().read(reading, vo)
        hours = reading.tuning(vo).only((DONE_JOB_HOURS,)).number(DONE_JOB_HOURS)
        connection, catalogue, now = reading.connection, reading.catalogue, reading.context.now
        analysis_request, dropped_rows = load_analysis_work(connection, catalogue, work.work.chunks, now, hours)
        together = dataclasses.replace(
            work.work, dropped_rows=(*work.work.dropped_rows, *dropped_rows), analysis_request=analysis_request
        )
        return dataclasses.replace(work, work=together)
