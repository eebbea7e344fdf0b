"""The agent that feeds the space of endpoints, from a dump of Rucio's usage or from Rucio itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from agents.feeds.importing import Limits, Plan, Planned, require_standalone, run_import
from agents.feeds.obtaining import FeedOptions, Obtained, obtain
from agents.feeds.rucio_connection import Connect, Pace, RucioOptions, connect, gather, paced
from agents.service.base import Agent, CycleContext, CycleReport
from agents.service.configuration import ProcessSettings
from broker.feeds.model.rucio.client import NotAtRucio
from broker.feeds.model.rucio.space import space_table, usage_of_rows
from broker.feeds.statements import table_writing
from broker.fetching.documents import Document, Validators
from broker.store.snapshots.feed_documents import KeptDocument

SPACE = "space"


class SpaceOptions(FeedOptions, RucioOptions):
    """Options of the agent.

    Attributes:
        address: of a dump, or its path; without it Rucio is asked for each endpoint.
        allow_shrink: accept a dump that is much smaller than before; for imports by hand.
    """

    address: str | None = None
    allow_shrink: bool = False
    time_limit_s: float = Field(default=30.0, gt=0, le=600)


class RucioSpaceAgent(Agent[SpaceOptions]):
    """Writes the columns of space of ``ddm_endpoint`` as PanDA's configurator does."""

    name = "rucio_space"
    title = "space of endpoints, from Rucio"
    options_type = SpaceOptions
    is_feed = True

    def __init__(self, options: SpaceOptions, process: ProcessSettings, connect: Connect = connect) -> None:
        """``connect``: makes the connection to Rucio."""
        super().__init__(options, process)
        self._connect = connect

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read, check, map and write the space of all endpoints once.

        Raises:
            Refused: PanDA's own table would be written.
            FeedAlarm: the dump was refused, or Rucio gave no answer.
        """
        require_standalone(context, self.name)
        names = context.database.names
        obtained = self._asked(context) if self.options.address is None else self._dump(context, self.options.address)
        document = obtained[SPACE].document if obtained[SPACE].good is not None else None

        def plan(connection: sa.Connection) -> Plan:
            if document is None:
                return Plan(())
            endpoints = table_writing.endpoint_names(connection, names)
            return Plan((Planned(space_table(document, endpoints, context.now), removes=False),))

        limits = Limits(1.0 if self.options.allow_shrink else self.options.max_shrink, self.options.max_left_out)
        return run_import(context, self.name, obtained, plan, limits)

    def _dump(self, context: CycleContext, address: str) -> Mapping[str, Obtained]:
        allow = self.options.allow_shrink
        return obtain(
            context, self.name, {SPACE: address}, self.options, lambda found: len(found.records()), allow_shrink=allow
        )

    def _asked(self, context: CycleContext) -> Mapping[str, Obtained]:
        with context.database.read_snapshot() as connection:
            endpoints = sorted(table_writing.endpoint_names(connection, context.database.names))
        rucio = paced(self._connect(self.options), Pace(context, self.options.requests_per_s))

        def usage(endpoint: str) -> dict[str, Any]:
            try:
                return usage_of_rows(rucio.space(endpoint))
            except NotAtRucio:
                return {}

        gathered = gather(context, self.name, endpoints, usage, self.options.requests_in_flight)
        found = {endpoint: answer for endpoint, answer in gathered.answers.items() if answer}
        good = KeptDocument(SPACE, "rucio", len(found), Validators(), None)
        return {SPACE: Obtained(SPACE, "rucio", Document(found, SPACE, suspicious=True), good, gathered.refused)}
