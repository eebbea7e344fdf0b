"""The agent that feeds transferred files, queued files and throughput of links from network metrics."""

from __future__ import annotations

import sqlalchemy as sa

from agents.feeds.cric import FORGOTTEN_AFTER
from agents.feeds.importing import Forget, Limits, Plan, PlannedTable, require_standalone, run_import
from agents.feeds.obtaining import FeedOptions, obtain
from agents.service.base import Agent, CycleContext, CycleReport
from broker.errors import Refused
from broker.feeds.model.network_metrics import metric_table
from broker.store.reads import grid_names

METRICS = "metrics"


class NetworkOptions(FeedOptions):
    """Options of the agent.

    Attributes:
        address: of the document, or its path.
        allow_shrink: accept a document that is much smaller than before; for imports by hand.
    """

    address: str | None = None
    allow_shrink: bool = False


class NetworkAgent(Agent[NetworkOptions]):
    """Writes ``network_matrix_kv`` as PanDA's configurator does."""

    name = "network"
    title = "transfers and throughput of links from network metrics"
    options_type = NetworkOptions
    is_feed = True

    def cycle(self, context: CycleContext) -> CycleReport:
        """Fetch, check, map and write the document once.

        Raises:
            Refused: PanDA's own table would be written, or there is nothing to read.
            FeedAlarm: the document was refused.
        """
        require_standalone(context, self.name)
        if self.options.address is None:
            raise Refused("there is nothing to read", "options of network", "set address in config/agents.yaml")
        wanted = {METRICS: self.options.address}
        allow = self.options.allow_shrink
        obtained = obtain(
            context, self.name, wanted, self.options, lambda metrics: len(metrics.records()), allow_shrink=allow
        )
        document = obtained[METRICS].document if obtained[METRICS].good is not None else None
        names = context.database.names

        too_old = Forget("network_matrix_kv", "ts", context.now - FORGOTTEN_AFTER)

        def plan(connection: sa.Connection) -> Plan:
            if document is None:
                return Plan((), forgets=(too_old,))
            table = metric_table(document, grid_names.site_names(connection, names), context.now)
            return Plan((PlannedTable(table, removes=False),), forgets=(too_old,))

        limits = Limits(1.0 if allow else self.options.max_shrink, self.options.max_left_out)
        return run_import(context, self.name, obtained, plan, limits)
