"""The agent that counts the requests of pilots into ``sitedata``: what the brokerage knows of pilots at queues."""

from __future__ import annotations

from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.pilots.statements.pilot_activity import count_requests
from broker.store.schema import migrate


class PilotActivityOptions(AgentOptions):
    """The agent has no options: what it counts is given by the tables of pilots."""


class PilotActivityAgent(Agent[PilotActivityOptions]):
    """Counts nodes and requests of the last 1 and 3 hours by queue, where this broker serves the pilots."""

    name = "pilot_activity"
    title = "requests of pilots, by queue"
    options_type = PilotActivityOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Count the requests of pilots once, and write the sums that queues are judged by."""
        if migrate.check(context.database) != migrate.STANDALONE:
            return CycleReport(notes=("PanDA counts the requests of its pilots itself",))
        if not context.writes:
            return CycleReport()
        with context.writing() as connection:
            counts = count_requests(connection, context.database.names, context.now)
        return CycleReport(counts)
