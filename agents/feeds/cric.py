"""The agent that feeds queues, software tags, sites, endpoints, relations and closeness from CRIC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from time import perf_counter
from urllib.parse import urljoin

import sqlalchemy as sa
from pydantic import Field

from agents.feeds.importing import Forget, Limits, Plan, PlannedTable, require_standalone, run_import
from agents.feeds.obtaining import DocumentResult, FeedOptions, obtain
from agents.service.base import Agent, CycleContext, CycleReport
from broker.errors import Refused
from broker.feeds.model.cric import catalogue
from broker.feeds.model.cric.catalogue import (
    CENTRES,
    CLOSED_READ,
    CLOSED_WRITE,
    CLOSENESS,
    DOCUMENTS,
    ENDPOINTS,
    QUEUES,
    SITES,
    STATES,
    TAGS,
)
from broker.feeds.model.cric.closeness import CLOSENESS_KEY, closeness_table
from broker.feeds.model.cric.endpoints import closed, endpoint_table
from broker.feeds.model.cric.places import place_table
from broker.feeds.model.cric.queues import panda_site_table, queue_table, relation_table, site_table, tag_table
from broker.feeds.model.rows import Key, MappedTable
from broker.feeds.statements import table_writing
from broker.fetching.documents import Document
from broker.store.reads import grid_names

FORGOTTEN_AFTER = timedelta(days=7)
"""Queues that CRIC has not listed, and network values not updated, for this long are removed."""
_NEEDED = {
    "site": (SITES,),
    "panda_site": (SITES,),
    "site_places": (SITES,),
    "ddm_endpoint": (ENDPOINTS, SITES, CLOSED_WRITE, CLOSED_READ, STATES),
    "schedconfig_json": (QUEUES,),
    "panda_ddm_relation": (QUEUES,),
    "sw_tags": (TAGS,),
    "network_matrix_kv": (CLOSENESS,),
}

#: Further documents after which a table is rebuilt: relations, for example, when endpoints may have changed.
_ALSO = {"panda_ddm_relation": (ENDPOINTS, SITES), "site_places": (CENTRES,)}


class CricOptions(FeedOptions):
    """Options of the agent.

    Attributes:
        address: of CRIC's server; its documents have their usual paths there.
        documents: addresses or paths of single documents by name, in place of the usual ones; ``resource_centres``,
            which says where sites are, is taken from here only.
        allow_shrink: accept documents and tables that are much smaller than before; for imports by hand.
    """

    address: str | None = None
    documents: dict[str, str] = Field(default_factory=dict)
    allow_shrink: bool = False


class CricAgent(Agent[CricOptions]):
    """Writes PanDA's grid tables as PanDA's configurator does, and the locations of sites."""

    name = "cric"
    title = "queues, sites, endpoints and closeness from CRIC"
    options_type = CricOptions
    is_feed = True

    def cycle(self, context: CycleContext) -> CycleReport:
        """Fetch, check, map and write all documents once.

        Raises:
            Refused: PanDA's own tables would be written, or there is nothing to read.
            FeedAlarm: a document was refused; the others were used.
        """
        require_standalone(context, self.name)
        started = perf_counter()
        obtained = obtain(
            context, self.name, self._wanted(), self.options, records_of, allow_shrink=self.options.allow_shrink
        )
        context.check()
        fetched_s = perf_counter() - started
        limits = Limits(1.0 if self.options.allow_shrink else self.options.max_shrink, self.options.max_left_out)
        report = run_import(context, self.name, obtained, _Planner(context, obtained).plan, limits)
        timings = {"fetch_s": fetched_s, "write_s": perf_counter() - started - fetched_s}
        return CycleReport(report.counts, timings, report.notes)

    def _wanted(self) -> dict[str, str]:
        unknown = sorted(set(self.options.documents) - set(DOCUMENTS))
        if unknown:
            known = ", ".join(DOCUMENTS)
            raise Refused(f"CRIC has no document {unknown[0]}", "options of cric: documents", f"known are {known}")
        base = self.options.address
        needed = {name: document.path for name, document in DOCUMENTS.items() if not document.optional}
        usual = {} if base is None else {name: urljoin(base, path) for name, path in needed.items()}
        wanted = usual | self.options.documents
        if not wanted:
            raise Refused("there is nothing to read", "options of cric", "set address in config/agents.yaml")
        return wanted


def records_of(document: Document) -> int:
    """Return the number of records in a CRIC document.

    Raises:
        DocumentRefused: the document does not have the shape that its name implies, or is empty and must not be.
    """
    if document.name == CLOSENESS:
        return len(document.items())
    if document.name in (CLOSED_READ, CLOSED_WRITE):
        # an empty list means that nothing is closed, so there is no size that could shrink
        closed(document)
        return 0
    if catalogue.DOCUMENTS[document.name].may_be_empty and not document.content:
        return 0
    return len(document.records())


class _Planner:
    """Builds tables from the available documents."""

    def __init__(self, context: CycleContext, obtained: Mapping[str, DocumentResult]) -> None:
        self._context = context
        self._documents = {name: result.document for name, result in obtained.items() if result.document is not None}
        self._attempted = {
            name for name, result in obtained.items() if result.good is not None or result.refused is not None
        }
        self._site_of: dict[str, str] = {}
        self._links: list[Key] = []
        self._retained_queues: list[str] = []

    def plan(self, connection: sa.Connection) -> Plan:
        """The tables whose documents are all present, at least one of them fetched in this cycle."""
        tables: list[PlannedTable] = []
        missing: dict[str, str] = {}
        sites = grid_names.site_names(connection, self._context.database.names)
        self._site_of = grid_names.endpoint_sites(connection, self._context.database.names)
        for table, needed in _NEEDED.items():
            absent = [name for name in needed if name not in self._documents]
            if not absent and self._attempted & {*needed, *_ALSO.get(table, ())}:
                planned = self._table(table, sites)
                tables.append(planned)
                if table == "site":
                    sites = frozenset(key[0] for key in planned.table.rows)
            elif absent and self._attempted.intersection(needed):
                missing[table] = f"{', '.join(absent)} never imported"
        return Plan(tables, self._touch_links, missing, forgets=self._forgets())

    def _table(self, table: str, sites: frozenset[str]) -> PlannedTable:
        documents = self._documents
        if table == "site":
            return PlannedTable(site_table(documents[SITES]))
        if table == "panda_site":
            return PlannedTable(panda_site_table(documents[SITES]))
        if table == "site_places":
            return PlannedTable(place_table(documents[SITES], documents.get(CENTRES)))
        if table == "ddm_endpoint":
            endpoints = endpoint_table(*(documents[name] for name in _NEEDED["ddm_endpoint"]))
            self._site_of = {key[0]: values[0] for key, values in endpoints.rows.items()} | {
                name: self._site_of[name] for (name,) in endpoints.retained_keys if name in self._site_of
            }
            return PlannedTable(endpoints)
        if table == "schedconfig_json":
            queues = queue_table(documents[QUEUES])
            self._retained_queues = [key[0] for key in queues.retained_keys]
            return _touched(queues, removes=False)
        if table == "panda_ddm_relation":
            return PlannedTable(relation_table(documents[QUEUES], self._site_of))
        if table == "sw_tags":
            return _touched(tag_table(documents[TAGS]), removes=True)
        closeness = closeness_table(documents[CLOSENESS], sites)
        self._links = list(closeness.rows)
        return PlannedTable(closeness, removes=False)

    def _touch_links(self, connection: sa.Connection, writes: bool) -> tuple[()]:
        """Update the listing time of the links that CRIC lists."""
        if writes and CLOSENESS in self._attempted:
            names = self._context.database.names
            table_writing.touch_links(connection, names, CLOSENESS_KEY, self._links, self._context.now)
        return ()

    def _forgets(self) -> list[Forget]:
        """Queues and network values that have not been listed for too long."""
        before, forgets = self._context.now - FORGOTTEN_AFTER, []
        if QUEUES in self._attempted and QUEUES in self._documents:
            forgets.append(Forget("schedconfig_json", "last_update", before, self._retained_queues))
        if CLOSENESS in self._attempted:
            forgets.append(Forget("network_matrix_kv", "ts", before))
        return forgets


def _touched(table: MappedTable, *, removes: bool) -> PlannedTable:
    return PlannedTable(table, removes, touched=[key[0] for key in table.rows])
