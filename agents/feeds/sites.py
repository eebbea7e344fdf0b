"""The agent that reads the sites of an installation from a file of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.feeds.importing import Limits, Plan, PlannedTable, require_standalone, run_import
from agents.feeds.obtaining import DocumentResult
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.errors import Refused
from broker.feeds.model.rows import Key, MappedTable
from broker.feeds.model.sites_file.reading import SitesRefused, read_sites
from broker.feeds.model.sites_file.tables import (
    SITES,
    Declared,
    closed_endpoint,
    declared_tables,
    inactive_site,
    offline_queue,
)
from broker.feeds.statements import table_writing
from broker.fetching.documents import DocumentRefused, Validators
from broker.fetching.web import read_file
from broker.store.snapshots.feed_documents import StoredDocument, stored_documents

MAX_BYTES = 10 * 2**20
_RETIRE = {"schedconfig_json": offline_queue, "ddm_endpoint": closed_endpoint, "site": inactive_site}
"""By table, the function that takes a row out of service when its entry is no longer declared."""


class SitesOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        file: with the sites; docs/how-to/run-a-small-experiment.md describes it.
    """

    file: Path | None = None


class SitesAgent(Agent[SitesOptions]):
    """Writes PanDA's grid tables from a file of sites. Entries missing from the file go offline, and stay."""

    name = "sites"
    title = "queues, sites and endpoints from a file of sites"
    options_type = SitesOptions
    is_feed = True

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read the file, check all of it, and write the differences.

        Raises:
            Refused: PanDA's own tables would be written, or no file is named.
            FeedAlarm: the file cannot be read, or contains an error; the stored rows stay.
        """
        require_standalone(context, self.name)
        if self.options.file is None:
            raise Refused("there is nothing to read", "options of sites", "set file in config/agents.yaml")
        obtained, tables, declared = self._read(self.options.file)
        gone = Declared()
        if declared is not None:
            with context.database.read_snapshot() as connection:
                gone = _before(connection).without(declared)

        def plan(connection: sa.Connection) -> Plan:
            names = context.database.names
            gone_by_table = {"schedconfig_json": gone.queues, "ddm_endpoint": gone.endpoints, "site": gone.sites}
            complete = [_with_gone(connection, names, table, gone_by_table.pop(table.table, ())) for table in tables]
            return Plan([PlannedTable(table, removes=table.about is not None) for table in complete])

        report = run_import(context, self.name, {SITES: obtained}, plan, Limits(1.0, 1.0))
        return replace(report, notes=(*report.notes, *_notes(gone)))

    def _read(self, path: Path) -> tuple[DocumentResult, list[MappedTable], Declared | None]:
        """Return the file as a feed document, its tables, and the names it declares."""
        source = str(path)
        try:
            grid = read_sites(read_file(path, MAX_BYTES).data or b"", source)
        except DocumentRefused as refused:
            return DocumentResult(SITES, source, refused=refused), [], None
        except SitesRefused as refused:
            fault = DocumentRefused("wrong_value", refused.what, source, refused.remedy)
            return DocumentResult(SITES, source, refused=fault), [], None
        declared = Declared.of(grid)
        body = json.dumps(declared.as_json()).encode()
        good = StoredDocument(SITES, source, len(declared.sites), Validators(), body)
        return DocumentResult(SITES, source, good=good), declared_tables(grid), declared


def _before(connection: sa.Connection) -> Declared:
    """The names that the last good file declared."""
    document = stored_documents(connection, SitesAgent.name).get(SITES)
    return Declared() if document is None or document.body is None else Declared.from_json(json.loads(document.body))


def _with_gone(connection: sa.Connection, names: Any, table: MappedTable, gone: tuple[str, ...]) -> MappedTable:
    """Add to a table the rows of entries that are no longer declared, taken out of service."""
    if not gone:
        return table
    stored = table_writing.read_rows(connection, names, table, gone)
    rows: dict[Key, tuple[Any, ...]] = {key: _RETIRE[table.table](values) for key, values in stored.items()}
    return replace(table, rows={**table.rows, **rows})


def _notes(gone: Declared) -> tuple[str, ...]:
    names_by_kind = (("site", gone.sites), ("queue", gone.queues), ("endpoint", gone.endpoints))
    return tuple(
        f"{kind} {name} is in the file no more: taken offline; what is on record of it stays"
        for kind, names in names_by_kind
        for name in names
    )
