"""Read newly ended jobs, and store what was learned from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import HOUR_S, naive
from broker.domain.queue_health import HealthFold, HealthLimits, QueueHealth
from broker.outcomes.model.record import ArchivedJob, RecordCell, RecordFold
from broker.store.connection.plain_rows import mappings
from broker.store.connection.tables import TableCatalogue

#: The refresh that records the age of the learned data.
REFRESH = "outcomes"
#: Codes and texts of errors, as ``error_classes.yaml`` decodes them.
_ERRORS = tuple(
    f"{source}{end}"
    for source in ("piloterror", "exeerror", "ddmerror", "taskbuffererror", "jobdispatchererror", "brokerageerror",
                   "superror")
    for end in ("code", "diag")
)  # fmt: skip
_COLUMNS = (
    "pandaid", "attemptnr", "jeditaskid", "computingsite", "jobstatus", "prodsourcelabel", "processingtype",
    "resource_type", "corecount", "actualcorecount", "creationtime", "starttime", "endtime", "modificationtime",
    "maxwalltime", "modificationhost", *_ERRORS, "transexitcode",
)  # fmt: skip
_READ_ENDS = """
    SELECT j.* FROM {archive} AS j
    WHERE j.jobstatus IN ('finished', 'failed', 'cancelled', 'closed') AND j.computingsite IS NOT NULL
      AND j.modificationtime > :since AND j.modificationtime <= :until
      AND NOT EXISTS (SELECT FROM broker.folded_ends AS f
                      WHERE f.pandaid = j.pandaid AND f.attemptnr = coalesce(j.attemptnr, 0))
    ORDER BY j.modificationtime, j.pandaid LIMIT :jobs"""
_RUNNING = """
    SELECT computingsite AS queue, prodsourcelabel, sum(coalesce(nullif(actualcorecount, 0), nullif(corecount, 0), 1))
    FROM {active} AS j WHERE jobstatus = 'running' AND computingsite IS NOT NULL GROUP BY 1, 2"""
ALL_KINDS = "all"

Decode = Callable[[Mapping[str, Any]], tuple[str, str]]
"""Error class and fault of a failed job's row."""


def folded_until(connection: sa.Connection) -> datetime | None:
    """The modificationtime (aware) up to which all ends were folded; None before the first."""
    until = connection.scalar(sa.text("SELECT folded_until FROM broker.outcomes_folded"))
    return None if until is None else until.replace(tzinfo=UTC)


def read_ends(
    connection: sa.Connection, catalogue: TableCatalogue, since: datetime, until: datetime, jobs: int, decode: Decode
) -> list[ArchivedJob]:
    """The next ``jobs`` jobs at most that ended between two instants (aware) and were not folded, in order."""
    query = sa.text(_READ_ENDS.format(archive=catalogue.source("jobsarchived4", _COLUMNS)))
    rows = connection.execute(query, {"since": naive(since), "until": naive(until), "jobs": jobs})
    return [_job({str(name): value for name, value in row.items()}, decode) for row in rows.mappings()]


def _job(row: Mapping[str, Any], decode: Decode) -> ArchivedJob:
    error_class, fault = decode(row) if row["jobstatus"] == "failed" else ("", "")
    return ArchivedJob(
        pandaid=int(row["pandaid"]),
        attemptnr=int(row["attemptnr"] or 0),
        jeditaskid=int(row["jeditaskid"] or 0),
        queue=row["computingsite"],
        jobstatus=row["jobstatus"],
        prodsourcelabel=row["prodsourcelabel"],
        processingtype=row["processingtype"] or "",
        resource_type=row["resource_type"] or "",
        cores=float(row["actualcorecount"] or row["corecount"] or 1),
        known_s=_seconds(row["modificationtime"]),
        created_s=_seconds(row["creationtime"]),
        started_s=_seconds(row["starttime"]),
        ended_s=_seconds(row["endtime"]),
        expected_s=float(row["maxwalltime"] or math.nan),
        host=row["modificationhost"],
        error_class=error_class,
        fault=fault,
    )


def note_folded(connection: sa.Connection, jobs: Collection[ArchivedJob], until: datetime, overlap_s: float) -> None:
    """Record that these ends were folded, and until when (aware) all were; forget those before the overlap."""
    rows = [
        {"pandaid": job.pandaid, "attemptnr": job.attemptnr, "modificationtime": naive(_instant(job.known_s))}
        for job in jobs
    ]
    _many(connection, "INSERT INTO broker.folded_ends (pandaid, attemptnr, modificationtime) "
          "VALUES (:pandaid, :attemptnr, :modificationtime)", rows)  # fmt: skip
    connection.execute(
        sa.text(
            "INSERT INTO broker.outcomes_folded (folded_until) VALUES (:until) "
            "ON CONFLICT (is_only) DO UPDATE SET folded_until = greatest(outcomes_folded.folded_until, :until)"
        ),
        {"until": naive(until)},
    )
    connection.execute(
        sa.text("DELETE FROM broker.folded_ends WHERE modificationtime < :before"),
        {"before": naive(until - timedelta(seconds=2 * overlap_s))},
    )


_CELL_KEY = ("hour", "queue", "kind", "processingtype", "resource_type")
_CELL = tuple(field.name for field in fields(RecordCell))


_READ_CELLS = "SELECT {columns} FROM broker.queue_record WHERE hour = ANY(:hours) AND queue = ANY(:queues)"
_READ_FAILURES = """
    SELECT hour, queue, kind, error_class, fault, failed FROM broker.queue_failures
    WHERE hour = ANY(:hours) AND queue = ANY(:queues)"""


def read_record(connection: sa.Connection, jobs: Iterable[ArchivedJob]) -> RecordFold:
    """The stored cells to which these jobs belong."""
    places = {(math.floor(job.known_s / HOUR_S) * HOUR_S, job.queue) for job in jobs}
    parameters = {
        "hours": [_instant(hour_s) for hour_s in sorted({hour_s for hour_s, _ in places})],
        "queues": sorted({queue for _, queue in places}),
    }
    cells = connection.execute(sa.text(_READ_CELLS.format(columns=", ".join((*_CELL_KEY, *_CELL)))), parameters)
    failures = connection.execute(sa.text(_READ_FAILURES), parameters)
    return RecordFold(
        {(row[0].timestamp(), *row[1:5]): RecordCell(*row[5:]) for row in cells},
        {(row[0].timestamp(), *row[1:5]): row[5] for row in failures},
    )


def write_record(connection: sa.Connection, fold: RecordFold) -> None:
    """Write the cells of a fold over the stored ones."""
    rows = [
        dict(zip(_CELL_KEY, (_instant(key[0]), *key[1:]), strict=True)) | asdict(cell)
        for key, cell in fold.cells.items()
    ]
    _many(connection, _upsert("queue_record", _CELL_KEY, _CELL), rows)
    key = ("hour", "queue", "kind", "error_class", "fault")
    failures = [
        dict(zip((*key, "failed"), (_instant(of[0]), *of[1:], count), strict=True))
        for of, count in fold.failures.items()
    ]
    _many(connection, _upsert("queue_failures", key, ("failed",)), failures)


_PLACE_KEY = ("queue", "kind", "node")
_PLACE = tuple(field.name for field in fields(QueueHealth))
_READ_PLACES = """
    SELECT {columns} FROM broker.queue_health
    WHERE queue = ANY(:queues) OR state <> 'healthy' ORDER BY queue, kind, node"""
_READ_UNHEALTHY = """
    SELECT {columns} FROM broker.queue_health
    WHERE state <> 'healthy' AND (CAST(:queue AS text) IS NULL OR queue = :queue)
    ORDER BY node <> '', statistic DESC, queue, kind, node"""
_SECONDS = frozenset({"since_s", "changed_s", "until_s", "last_s"})


def read_health(
    connection: sa.Connection, limits: HealthLimits, queues: Collection[str], tasks: Collection[int]
) -> HealthFold:
    """The states of these queues, their nodes and all places that may change with time; the hours of these tasks."""
    places = connection.execute(
        sa.text(_READ_PLACES.format(columns=", ".join(_PLACE))),
        {"queues": sorted(queues)},
    ).mappings()
    fold = HealthFold(limits)
    for row in places:
        place = QueueHealth(**{name: _read(name, value) for name, value in row.items()})
        fold.places[place.queue, place.kind, place.node] = place
    task_ids = {task for place in fold.places.values() for task in place.tasks}
    hours = connection.execute(
        sa.text(
            "SELECT jeditaskid, queue, hour_number, finished, failed FROM broker.task_ends "
            "WHERE jeditaskid = ANY(:tasks) ORDER BY jeditaskid, queue, hour_number"
        ),
        {"tasks": sorted({*tasks, *task_ids})},
    )
    for task, queue, hour, finished, failed in hours:
        fold.task_hours.setdefault(task, {})[queue, hour] = (finished, failed)
    return fold


def _read(name: str, value: Any) -> Any:
    if name in _SECONDS:
        return math.nan if value is None else value
    return tuple(value) if name in ("tasks", "evidence") else value


def write_health(connection: sa.Connection, fold: HealthFold, tasks: Collection[int]) -> None:
    """Write the places that the fold touched, and the hours of these tasks."""
    rows = []
    for key in sorted(fold.touched):
        values = asdict(fold.places[key])
        for name in _SECONDS:
            values[name] = None if math.isnan(values[name]) else values[name]
        rows.append(values | {"tasks": list(values["tasks"]), "evidence": list(values["evidence"])})
    of_place = tuple(name for name in _PLACE if name not in _PLACE_KEY)
    _many(connection, _upsert("queue_health", _PLACE_KEY, of_place), rows)
    hours = [
        {"jeditaskid": task, "queue": queue, "hour_number": hour, "finished": finished, "failed": failed}
        for task in sorted(tasks)
        for (queue, hour), (finished, failed) in fold.task_hours.get(task, {}).items()
    ]
    _many(
        connection, _upsert("task_ends", ("jeditaskid", "queue", "hour_number"), ("finished", "failed")), hours
    )  # fmt: skip


def forget_old(connection: sa.Connection, limits: HealthLimits, now: datetime, node_days: float) -> None:
    """Remove hours of tasks that no judgement uses, and healthy nodes without an end for ``node_days`` days."""
    first = math.floor((now.timestamp() - limits.control_s) / HOUR_S) - 1
    connection.execute(sa.text("DELETE FROM broker.task_ends WHERE hour_number < :first"), {"first": first})
    connection.execute(
        sa.text("DELETE FROM broker.queue_health WHERE node <> '' AND state = 'healthy' AND last_s < :before"),
        {"before": (now - timedelta(days=node_days)).timestamp()},
    )


def note_running(
    connection: sa.Connection, catalogue: TableCatalogue, now: datetime, kind_of: Callable[[str | None], str]
) -> int:
    """Store this hour's most cores seen running at each queue, by kind and in all; return the number of queues."""
    columns = ("computingsite", "prodsourcelabel", "jobstatus", "corecount", "actualcorecount")
    query = sa.text(_RUNNING.format(active=catalogue.source("jobsactive4", columns)))
    cores: dict[tuple[str, str], int] = {}
    for queue, label, number in connection.execute(query):
        for kind in (kind_of(label), ALL_KINDS):
            cores[queue, kind] = cores.get((queue, kind), 0) + int(number)
    hour = now.replace(minute=0, second=0, microsecond=0)
    rows = [
        {"hour": hour, "queue": queue, "kind": kind, "cores": most} for (queue, kind), most in sorted(cores.items())
    ]
    _many(
        connection,
        "INSERT INTO broker.queue_cores (hour, queue, kind, most_cores_running) VALUES (:hour, :queue, :kind, :cores) "
        "ON CONFLICT (hour, queue, kind) DO UPDATE "
        "SET most_cores_running = greatest(queue_cores.most_cores_running, excluded.most_cores_running)",
        rows,
    )
    return len({queue for queue, _ in cores})


def note_refresh(connection: sa.Connection, now: datetime) -> None:
    """Record that everything known now has been learned."""
    connection.execute(
        sa.text(
            "INSERT INTO broker.summary_refreshes (summary, refreshed_for) VALUES (:summary, :now) "
            "ON CONFLICT (summary) DO UPDATE SET refreshed_for = excluded.refreshed_for"
        ),
        {"summary": REFRESH, "now": now},
    )


@dataclass(frozen=True)
class RecordLine:
    """Sums over some hours at a queue for one kind of jobs; ``by_fault``: failed jobs by the party at fault."""

    queue: str
    kind: str
    cell: RecordCell
    by_fault: Mapping[str, int]
    by_class: Mapping[str, int]


_SUM_CELLS = """
    SELECT queue, kind, {columns} FROM broker.queue_record
    WHERE hour >= :since AND (CAST(:queue AS text) IS NULL OR queue = :queue) ORDER BY 1, 2, hour"""
_SUM_FAILURES = """
    SELECT queue, kind, fault, error_class, sum(failed) FROM broker.queue_failures
    WHERE hour >= :since AND (CAST(:queue AS text) IS NULL OR queue = :queue)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 5 DESC, 3, 4"""


def record_since(connection: sa.Connection, since: datetime, queue: str | None) -> list[RecordLine]:
    """The record of the hours from ``since`` (aware) on, of all queues or one, by queue and kind."""
    values = {"since": since.replace(minute=0, second=0, microsecond=0), "queue": queue}
    lines: dict[tuple[str, str], RecordLine] = {}
    rows = connection.execute(sa.text(_SUM_CELLS.format(columns=", ".join(_CELL))), values)
    for name, kind, *sums in rows:
        line = lines.setdefault((name, kind), RecordLine(name, kind, RecordCell(), {}, {}))
        for column, value in zip(_CELL[:-1], sums[:-1], strict=True):
            setattr(line.cell, column, getattr(line.cell, column) + value)
        line.cell.waits = [one + other for one, other in zip(line.cell.waits, sums[-1], strict=True)]
    for name, kind, fault, error_class, failed in connection.execute(sa.text(_SUM_FAILURES), values):
        line = lines.setdefault((name, kind), RecordLine(name, kind, RecordCell(), {}, {}))
        by_fault, by_class = dict(line.by_fault), dict(line.by_class)
        by_fault[fault] = by_fault.get(fault, 0) + int(failed)
        by_class[error_class] = by_class.get(error_class, 0) + int(failed)
        lines[name, kind] = RecordLine(name, kind, line.cell, by_fault, by_class)
    return [lines[key] for key in sorted(lines)]


def unhealthy_places(connection: sa.Connection, queue: str | None = None) -> list[QueueHealth]:
    """Queues and nodes that are not healthy, the worst first."""
    query = sa.text(_READ_UNHEALTHY.format(columns=", ".join(_PLACE)))
    rows = mappings(connection, query, {"queue": queue})
    return [QueueHealth(**{name: _read(name, value) for name, value in row.items()}) for row in rows]


def _many(connection: sa.Connection, statement: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.text(statement), rows)


_UPSERT = """
    INSERT INTO broker.{table} ({columns}) VALUES ({values}) ON CONFLICT ({key}) DO UPDATE SET {changes}"""


def _upsert(table: str, key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    names = (*key, *columns)
    return _UPSERT.format(
        table=table,
        columns=", ".join(names),
        values=", ".join(f":{name}" for name in names),
        key=", ".join(key),
        changes=", ".join(f"{name} = excluded.{name}" for name in columns),
    )


def _instant(time_s: float) -> datetime:
    return datetime.fromtimestamp(time_s, UTC)


def _seconds(time: datetime | None) -> float:
    return math.nan if time is None else time.replace(tzinfo=UTC).timestamp()
