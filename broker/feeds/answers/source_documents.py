"""Import documents that others send: whole, with the checks of the feeds, under the lease of the feed."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agents.feeds.by_hand import ReplicaFileOptions, ReplicaImport, WorkersImport, WorkersOptions
from agents.feeds.cric import CricAgent, CricOptions
from agents.feeds.network import NetworkAgent, NetworkOptions
from agents.feeds.rucio_usage import QuotaOptions, RucioQuotaAgent, RucioSpaceAgent, SpaceOptions
from agents.service import configuration, cycle, registry
from agents.service.base import Agent, CycleContext, CycleRequest
from agents.service.clock import ClockWatch, read_clocks
from agents.service.configuration import AgentsConfiguration, ProcessSettings
from agents.service.leadership import LeaseKeeper, holder_name
from broker.errors import NOT_FOUND, BrokerError, Refused
from broker.feeds.model.cric.catalogue import DOCUMENTS
from broker.store.connection.database import Database
from broker.store.schema import migrate
from broker.store.service.agent_runs import RunRecord

BUDGET_S = 120.0
SEED_BITS = 31


class NoSuchSource(BrokerError):
    """No source takes documents under this name."""

    exit_status = NOT_FOUND


class TablesOfPanda(Refused):
    """Alongside PanDA, PanDA itself fills its tables."""


class SourceBusy(Refused):
    """The feed is already running elsewhere."""


class DocumentNotTaken(BrokerError):
    """The document failed the checks of its feed; what was on record stays."""

    exit_status = 2


Options = Mapping[str, Any]
Make = Callable[[str, Options, ProcessSettings], Agent[Any]]


def _cric(name: str) -> Make:
    return lambda path, options, settings: CricAgent(
        CricOptions(**{**options, "documents": {name: path}, "address": None}), settings
    )


def _space(path: str, options: Options, settings: ProcessSettings) -> Agent[Any]:
    return RucioSpaceAgent(SpaceOptions(**{**options, "address": path}), settings)


def _replicas(path: str, options: Options, settings: ProcessSettings) -> Agent[Any]:
    return ReplicaImport(ReplicaFileOptions(address=path), settings)


def _quotas(path: str, options: Options, settings: ProcessSettings) -> Agent[Any]:
    return RucioQuotaAgent(QuotaOptions(**{**options, "address": path}), settings)


def _network(path: str, options: Options, settings: ProcessSettings) -> Agent[Any]:
    return NetworkAgent(NetworkOptions(**{**options, "address": path}), settings)


def _workers(path: str, options: Options, settings: ProcessSettings) -> Agent[Any]:
    return WorkersImport(WorkersOptions(**{**options, "documents": {"report": path}}), settings)


@dataclass(frozen=True)
class SourceKind:
    """How the documents of a name are imported.

    Attributes:
        agent: name of the agent whose options apply.
        make: builds the agent that reads the file at a path.
        pandas: whether it writes PanDA's own tables.
    """

    agent: str
    make: Make
    pandas: bool = True


SOURCES: Mapping[str, SourceKind] = {
    **{name: SourceKind("cric", _cric(name)) for name in DOCUMENTS},
    "space": SourceKind("rucio_space", _space),
    "replicas": SourceKind("rucio_replicas", _replicas, pandas=False),
    "quotas": SourceKind("rucio_quota", _quotas, pandas=False),
    "network": SourceKind("network", _network),
    "workers": SourceKind("workers", _workers),
}
"""The sources that take whole documents, by name. A new source is one more entry."""


def source_kind(name: str) -> SourceKind:
    """Return the source of a name.

    Raises:
        NoSuchSource: there is none.
    """
    kind = SOURCES.get(name)
    if kind is None:
        raise NoSuchSource(f"there is no source {name[:80]}", "sources", f"known are {', '.join(SOURCES)}")
    return kind


def take(database: Database, name: str, document: bytes, now: datetime, config: Path | None) -> list[dict[str, Any]]:
    """Check and import a document; return the changes, document by document and table by table.

    Raises:
        NoSuchSource: no source has this name.
        TablesOfPanda: alongside PanDA, which fills these tables itself.
        SourceBusy: another process holds the lease of the feed.
        DocumentNotTaken: it failed the checks.
    """
    kind = source_kind(name)
    if kind.pandas and migrate.check(database) != migrate.STANDALONE:
        raise TablesOfPanda(f"the source {name} is PanDA's own here", "sources", "send replicas or quotas only")
    agents = configuration.load(configuration.config_file("agents.yaml", config), registry.NAMES)
    settings = configuration.load_process(configuration.config_file("broker.yaml", config), config)
    options = agents.agents[kind.agent].options if kind.agent in agents.agents else {}
    output: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gridbroker-") as folder:
        file = Path(folder) / name
        file.write_bytes(document)
        agent = kind.make(str(file), options, settings)
        record = _run(database, agent, agents, now, output.append)
    if record.outcome in ("refused", "failed"):
        raise DocumentNotTaken(_plain(record, str(file)), f"source {name}", "correct the document; the last one stays")
    if record.outcome != "done":
        raise SourceBusy(f"the document was not written: {record.outcome}", f"source {name}", "try again")
    return output


def _run(
    database: Database,
    agent: Agent[Any],
    agents: AgentsConfiguration,
    now: datetime,
    emit: Callable[[dict[str, Any]], None],
) -> RunRecord:
    keeper = LeaseKeeper(database, holder_name(), agents.leases)
    lease = keeper.acquire(agent.name)
    if lease is None:
        raise SourceBusy(
            f"another process runs the feed {agent.name}", "lease", "stop it, or let it fetch the document"
        )
    keeper.start()
    try:
        run_id = cycle.open_run(database, agent.name, lease, BUDGET_S)
        context = CycleContext(
            database,
            now,
            secrets.randbits(SEED_BITS),
            BUDGET_S,
            CycleRequest(emit=emit, by_hand=True),
            lease=lease,
            run_id=run_id,
            believes=keeper.trusts,
            clock_faults=ClockWatch(agents.service.clock_limit_s).check(read_clocks(database)),
        )
        return cycle.run_cycle(agent, context)
    finally:
        keeper.stop()


def _plain(record: RunRecord, path: str) -> str:
    return (record.error_line or record.outcome).replace(path, "the document").partition(": ")[2][:500]
