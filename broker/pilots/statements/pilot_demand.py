"""The input of the demand for pilots, the demand as rows, and the commands that pass it to Harvester.

Source: PanDA server, ups_load_worker_stats, commandToHarvester, getCommands, ackCommands; Harvester, command manager.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa
from psycopg.rows import tuple_row

from broker.classes.share_preference import ShareNode, leaves_below_target, share_loads
from broker.domain.classification import QueueAbout
from broker.domain.instants import naive
from broker.domain.work import DroppedRow
from broker.pilots.model.job_request import JobConditions, JobRequest, conditions_of
from broker.pilots.model.matcher import FIELDS, MATCHES, Pilot
from broker.pilots.model.pilot_demand import STARTS_WINDOW, Demand, Slot, Starts, WaitingJobs
from broker.pilots.model.worker_distribution import SlotType, Workers
from broker.pilots.statements.job_giving import presented, read_queue
from broker.pilots.statements.task_queue_views import View, read_view
from broker.snapshot.build_classes import share_values
from broker.store.classes.class_inputs import read_share_counts, read_share_rows
from broker.store.connection.database import Database
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.query_context import ResponseModel

WORKER_VALIDITY = timedelta(minutes=60)
"""How long reports of workers count."""
UNDEFINED = "Undefined"
"""Resource type of jobs without one."""
STREAM = "SET_N_WORKERS_JOBTYPE"
JOB_TYPE = "managed"
"""The only type of jobs that commands know: pilots choose between production and analysis themselves."""

_READ_QUEUES = """
SELECT coalesce(data ->> 'nickname', panda_queue) AS queue, data FROM {panda}.schedconfig_json ORDER BY 1"""
_READ_TYPES = "SELECT resource_name, mincore, maxcore, maxrampercore FROM {panda}.resource_types ORDER BY 1"
_READ_WORKERS = """
SELECT computingsite AS queue, harvester_id, resourcetype, status, sum(n_workers)::bigint AS number,
    max(lastupdate) AS newest
FROM {panda}.harvester_worker_stats GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
_READ_STARTS = """
SELECT computingsite AS queue, count(*) AS number,
    coalesce(percentile_cont(0.8) WITHIN GROUP (ORDER BY extract(epoch FROM starttime - submittime)), 0)::float8 AS p80
FROM {panda}.harvester_workers
WHERE starttime > :since AND starttime <= :now AND submittime <= starttime GROUP BY 1"""
_READ_GROUPS = """
SELECT job.computingsite AS queue, coalesce(job.resource_type, :undefined) AS resource_type, job.gshare,
    coalesce(job.currentpriority, 0)::bigint AS priority, waiting.task_queue, job.prodsourcelabel AS label,
    job.processingtype, coalesce(waiting.cputime_s, 0) AS cputime_s,
    greatest(coalesce(job.corecount, 1), 1)::bigint AS cores, coalesce(job.minramcount, 0)::bigint AS memory_mb,
    coalesce(job.maxwalltime, 0)::bigint AS walltime_s, coalesce(job.maxdiskcount, 0)::bigint AS disk_mb,
    count(*) AS number
FROM {panda}.jobsactive4 AS job LEFT JOIN {broker}.waiting_jobs AS waiting USING (pandaid)
WHERE job.jobstatus = 'activated' AND job.computingsite IS NOT NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 ORDER BY 1, 2, 3, 4, 5"""
_READ_FLAG = """
SELECT value FROM {panda}.config WHERE component = 'meanrss' AND key = 'IGNORE_MEANRSS' ORDER BY app, vo LIMIT 1"""
_INSERT_DEMAND = """
INSERT INTO {broker}.pilot_demand (panda_queue, resource_type, position, counted_at, algorithm, jobs, fitting, misfits,
    waiting, running, wanted, surplus, reason, reason_limit)
VALUES (:queue, :resource_type, :position, :now, :algorithm, :jobs, :fitting, CAST(:misfits AS jsonb), :waiting,
    :running, :wanted, :surplus, :reason, :limit)"""
_READ_DEMAND = """
SELECT panda_queue, counted_at, algorithm, resource_type, jobs, fitting, misfits, waiting, running, wanted, surplus,
    reason, reason_limit
FROM {broker}.pilot_demand WHERE CAST(:queue AS text) IS NULL OR panda_queue = :queue ORDER BY panda_queue, position"""
_REMOVE_COMMAND = "DELETE FROM {broker}.harvester_commands WHERE harvester_id = :harvester AND command = :command"
_INSERT_COMMAND = """
INSERT INTO {broker}.harvester_commands (creation_date, status_date, command, params, ack_requested, status,
    harvester_id)
VALUES (:now, :now, :command, CAST(:params AS jsonb), 0, 'new', :harvester)"""
_TAKE_COMMANDS = """
WITH taken AS MATERIALIZED (
    SELECT command_id FROM {broker}.harvester_commands WHERE harvester_id = :harvester AND status = 'new'
    ORDER BY creation_date, command_id LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE {broker}.harvester_commands AS one SET status = 'retrieved', status_date = :now
FROM taken WHERE one.command_id = taken.command_id
RETURNING one.command_id, one.command, one.params, one.ack_requested, one.creation_date"""
_ACKNOWLEDGE = """
UPDATE {broker}.harvester_commands SET status = 'acknowledged', status_date = :now
WHERE command_id = ANY(:commands) AND status <> 'new'
RETURNING command_id"""


@dataclass(frozen=True)
class WorkersAtQueue:
    """The workers that Harvester instances have reported at a queue.

    Attributes:
        by_instance: workers by instance and resource type, of reports that still count.
        is_stale: whether there are reports, but all are too old.
    """

    by_instance: Mapping[str, Mapping[str, Workers]]
    is_stale: bool

    def total(self) -> dict[str, Workers] | None:
        """Workers by resource type; None where all reports are too old."""
        if self.is_stale:
            return None
        totals: dict[str, Workers] = {}
        for types in self.by_instance.values():
            for name, workers in types.items():
                before = totals.get(name, Workers())
                totals[name] = Workers(
                    before.running + workers.running,
                    before.submitted + workers.submitted,
                    before.ready + workers.ready,
                    before.to_submit + workers.to_submit,
                )
        return totals


class DemandRow(ResponseModel):
    """Pilots of one resource type that a queue could use, as last counted.

    Attributes:
        panda_queue: name of the PanDA queue.
        counted_at: time of the count.
        algorithm: own or panda.
        demand: the numbers and their reasons.
    """

    panda_queue: str
    counted_at: datetime
    algorithm: str
    demand: Demand


def read_queues(connection: sa.Connection, names: Names) -> dict[str, Mapping[str, Any]]:
    """The settings of all queues, by name; empty where the settings of a queue are no object."""
    rows = connection.execute(sa.text(names.sql(_READ_QUEUES)))
    return {row.queue: row.data if isinstance(row.data, dict) else {} for row in rows}


def read_types(connection: sa.Connection, names: Names) -> dict[str, SlotType]:
    """The resource types, by name."""
    return {row[0]: SlotType(*row[1:]) for row in connection.execute(sa.text(names.sql(_READ_TYPES)))}


def read_workers(connection: sa.Connection, names: Names, now: datetime) -> dict[str, WorkersAtQueue]:
    """The reported workers of each queue that ever had a report; ``now`` is aware."""
    oldest = naive(now) - WORKER_VALIDITY
    counts: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for row in connection.execute(sa.text(names.sql(_READ_WORKERS))):
        instances = counts.setdefault(row.queue, {})
        if row.newest is not None and row.newest > oldest:
            instances.setdefault(row.harvester_id, {}).setdefault(row.resourcetype, {})[row.status] = row.number or 0
    return {queue: WorkersAtQueue(_workers(instances), not instances) for queue, instances in counts.items()}


def read_starts(connection: sa.Connection, names: Names, now: datetime) -> dict[str, Starts]:
    """The starts of pilots in the last hours, by queue; ``now`` is aware."""
    stamp = naive(now)
    values = {"now": stamp, "since": stamp - STARTS_WINDOW}
    rows = connection.execute(sa.text(names.sql(_READ_STARTS)), values)
    return {row.queue: Starts(row.number, STARTS_WINDOW.total_seconds(), row.p80) for row in rows}


def read_share_order(
    connection: sa.Connection, catalogue: TableCatalogue, queues: Mapping[str, QueueAbout]
) -> tuple[dict[str, int], tuple[DroppedRow, ...]]:
    """The rank of each share, 0 for the one furthest below its target; and rows that could not be used."""
    dropped: list[DroppedRow] = []
    nodes = [ShareNode(*value) for value in share_values(read_share_rows(connection, catalogue), dropped)]
    counts, _ = read_share_counts(connection, catalogue, "live")
    order = leaves_below_target(nodes, share_loads(counts, queues))
    return {name: place for place, name in enumerate(order)}, tuple(dropped)


def ignores_meanrss(connection: sa.Connection, names: Names) -> bool:
    """Whether the mean memory of queues is currently ignored."""
    value = connection.scalar(sa.text(names.sql(_READ_FLAG)))
    return str(value).strip().lower() == "true"


def read_groups(connection: sa.Connection, names: Names) -> dict[str, list[Any]]:
    """The activated jobs in groups of equal needs, by queue."""
    groups: dict[str, list[Any]] = {}
    for row in connection.execute(sa.text(names.sql(_READ_GROUPS)), {"undefined": UNDEFINED}):
        groups.setdefault(row.queue, []).append(row)
    return groups


def waiting_jobs(
    connection: sa.Connection,
    names: Names,
    queue: tuple[str, Slot],
    groups: Sequence[Any],
    ranks: Mapping[str, int],
    now: datetime,
) -> WaitingJobs:
    """The groups of a queue with what a new pilot of it lacks for each.

    Args:
        connection: connection to read the task queues at the place.
        names: names of the schemas.
        queue: its name, and the slot of its pilots.
        groups: groups of its jobs, see :func:`read_groups`.
        ranks: place of each share; one that is not on record comes last.
        now: aware.
    """
    name, slot = queue
    limits = (int(slot.memory_mb), int(slot.disk_mb), int(slot.walltime_s))
    about = read_queue(connection, names, JobRequest(name))
    request = JobRequest(name, "unified", *limits).at_queue_in(about.status)
    pilot = presented(request, about)
    raw = Database.raw(connection)
    with raw.cursor(row_factory=tuple_row) as cursor:
        lacking = _lacking(read_view(cursor, pilot, now), pilot)
    conditions = conditions_of(request)
    return WaitingJobs(
        resource_type=_texts(group.resource_type for group in groups),
        share_rank=_numbers(ranks.get(group.gshare, len(ranks)) for group in groups),
        priority=_numbers(group.priority for group in groups),
        cores=_numbers(group.cores for group in groups),
        memory_mb=_numbers(group.memory_mb for group in groups),
        walltime_s=_numbers(group.walltime_s for group in groups),
        disk_mb=_numbers(group.disk_mb for group in groups),
        lacks=_texts(_lack(group, lacking, pilot, conditions) for group in groups),
        number=_numbers(group.number for group in groups),
    )


def types_in_order(groups: Sequence[Any], ranks: Mapping[str, int]) -> list[str]:
    """The resource type of each activated job of a queue, share by share and by priority; other shares do not count."""
    known = [group for group in groups if group.gshare in ranks]
    ordered = sorted(known, key=lambda group: (ranks[group.gshare], -group.priority))
    return [group.resource_type for group in ordered for _ in range(group.number)]


def write_demand(
    connection: sa.Connection, names: Names, by_queue: Mapping[str, Sequence[Demand]], algorithm: str, now: datetime
) -> int:
    """Replace the stored demand of all queues; return the number of rows."""
    connection.execute(sa.text(names.sql("DELETE FROM {broker}.pilot_demand")))
    rows = [
        {
            "queue": queue, "resource_type": one.resource_type, "position": position, "now": now,
            "algorithm": algorithm, "jobs": one.jobs, "fitting": one.fitting, "misfits": json.dumps(dict(one.misfits)),
            "waiting": one.waiting, "running": one.running, "wanted": one.wanted, "surplus": one.surplus,
            "reason": one.reason, "limit": one.limit,
        }
        for queue, demands in by_queue.items()
        for position, one in enumerate(demands)
    ]  # fmt: skip
    if rows:
        connection.execute(sa.text(names.sql(_INSERT_DEMAND)), rows)
    return len(rows)


def read_demand(connection: sa.Connection, names: Names, queue: str | None = None) -> list[DemandRow]:
    """The demand of a queue, or of all."""
    rows = connection.execute(sa.text(names.sql(_READ_DEMAND)), {"queue": queue})
    return [DemandRow(**dict(zip(DemandRow.model_fields, (*row[:3], Demand(*row[3:])), strict=True))) for row in rows]


def command_workers(
    connection: sa.Connection, names: Names, commands: Iterable[tuple[str, str, Mapping[str, int]]], now: datetime
) -> int:
    """Command instances to submit new workers at a queue, by resource type; return the number of commands.

    Args:
        connection: connection in a transaction.
        names: names of the schemas.
        commands: instance, queue, and new workers by resource type.
        now: aware.
    """
    stamp = naive(now)
    rows = [
        {
            "harvester": harvester,
            "command": f"{STREAM}:{queue}",
            "params": json.dumps({JOB_TYPE: dict(numbers)}),
            "now": stamp,
        }
        for harvester, queue, numbers in commands
    ]
    if rows:
        connection.execute(sa.text(names.sql(_REMOVE_COMMAND)), rows)
        connection.execute(sa.text(names.sql(_INSERT_COMMAND)), rows)
    return len(rows)


def take_commands(
    connection: sa.Connection, names: Names, harvester: str, most: int, now: datetime
) -> list[dict[str, Any]]:
    """Take the oldest new commands of an instance and mark them as retrieved: no two callers get the same one."""
    values = {"harvester": harvester, "most": most, "now": naive(now)}
    rows = connection.execute(sa.text(names.sql(_TAKE_COMMANDS)), values).mappings()
    ordered = sorted((dict(row) for row in rows), key=lambda command: (command["creation_date"], command["command_id"]))
    return [{**command, "creation_date": command["creation_date"].isoformat()} for command in ordered]


def acknowledge(connection: sa.Connection, names: Names, commands: Sequence[int], now: datetime) -> list[int]:
    """Acknowledge carried-out commands, except those that nobody has retrieved; return the acknowledged numbers."""
    values = {"commands": list(commands), "now": naive(now)}
    return sorted(row[0] for row in connection.execute(sa.text(names.sql(_ACKNOWLEDGE)), values))


def _workers(instances: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, Workers]]:
    statuses = tuple(Workers.__dataclass_fields__)
    return {
        harvester: {
            name: Workers(**{status: number for status, number in counts.items() if status in statuses})
            for name, counts in types.items()
        }
        for harvester, types in instances.items()
    }


def _lacking(view: View, pilot: Pilot) -> dict[int, str]:
    """What the pilot lacks for the jobs of each task queue at its place; empty for those that it matches."""
    reasons = view.reasons(pilot)
    return {
        int(number): "" if reason == MATCHES else FIELDS[reason]
        for number, reason in zip(view.queues.id.tolist(), reasons.tolist(), strict=True)
    }


def _lack(group: Any, lacking: Mapping[int, str], pilot: Pilot, conditions: JobConditions) -> str:
    is_of_type = conditions.processing_type is not None and group.processingtype == conditions.processing_type
    if conditions.labels is not None and group.label not in conditions.labels and not is_of_type:
        return "label"
    # a job that was activated a moment ago is in no task queue yet
    lack = lacking.get(group.task_queue, "") if group.task_queue is not None else ""
    return "cpu_time" if not lack and group.cputime_s > (pilot.cputime_s or 0) else lack


def _numbers(values: Iterable[int]) -> Any:
    return np.array(list(values), dtype=np.int64)


def _texts(values: Iterable[str]) -> Any:
    listed = list(values)
    column = np.empty(len(listed), dtype=np.object_)
    column[:] = listed
    return column
