"""Conversion of a stored snapshot to a scenario: the grid that it saw, without tasks, ready to load into a database.

Job counts become rows of jobs that yield the same counts. Data that scenarios do not contain (what pilots reported of
their queues, and when summaries of worker nodes were last built) are skipped and listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from broker.domain.instants import naive
from broker.snapshot.counted_rows import IS_DEFINED, job_rows, start_rows
from broker.snapshot.raw import RawSource, Rows
from broker.store.connection.tables import PANDA, declared_tables, own_tables
from broker.store.scenarios.load_dump import REPLICA_TABLES
from broker.store.scenarios.scenario_file import Row, Scenario, json_document

#: Tables of sources that are counted from rows of jobs.
_COUNTED = ("job_counts", "user_job_counts", "job_starts")

#: Columns that are text in a source and a JSON document in a scenario.
_DOCUMENTS = frozenset(
    {("schedconfig_json", "data"), ("ddm_endpoint", "detailed_status"), ("sw_tags", "data"), ("metrics", "value_json")}
)
_STARTED_BEFORE = timedelta(hours=1)


@dataclass(frozen=True)
class Converted:
    """The scenario, and one remark for each part of the snapshot that it lacks."""

    scenario: Scenario
    lost: tuple[str, ...]


def scenario_of(taken_at: datetime, sources: Mapping[str, RawSource]) -> Converted:
    """Convert the sources of a snapshot to a scenario at its instant."""
    shapes = {**declared_tables(PANDA), **own_tables()}
    scenario_tables = {*declared_tables(PANDA), *REPLICA_TABLES}
    tables: dict[str, list[Row]] = {}
    lost: list[str] = []
    for source in sources.values():
        for table, rows in source.tables.items():
            if table in scenario_tables and len(rows):
                tables[table] = _rows(table, rows, frozenset(shapes[table].columns))
            elif table not in _COUNTED and len(rows):
                lost.append(f"{table}: {len(rows)} rows, which scenarios do not hold")
    jobs = _jobs(sources, taken_at)
    tables |= {table: [_plain(row) for row in rows] for table, rows in jobs.items() if rows}
    lost += _lost_counts(sources, jobs)
    return Converted(Scenario(taken_at, tables), tuple(lost))


def _jobs(sources: Mapping[str, RawSource], taken_at: datetime) -> dict[str, list[dict[str, Any]]]:
    nothing = RawSource("", {})
    counts, users = sources.get("jobs", nothing), sources.get("user_jobs", nothing)
    rows = job_rows(counts.rows("job_counts").records(), users.rows("user_job_counts").records())
    started = taken_at - _STARTED_BEFORE
    return {
        "jobsdefined4": [row for row in rows if row[IS_DEFINED]],
        "jobsactive4": [row for row in rows if not row[IS_DEFINED]],
        "jobsarchived4": start_rows(users.rows("job_starts").records(), started, len(rows) + 1),
    }


def _lost_counts(sources: Mapping[str, RawSource], jobs: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    nothing = RawSource("", {})
    cores = sum(
        int(row["ncores"] or 0) for row in sources.get("jobs", nothing).rows("job_counts").records() if not row["njobs"]
    )
    counted = ("running_jobs", "throttled_jobs", "queued_jobs")
    owned = sum(
        int(row[name] or 0)
        for row in sources.get("user_jobs", nothing).rows("user_job_counts").records()
        for name in counted
    )
    created = sum("corecount" in row and "produsername" in row for rows in jobs.values() for row in rows)
    lost = [f"job_counts: {cores} cores that are of no job"] if cores else []
    return [*lost, f"user_job_counts: {owned - created} jobs that no other count has"] if owned > created else lost


def _rows(table: str, rows: Rows, columns: frozenset[str]) -> list[Row]:
    # snapshots of earlier releases have columns that no table has any more
    return [
        _plain({name: _document(table, name, value) for name, value in row.items() if name in columns})
        for row in rows.records()
    ]


def _document(table: str, column: str, value: Any) -> Any:
    return json_document(value) if (table, column) in _DOCUMENTS and isinstance(value, str) else value


def _plain(row: Mapping[str, Any]) -> Row:
    """The row in the form of scenarios: without NULL, times naive in UTC."""
    return {name: _value(value) for name, value in row.items() if value is not None and name != IS_DEFINED}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return naive(value).isoformat()
    return value
