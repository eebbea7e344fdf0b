"""Running feeds in tests: documents in files, cycles under a lease, and the rows of the tables afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.feeds.cric import CricAgent, CricOptions
from agents.service.base import Agent, CycleContext, CycleReport, CycleRequest
from agents.service.configuration import ProcessSettings
from broker.feeds.statements.feed_runs import FeedRun, last_runs
from broker.simulation.model.demo.grid_documents import GridSize, cric_documents
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.feeds.documents import NOW

PROCESS = ProcessSettings()


@dataclass
class Feeding:
    """Feeds on a database, with documents below a folder."""

    database: Database
    folder: Path
    told: list[dict[str, Any]] = field(default_factory=list)
    _leases: dict[str, leases.Lease] = field(default_factory=dict)

    def write(self, name: str, content: Any) -> str:
        """Write a document; bytes are written as they are."""
        path = self.folder / f"{name}.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    def context(self, name: str, now: datetime = NOW, **changes: Any) -> CycleContext:
        """The context of a cycle under its own lease."""
        with self.database.begin() as connection:
            if name in self._leases:
                leases.release(connection, self._leases[name])
            grant = leases.acquire(connection, name, "test", LeaseTerms(length_s=60.0))
        assert grant.lease is not None
        self._leases[name] = grant.lease
        request = CycleRequest(emit=self.told.append, by_hand=True)
        settings = {"budget_s": 60.0, "request": request, "lease": grant.lease, **changes}
        return CycleContext(self.database, now, 7, **settings)

    def run(self, agent: Agent[Any], now: datetime = NOW, **changes: Any) -> CycleReport:
        """Run one cycle."""
        return agent.cycle(self.context(agent.name, now, **changes))

    def cric(self, documents: dict[str, Any], now: datetime = NOW, **options: Any) -> CycleReport:
        """Import documents of CRIC."""
        return self.run(self.cric_agent(documents, **options), now)

    def cric_agent(self, documents: dict[str, Any], **options: Any) -> CricAgent:
        """The agent for documents of CRIC."""
        paths = {name: self.write(name, content) for name, content in documents.items()}
        return CricAgent(CricOptions(documents=paths, **options), PROCESS)

    def grid(self, queues: int = 20, now: datetime = NOW) -> dict[str, Any]:
        """Import a whole synthetic grid, and return its documents."""
        documents = cric_documents(GridSize(queues), now)
        self.cric(documents, now)
        return documents

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the database."""
        with self.database.begin() as connection:
            return [tuple(row) for row in connection.execute(sa.text(self.database.names.sql(query)))]

    def count(self, table: str) -> int:
        """The number of rows of one of PanDA's tables."""
        return int(self.rows(f"SELECT count(*) FROM {{panda}}.{table}")[0][0])

    def last(self, feed: str | None = None) -> FeedRun:
        """The last run of a feed."""
        with self.database.begin() as connection:
            return last_runs(connection, feed, 1)[0]


Make = Callable[[], Feeding]
