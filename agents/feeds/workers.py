"""Worker statistics by hand: what Harvester would report, from files. It has no period of its own."""

from __future__ import annotations

import sqlalchemy as sa
from pydantic import Field

from agents.feeds.importing import Limits, Plan, Planned, require_standalone, run_import
from agents.feeds.obtaining import obtain
from agents.feeds.options import FeedOptions
from agents.service.base import Agent, CycleContext, CycleReport
from broker.feeds.model.changes import TableChanges
from broker.feeds.model.worker_statistics import worker_table
from broker.fetching.documents import Document
from broker.store.snapshots import feed_documents

STATISTICS = "statistics"


class WorkersOptions(FeedOptions):
    """Options of the import.

    Attributes:
        documents: addresses or paths by name.
    """

    documents: dict[str, str] = Field(default_factory=dict)
    max_shrink: float = 1.0


class WorkersImport(Agent[WorkersOptions]):
    """Rewrites the rows of ``harvester_worker_stats`` of the queues that reports are about."""

    name = "workers"
    title = "worker statistics of Harvester"
    options_type = WorkersOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read, check, map and write the reports once.

        Raises:
            Refused: PanDA's own table would be written.
            FeedAlarm: a document was refused.
        """
        require_standalone(context, self.name)
        obtained = obtain(context, self.name, self.options.documents, self.options, _reports, allow_shrink=True)
        found = {name: one for name, one in obtained.items() if name in self.options.documents}
        documents = [one.document for one in found.values() if one.document is not None and one.good is not None]

        def plan(connection: sa.Connection) -> Plan:
            tables = []
            for document in documents:
                table = worker_table(document, context.now)
                tables.append(Planned(table, firsts=sorted({key[0] for key in table.about or ()})))
            return Plan(tables, note)

        def note(connection: sa.Connection, writes: bool) -> tuple[TableChanges, ...]:
            if not (writes and documents):
                return ()
            source = ", ".join(one.source for one in found.values())[:1000]
            feed_documents.note_checked(connection, self.name, STATISTICS, source, context.now)
            return ()

        return run_import(context, self.name, found, plan, Limits(1.0, self.options.max_left_out))


def _reports(document: Document) -> int:
    return len(document.content) if isinstance(document.content, list) else 1
