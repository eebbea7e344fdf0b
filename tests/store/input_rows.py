"""Rows of tasks, datasets, files and replicas for tests, defined only by the relevant columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario

Rows = list[dict[str, Any]]
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def task(jeditaskid: int = 1, **columns: Any) -> dict[str, Any]:
    """Return a running production task with a nucleus."""
    defaults = {
        "status": "running",
        "vo": "atlas",
        "prodsourcelabel": "managed",
        "nucleus": "N",
        "currentpriority": 500,
    }
    return {"jeditaskid": jeditaskid} | defaults | columns


def dataset(datasetid: int = 10, jeditaskid: int = 1, **columns: Any) -> dict[str, Any]:
    """Return a master dataset with no used files."""
    defaults = {"datasetname": f"mc:ds{datasetid}", "type": "input", "status": "ready", "masterid": None}
    counters = {"nfiles": 100, "nfilestobeused": 100, "nfilesused": 0}
    return {"jeditaskid": jeditaskid, "datasetid": datasetid} | defaults | counters | columns


def file(fileid: int, datasetid: int = 10, jeditaskid: int = 1, **columns: Any) -> dict[str, Any]:
    """Return a ready file of 100 events and 1000 bytes."""
    defaults = {"lfn": f"file{fileid}", "status": "ready", "fsize": 1000, "nevents": 100, "ramcount": 0, "scope": "mc"}
    attempts = {"attemptnr": 0, "maxattempt": 3, "failedattempt": 0, "maxfailure": 3}
    return {"jeditaskid": jeditaskid, "datasetid": datasetid, "fileid": fileid} | defaults | attempts | columns


def replica(name: str, rse: str, available: int | None, total: int | None = None, **columns: Any) -> dict[str, Any]:
    """Return a disk replica of dataset ``mc:name``."""
    counts = {"available_files": available, "total_files": available if total is None else total}
    return {"scope": "mc", "name": name, "rse": rse, "is_tape": False, "state": "AVAILABLE"} | counts | columns


@contextmanager
def reading(database: Database, **tables: Rows) -> Iterator[tuple[sa.Connection, TableCatalogue]]:
    """Store the rows and open a database snapshot over them."""
    load(database, Scenario(NOW, tables), replace=True)
    with database.read_snapshot() as connection:
        yield connection, TableCatalogue.read(connection, database.names)
