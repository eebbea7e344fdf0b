"""A small grid for tests of timeouts: queues of every kind, and jobs defined only by the relevant columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from agents.lifecycle.timeout_inputs import TimeoutInputReader, TimeoutInputs
from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings, config_file
from agents.service.cycle import open_run, run_cycle
from broker.lifecycle.statements.actions import JobAction
from broker.lifecycle.statements.scan import find_due
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86400
Rows = list[dict[str, Any]]


def ago(seconds: float) -> str:
    """Return the time this many seconds before ``NOW``, as PanDA stores it."""
    return (NOW - timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def queue(name: str, **data: Any) -> dict[str, Any]:
    """Return a row of an online queue."""
    return {"panda_queue": name, "data": {"nickname": name, "status": "online"} | data}


def pilots(site: str, laststart_s: float | None, **columns: Any) -> dict[str, Any]:
    """Return a row with the time when a job last started at a site."""
    defaults = {"flag": "production", "hours": 3, "lastmod": ago(60)}
    laststart = {} if laststart_s is None else {"laststart": ago(laststart_s)}
    return {"site": site} | defaults | laststart | columns


def setting(component: str, key: str, value: float, **columns: Any) -> dict[str, Any]:
    """Return a row of the CONFIG table."""
    row = {"app": "pandaserver", "component": component, "key": key, "value": str(value), "type": "float"}
    return row | {"vo": "atlas", "descr": "for a test"} | columns


QUEUES = [
    queue("ON", workflow="pull_ups"),
    queue("PLAIN"),
    queue("PUSH", workflow="push"),
    queue("OFFPUSH", workflow="push", status="offline"),
    queue("QUICK", workflow="quick"),
    queue("PAUSED", status="paused", workflow="push"),
    queue("CATCHALL", catchall="x=1, disableReassignXYZ,y", status="offline"),
    queue("PARAMS", params={"disableReassign": False}, status="test"),
    queue("OTHERWISE", catchall="nodisableReassign"),
    queue("OFF", status="offline"),
    queue("TEST", status="test"),
    queue("OLD"),
    queue("EDGE"),
    queue("FRESH"),
    queue("NULLSTART"),
    queue("CROWD", status="offline"),
    {"panda_queue": "ROW", "data": {"nickname": "NICK", "status": "paused"}},
]
PILOTS = [
    pilots("OLD", 2 * HOUR + 1),
    pilots("EDGE", 2 * HOUR),
    pilots("FRESH", 2 * HOUR - 60),
    pilots("TEST", 60),
    pilots("NULLSTART", None),
    pilots("STRANGE", 3 * HOUR),
    pilots("ON", 3 * HOUR, flag="analysis"),
    pilots("PLAIN", 3 * HOUR, hours=1),
]
CONFIG = [
    setting("watcher", "HEARTBEAT_TIMEOUT_push", 10),
    setting("watcher", "HEARTBEAT_TIMEOUT_quick", 0),
    setting("watcher", "HEARTBEAT_TIMEOUT_analysis", 3),
    setting("rebroker", "TIMEOUT_defined", 1),
    setting("job_timeout", "TIMEOUT_assigned", 0),
]


def store(database: Database, active: Rows, defined: Rows = [], **tables: Rows) -> None:  # noqa: B006 - never changed
    """Replace the jobs of the grid."""
    rows = {"schedconfig_json": QUEUES, "sitedata": PILOTS, "config": CONFIG} | tables
    load(database, Scenario(NOW, {"jobsactive4": active, "jobsdefined4": defined} | rows), replace=True)


def read_inputs(database: Database, now: datetime = NOW) -> TimeoutInputs:
    """Read the inputs that decide about jobs."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        tuning = TuningStore(database.names).read_current(connection, live=True).tuning(None)
        return TimeoutInputReader(config_file("sources.yaml", None)).read(connection, catalogue, tuning, now)


def due(database: Database, now: datetime = NOW) -> dict[int, JobAction]:
    """Return the jobs on which a rule acts."""
    context = read_inputs(database, now).timeout_context
    with database.read_snapshot() as connection:
        actions = find_due(connection, TableCatalogue.read(connection, database.names), context)
    assert [action.pandaid for action in actions] == sorted(action.pandaid for action in actions)
    return {action.pandaid: action for action in actions}


def run_once(database: Database, dry: bool = False, now: Any = NOW, **options: Any) -> tuple[RunRecord, Rows]:
    """Run one cycle of the agent; return its record and its messages."""
    agent = registry.make("timeouts", options, ProcessSettings())
    messages: Rows = []
    request = CycleRequest(dry_run=dry, emit=messages.append)
    if dry:
        return run_cycle(agent, CycleContext(database, now, 1, 60.0, request)), messages
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        lease = leases.acquire(connection, "timeouts", "test", LeaseTerms()).lease
    assert lease is not None
    run_id = open_run(database, "timeouts", lease)
    return run_cycle(agent, CycleContext(database, now, 1, 60.0, request, lease=lease, run_id=run_id)), messages
