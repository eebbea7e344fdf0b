"""The agents that feed usage from Rucio: limits of accounts that run analysis, and the space of endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from agents.feeds.importing import Limits, Plan, PlannedTable, require_standalone, run_import
from agents.feeds.obtaining import DocumentResult, FeedOptions, obtain
from agents.feeds.rucio_connection import Pace, RucioAgent, RucioOptions, gather, paced
from agents.service.base import CycleContext, CycleReport
from broker.feeds.model.rucio.questions import NotAtRucio
from broker.feeds.model.rucio.quotas import GLOBAL, LOCAL, Usage, quota_table
from broker.feeds.model.rucio.space import space_table, usage_of_rows
from broker.feeds.statements.table_writing import accounts
from broker.fetching.documents import Document, DocumentRefused, Validators
from broker.snapshot.sources.quota import QUOTA_REFRESH
from broker.store.connection.tables import TableCatalogue
from broker.store.reads import grid_names
from broker.store.snapshots.feed_documents import StoredDocument

QUOTAS = "quotas"
_NOTE = sa.text("""
    INSERT INTO broker.summary_refreshes (summary, refreshed_for) VALUES (:summary, :now)
    ON CONFLICT (summary) DO UPDATE SET refreshed_for = excluded.refreshed_for""")


class QuotaOptions(FeedOptions, RucioOptions):
    """Options of the agent.

    Attributes:
        address: path of a file with the answers; without it, Rucio is queried for each account.
        accounts: to query in addition to those of users and groups with analysis tasks.
    """

    address: str | None = None
    accounts: tuple[str, ...] = ()
    max_shrink: float = 1.0


class RucioQuotaAgent(RucioAgent[QuotaOptions]):
    """Writes the usage of accounts; the rows of other accounts stay."""

    name = "rucio_quota"
    title = "quotas of users and groups, from Rucio"
    options_type = QuotaOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Request and write the usage and limits of each account.

        Raises:
            FeedAlarm: Rucio gave no answer, or the file was refused.
        """
        obtained = self._query(context) if self.options.address is None else self._file(context, self.options.address)
        quotas = obtained[QUOTAS]
        content = quotas.document.content if quotas.document is not None and quotas.good is not None else {}

        def plan(connection: sa.Connection) -> Plan:
            usages: dict[str, Usage] = {kind: content.get(kind, {}) for kind in (LOCAL, GLOBAL) if kind in content}
            tables = [
                PlannedTable(quota_table(kind, usage), firsts=sorted(usage)) for kind, usage in usages.items() if usage
            ]
            return Plan(tables, note)

        def note(connection: sa.Connection, writes: bool) -> tuple[()]:
            if writes and quotas.good is not None:
                connection.execute(_NOTE, {"summary": QUOTA_REFRESH, "now": context.now})
            return ()

        # an account may free everything that it used
        return run_import(context, self.name, obtained, plan, Limits(1.0, self.options.max_left_out))

    def _file(self, context: CycleContext, address: str) -> Mapping[str, DocumentResult]:
        return obtain(context, self.name, {QUOTAS: address}, self.options, _accounts_in, allow_shrink=True)

    def _query(self, context: CycleContext) -> Mapping[str, DocumentResult]:
        with context.database.read_snapshot() as connection:
            analysis_accounts = accounts(connection, TableCatalogue.read(connection, context.database.names))
        rucio = paced(self._connect(self.options), Pace(context, self.options.requests_per_s))

        def of_account(account: str) -> tuple[list[Any], list[Any]]:
            try:
                return list(rucio.local_usage(account)), list(rucio.global_usage(account))
            except NotAtRucio:
                return [], []

        wanted = list(dict.fromkeys((*self.options.accounts, *analysis_accounts)))
        gathered = gather(context, self.name, wanted, of_account, self.options.requests_in_flight)
        usage = {
            kind: {account: answer[position] for account, answer in gathered.answers.items()}
            for position, kind in enumerate((LOCAL, GLOBAL))
        }
        good = StoredDocument(QUOTAS, "rucio", len(usage[LOCAL]), Validators(), None)
        return {
            QUOTAS: DocumentResult(QUOTAS, "rucio", Document(usage, QUOTAS, suspicious=True), good, gathered.refused)
        }


def _accounts_in(document: Document) -> int:
    records = document.records()
    for kind, usage in records.items():
        if kind not in (LOCAL, GLOBAL) or not isinstance(usage, dict):
            raise DocumentRefused("wrong_type", f"an object by account under {LOCAL} or {GLOBAL}", document.name)
        for account, rows in usage.items():
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise DocumentRefused("wrong_type", f"no list of usages: {account[:80]}", document.name)
    return sum(len(usage) for usage in records.values())


SPACE = "space"


class SpaceOptions(FeedOptions, RucioOptions):
    """Options of the agent.

    Attributes:
        address: of a dump, or its path; without it, Rucio is queried for each endpoint.
        allow_shrink: accept a dump that is much smaller than before; for imports by hand.
    """

    address: str | None = None
    allow_shrink: bool = False
    time_limit_s: float = Field(default=30.0, gt=0, le=600)


class RucioSpaceAgent(RucioAgent[SpaceOptions]):
    """Writes the space columns of ``ddm_endpoint`` as PanDA's configurator does."""

    name = "rucio_space"
    title = "space of endpoints, from Rucio"
    options_type = SpaceOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read, check, map and write the space of all endpoints once.

        Raises:
            Refused: PanDA's own table would be written.
            FeedAlarm: the dump was refused, or Rucio gave no answer.
        """
        require_standalone(context, self.name)
        names = context.database.names
        obtained = self._query(context) if self.options.address is None else self._dump(context, self.options.address)
        document = obtained[SPACE].document if obtained[SPACE].good is not None else None

        def plan(connection: sa.Connection) -> Plan:
            if document is None:
                return Plan(())
            endpoints = grid_names.endpoint_names(connection, names)
            return Plan((PlannedTable(space_table(document, endpoints, context.now), removes=False),))

        limits = Limits(1.0 if self.options.allow_shrink else self.options.max_shrink, self.options.max_left_out)
        return run_import(context, self.name, obtained, plan, limits)

    def _dump(self, context: CycleContext, address: str) -> Mapping[str, DocumentResult]:
        allow = self.options.allow_shrink
        return obtain(
            context, self.name, {SPACE: address}, self.options, lambda dump: len(dump.records()), allow_shrink=allow
        )

    def _query(self, context: CycleContext) -> Mapping[str, DocumentResult]:
        with context.database.read_snapshot() as connection:
            endpoints = sorted(grid_names.endpoint_names(connection, context.database.names))
        rucio = paced(self._connect(self.options), Pace(context, self.options.requests_per_s))

        def usage(endpoint: str) -> dict[str, Any]:
            try:
                return usage_of_rows(rucio.space(endpoint))
            except NotAtRucio:
                return {}

        gathered = gather(context, self.name, endpoints, usage, self.options.requests_in_flight)
        usages = {endpoint: answer for endpoint, answer in gathered.answers.items() if answer}
        good = StoredDocument(SPACE, "rucio", len(usages), Validators(), None)
        return {SPACE: DocumentResult(SPACE, "rucio", Document(usages, SPACE, suspicious=True), good, gathered.refused)}
