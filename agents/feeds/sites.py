"""The agent that reads the sites of an installation from a file of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.feeds.importing import Limits, Plan, Planned, require_standalone, run_import
from agents.feeds.obtaining import Obtained
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
from broker.store.snapshots.feed_documents import KeptDocument, kept_documents

MAX_BYTES = 10 * 2**20
_GOES = {"schedconfig_json": offline_queue, "ddm_endpoint": closed_endpoint, "site": inactive_site}
"""What becomes of the row of something that is declared no more, by table."""


class SitesOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        file: with the sites; docs/how-to/run-a-small-experiment.md says what stands in it.
    """

    file: Path | None = None


class SitesAgent(Agent[SitesOptions]):
    """Writes PanDA's tables of the grid from a file of sites. What the file leaves out goes offline, and stays."""

    name = "sites"
    title = "queues, sites and endpoints from a file of sites"
    options_type = SitesOptions
    is_feed = True

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read the file, check it whole, and write what became different.

        Raises:
            Refused: PanDA's own tables would be written, or no file is named.
            FeedAlarm: the file cannot be read, or something in it is wrong; what is on record stays.
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
            left = {"schedconfig_json": gone.queues, "ddm_endpoint": gone.endpoints, "site": gone.sites}
            planned = [_with_gone(connection, names, one, left.pop(one.table, ())) for one in tables]
            return Plan([Planned(one, removes=one.about is not None) for one in planned])

        report = run_import(context, self.name, {SITES: obtained}, plan, Limits(1.0, 1.0))
        return replace(report, notes=(*report.notes, *_notes(gone)))

    def _read(self, path: Path) -> tuple[Obtained, list[MappedTable], Declared | None]:
        """The file as a document of a feed, its tables, and the names in it."""
        source = str(path)
        try:
            grid = read_sites(read_file(path, MAX_BYTES).data or b"", source)
        except DocumentRefused as refused:
            return Obtained(SITES, source, refused=refused), [], None
        except SitesRefused as refused:
            fault = DocumentRefused("wrong_value", refused.what, source, refused.remedy)
            return Obtained(SITES, source, refused=fault), [], None
        declared = Declared.of(grid)
        body = json.dumps(declared.as_json()).encode()
        good = KeptDocument(SITES, source, len(declared.sites), Validators(), body)
        return Obtained(SITES, source, good=good), declared_tables(grid), declared


def _before(connection: sa.Connection) -> Declared:
    """What the last good file declared."""
    kept = kept_documents(connection, SitesAgent.name).get(SITES)
    return Declared() if kept is None or kept.body is None else Declared.from_json(json.loads(kept.body))


def _with_gone(connection: sa.Connection, names: Any, table: MappedTable, gone: tuple[str, ...]) -> MappedTable:
    """The table with the rows of what is declared no more, as they are to be."""
    if not gone:
        return table
    there = table_writing.read_rows(connection, names, table, gone)
    rows: dict[Key, tuple[Any, ...]] = {key: _GOES[table.table](values) for key, values in there.items()}
    return replace(table, rows={**table.rows, **rows})


def _notes(gone: Declared) -> tuple[str, ...]:
    told = (("site", gone.sites), ("queue", gone.queues), ("endpoint", gone.endpoints))
    return tuple(
        f"{kind} {name} is in the file no more: taken offline; what is on record of it stays"
        for kind, names in told
        for name in names
    )
