"""The agent that removes SubmitPools that nobody uses any more, and what tasks asked for that are gone."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from agents.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.placement_writing import LIMITS
from broker.store import leases
from broker.store.pool_cleanup import forget_requirements, remove_unused, unused


class SubmitPoolCleanupOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        grace_s: a pool is kept for this long after its last use; longer than any job waits before it comes back.
    """

    grace_s: float = Field(default=3600.0, gt=600, le=31_536_000)


class SubmitPoolCleanupAgent(Agent[SubmitPoolCleanupOptions]):
    """Removes pools that are out of use for long enough."""

    name = "submit_pool_cleanup"
    title = "removal of SubmitPools that nobody uses"
    options_type = SubmitPoolCleanupOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Remove them once."""
        forgotten = 0
        grace, names = timedelta(seconds=self.options.grace_s), context.database.names
        if context.lease is None or not context.request.writes:
            with context.database.read_snapshot() as connection:
                gone = unused(connection, names, context.now, grace)
        else:
            with context.database.begin() as connection:
                connection.execute(LIMITS)
                leases.fence(connection, context.lease)
                forgotten = forget_requirements(connection, names)
                gone = remove_unused(connection, names, context.now, grace)
                leases.fence(connection, context.lease, closing=True)
        if context.request.tell is not None:
            for pool in gone:
                context.request.tell({"pool": pool, "removed": context.request.writes})
        return CycleReport({"removed": len(gone), "forgotten": forgotten})
