"""The agent that removes unused SubmitPools, and the requirements of deleted tasks."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from agents.service.base import Agent, CycleContext, CycleReport
from agents.service.brake import Brake, BrakedOptions
from broker.pools.statements.pool_cleanup import forget_requirements, pool_totals, remove_unused, unused


class SubmitPoolCleanupOptions(BrakedOptions):
    """Options of the agent.

    Attributes:
        grace_s: a pool is kept for this long after its last use; longer than any job waits before it comes back.
    """

    grace_s: float = Field(default=3600.0, gt=600, le=31_536_000)


class SubmitPoolCleanupAgent(Agent[SubmitPoolCleanupOptions]):
    """Removes pools that have been unused for long enough."""

    name = "submit_pool_cleanup"
    title = "removal of SubmitPools that nobody uses"
    options_type = SubmitPoolCleanupOptions
    removes = True

    def cycle(self, context: CycleContext) -> CycleReport:
        """Remove pools that no job or task has used recently, and requirements of deleted tasks."""
        forgotten = 0
        grace, names = timedelta(seconds=self.options.grace_s), context.database.names
        with context.database.read_snapshot() as connection:
            gone = unused(connection, names, context.now, grace)
            totals = pool_totals(connection, names)
        brake = Brake.of(self.name, self.options, context)
        due = {"pools": (len(gone), totals.pools), "requirements": (totals.requirements_gone, totals.requirements)}
        notes = [brake.report(kind, *numbers, writes=context.request.writes) for kind, numbers in due.items()]
        if context.writes:
            with context.writing() as connection:
                forgotten = forget_requirements(connection, names, brake.allows(totals.requirements))
                gone = remove_unused(connection, names, context.now, grace, brake.allows(totals.pools))
        if context.request.emit is not None:
            for pool in gone:
                context.request.emit({"pool": pool, "removed": context.request.writes})
        counts = {"removed": len(gone), "forgotten": forgotten}
        return CycleReport(counts, notes=tuple(note for note in notes if note is not None))
