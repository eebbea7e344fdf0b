"""Tasks that need input, inserted straight into JEDI's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from broker.store.connection.database import Database

Row = Mapping[str, Any]


def insert(database: Database, table: str, rows: Sequence[Row]) -> None:
    """Insert rows, given by column, into one of PanDA's tables."""
    target = database.names.table(table)
    statement = f"INSERT INTO {target} SELECT * FROM jsonb_populate_recordset(NULL::{target}, CAST(:rows AS jsonb))"
    with database.begin() as connection:
        connection.execute(sa.text(statement), {"rows": json.dumps(list(rows), default=str)})


def want(database: Database, task: int, name: str, files: int = 5, **columns: Any) -> None:
    """Insert a task with an input dataset of ready files."""
    defaults = {
        "jeditaskid": task,
        "status": "ready",
        "vo": "atlas",
        "prodsourcelabel": "managed",
        "currentpriority": 500,
    }
    insert(database, "jedi_tasks", [{**defaults, **columns}])
    insert(
        database,
        "jedi_datasets",
        [{"jeditaskid": task, "datasetid": 10 * task, "datasetname": name, "type": "input", "status": "ready"}],
    )
    insert(
        database,
        "jedi_dataset_contents",
        [
            {
                "jeditaskid": task,
                "datasetid": 10 * task,
                "fileid": 1000 * task + number,
                "lfn": f"{name.rstrip('/')}.{number}",
                "scope": "mc23",
                "status": "ready",
                "fsize": 100,
            }
            for number in range(files)
        ],
    )
