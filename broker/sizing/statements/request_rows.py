"""Tasks whose requests are due for evaluation, their jobs as columns, and the stored results.

Source: panda-server, ``task_utils_module`` (getScoutJobData_JEDI, setScoutJobData_JEDI).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Floats
from broker.domain.instants import naive
from broker.domain.memory_prior import UsedMemory
from broker.domain.quantiles import LearnedQuantile
from broker.domain.sizing_values import FIRST_JOBS, LAST_JOBS
from broker.sizing.model.requests import Change
from broker.sizing.model.scout_values import DEFAULT_CORE_POWER, EndedJobs, TaskRequest, sample
from broker.store.connection.tables import Names, TableCatalogue

#: Columns of a task that may be changed.
COLUMNS = (
    "ramcount", "ramunit", "cputime", "cputimeunit", "walltime", "walltimeunit", "outdiskcount", "outdiskunit",
    "workdiskcount", "workdiskunit", "iointensity", "iointensityunit", "diskio", "diskiounit",
)  # fmt: skip
_INPUT = "('input', 'pseudo_input', 'pp_input', 'trn_log', 'trn_output')"
# the counters tell whether a task may be due without reading jobs
_DUE = """
SELECT task.jeditaskid FROM {panda}.jedi_tasks AS task
LEFT JOIN broker.request_learned AS known USING (jeditaskid)
JOIN LATERAL (
    SELECT coalesce(sum(nfilesfinished), 0) AS files FROM {panda}.jedi_datasets AS dataset
    WHERE dataset.jeditaskid = task.jeditaskid AND dataset.masterid IS NULL AND dataset.type IN INPUT
) AS done ON true
WHERE task.status IN ('ready', 'running', 'scouting', 'scouted', 'pending')
  AND (CAST(:tasks AS bigint[]) IS NULL OR task.jeditaskid = ANY(CAST(:tasks AS bigint[])))
  AND done.files >= :first
  AND (known.jeditaskid IS NULL OR (task.walltimeunit IS NULL AND done.files > known.finished)
       OR (known.finished < :last AND done.files >= 2 * known.finished))
ORDER BY known.evaluated_at NULLS FIRST, task.jeditaskid LIMIT :most""".replace("INPUT", _INPUT)
_NEW = """
SELECT task.jeditaskid FROM {panda}.jedi_tasks AS task
WHERE task.status IN ('ready', 'scouting', 'pending') AND task.creationdate > :since
  AND (CAST(:tasks AS bigint[]) IS NULL OR task.jeditaskid = ANY(CAST(:tasks AS bigint[])))
  AND NOT EXISTS (SELECT FROM broker.request_learned AS known WHERE known.jeditaskid = task.jeditaskid)
  AND NOT EXISTS (SELECT FROM broker.request_changes AS change WHERE change.jeditaskid = task.jeditaskid)
ORDER BY task.jeditaskid DESC LIMIT :most"""
_TASK = f"""
SELECT jeditaskid, {", ".join(COLUMNS)}, coalesce(baseramcount, 0) AS baseramcount, cpuefficiency, basewalltime,
    coalesce(processingtype, '') AS processingtype, coalesce(transpath, '') AS transformation,
    concat_ws('/', transuses, transhome) AS release, coalesce(nullif(corecount, 0), 1) AS cores
FROM {{panda}}.jedi_tasks WHERE jeditaskid = :task FOR NO KEY UPDATE SKIP LOCKED"""  # noqa: S608 - constants
_FINISHED = """
SELECT pandaid FROM {panda}.jobsarchived4 WHERE jeditaskid = :task AND jobstatus = 'finished'
  AND transformation IS DISTINCT FROM 'build'"""
_JOBS = """
SELECT job.pandaid, coalesce(nullif(job.actualcorecount, 0), nullif(job.corecount, 0), 1) AS cores, job.maxpss,
    substring(job.jobmetrics FROM 'vmPeakMax=([0-9]+)')::double precision AS vmpeak,
    CASE WHEN job.starttime > '1970-01-01' THEN extract(epoch FROM job.endtime - job.starttime) END AS wall_s,
    job.cpuconsumptiontime, CASE WHEN queue.data->>'corepower' ~ '^[0-9]+([.][0-9]+)?$'
        THEN (queue.data->>'corepower')::double precision END AS core_power,
    input.mb, input.events, input.is_pseudo, job.outputfilebytes,
    substring(job.jobmetrics FROM 'workDirSize=([0-9]+)')::double precision / 1048576 AS workdir_mb,
    job.totrbytes + job.totwbytes AS disk_io
FROM {panda}.jobsarchived4 AS job
LEFT JOIN {panda}.schedconfig_json AS queue ON queue.panda_queue = job.computingsite
JOIN LATERAL (
    SELECT sum(CASE WHEN coalesce(file.fsize, 0) = 0 THEN 1.0
            WHEN file.nevents > 0 AND file.startevent IS NOT NULL AND file.endevent IS NOT NULL
            THEN coalesce(nullif(trunc(file.fsize::double precision * (file.endevent - file.startevent + 1)
                / file.nevents), 0) / 1048576, 1.0)
            ELSE file.fsize / 1048576.0 END) AS mb,
        sum(CASE WHEN file.startevent IS NOT NULL AND file.endevent IS NOT NULL
            THEN greatest(file.endevent - file.startevent + 1, 1) ELSE coalesce(file.nevents, 1) END) AS events,
        bool_or(file.type = 'pseudo_input') AS is_pseudo
    FROM {panda}.filestable4 AS record
    JOIN {panda}.jedi_dataset_contents AS file USING (jeditaskid, datasetid, fileid)
    JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid, datasetid)
    WHERE record.pandaid = job.pandaid AND dataset.masterid IS NULL AND file.type IN INPUT
) AS input ON input.mb IS NOT NULL
WHERE job.pandaid = ANY(:jobs) ORDER BY job.pandaid""".replace("INPUT", _INPUT)
# killed for memory: by the pilot, the kernel, or the payload's own allocation; see the error classes
_KILLED = """
SELECT coalesce(nullif(actualcorecount, 0), nullif(corecount, 0), 1) AS cores, greatest(maxpss, maxrss) AS kb
FROM {panda}.jobsarchived4
WHERE jeditaskid = :task AND jobstatus = 'failed' AND greatest(maxpss, maxrss) > 0
  AND (piloterrorcode IN (1212, 1223, 1235) OR transexitcode = '137')
ORDER BY pandaid LIMIT :most"""
_ASKS_OF_KIND = """
SELECT ask_mb FROM broker.request_learned
WHERE (processingtype, transformation, release, cores) = (:processingtype, :transformation, :release, :cores)
  AND ask_mb IS NOT NULL AND ramunit IS NOT DISTINCT FROM :ramunit AND evaluated_at > :since
  AND jeditaskid <> :task
ORDER BY evaluated_at DESC LIMIT 200"""
_USED_OF_KIND = """
SELECT used_jobs, used_ln_sum, used_ln_square_sum, transformation = :transformation AND release = :release AS of_kind
FROM broker.request_learned
WHERE processingtype = :processingtype AND cores = :cores AND used_jobs > 0 AND ramunit IS NOT DISTINCT FROM :ramunit
  AND evaluated_at > :since AND jeditaskid <> :task
ORDER BY of_kind DESC NULLS LAST, evaluated_at DESC, jeditaskid LIMIT 1000"""
_KEEP = """
INSERT INTO broker.request_learned (jeditaskid, evaluated_at, processingtype, transformation, release, cores, ramunit,
    finished, killed, scouts, p50_mb, ask_mb, low_mb, high_mb, unknown, used_jobs, used_ln_sum, used_ln_square_sum)
VALUES (:task, :now, :processingtype, :transformation, :release, :cores, :ramunit, :finished, :killed,
    CAST(:scouts AS jsonb), :p50, :ask, :low, :high, :unknown, :used_jobs, :used_ln_sum, :used_ln_square_sum)
ON CONFLICT (jeditaskid) DO UPDATE SET evaluated_at = excluded.evaluated_at, ramunit = excluded.ramunit,
    finished = excluded.finished, killed = excluded.killed, scouts = excluded.scouts, p50_mb = excluded.p50_mb,
    ask_mb = excluded.ask_mb, low_mb = excluded.low_mb, high_mb = excluded.high_mb, unknown = excluded.unknown,
    used_jobs = excluded.used_jobs, used_ln_sum = excluded.used_ln_sum,
    used_ln_square_sum = excluded.used_ln_square_sum"""
_RECORD = """
INSERT INTO broker.request_changes (changed_at, agent_run, jeditaskid, source, active, before, after, reason)
VALUES (:now, :run, :task, :source, :active, CAST(:before AS jsonb), CAST(:after AS jsonb), :reason)"""


@dataclass(frozen=True)
class SizedTask:
    """A task and its requests, locked until the end of the transaction; ``row``: its columns."""

    jeditaskid: int
    row: Mapping[str, Any]

    @property
    def request(self) -> TaskRequest:
        """The figures that the formulae need."""
        return TaskRequest(
            self.row["ramunit"], self.row["baseramcount"], self.row["cputimeunit"], self.row["cpuefficiency"],
            self.row["basewalltime"], self.row["walltime"], self.row["outdiskunit"], self.row["workdiskcount"],
        )  # fmt: skip

    @property
    def kind(self) -> dict[str, Any]:
        """The columns that tasks of the same kind have in common."""
        return {name: self.row[name] for name in ("processingtype", "transformation", "release", "cores")}


def due_tasks(connection: sa.Connection, names: Names, most: int, tasks: Sequence[int] | None) -> list[int]:
    """Active tasks that may be due according to their counters."""
    parameters = {"most": most, "tasks": None if tasks is None else list(tasks), "first": FIRST_JOBS, "last": LAST_JOBS}
    return list(connection.scalars(sa.text(names.sql(_DUE)), parameters))


def new_tasks(
    connection: sa.Connection, names: Names, most: int, tasks: Sequence[int] | None, since: datetime
) -> list[int]:
    """Tasks created since an instant (aware) about which nothing is known yet."""
    parameters = {"most": most, "tasks": None if tasks is None else list(tasks), "since": naive(since)}
    return list(connection.scalars(sa.text(names.sql(_NEW)), parameters))


def lock_task(connection: sa.Connection, names: Names, jeditaskid: int) -> SizedTask | None:
    """Lock a task; None if it does not exist or another transaction holds it."""
    row = connection.execute(sa.text(names.sql(_TASK)), {"task": jeditaskid}).mappings().one_or_none()
    return None if row is None else SizedTask(jeditaskid, {str(name): value for name, value in row.items()})


def read_task(connection: sa.Connection, names: Names, jeditaskid: int) -> SizedTask | None:
    """Read a task without a lock."""
    query = names.sql(_TASK).replace("FOR NO KEY UPDATE SKIP LOCKED", "")
    row = connection.execute(sa.text(query), {"task": jeditaskid}).mappings().one_or_none()
    return None if row is None else SizedTask(jeditaskid, {str(name): value for name, value in row.items()})


def read_shown(connection: sa.Connection, catalogue: TableCatalogue, jeditaskid: int) -> dict[str, Any] | None:
    """The requests, name, status and cores of a task, also from PanDA's own tables; None if there is no such task."""
    columns = ("jeditaskid", "taskname", "status", "corecount", *COLUMNS)
    query = f"SELECT * FROM {catalogue.source('jedi_tasks', columns)} AS task WHERE jeditaskid = :task"  # noqa: S608
    row = connection.execute(sa.text(query), {"task": jeditaskid}).mappings().one_or_none()
    return None if row is None else {str(name): value for name, value in row.items()}


def read_ended(connection: sa.Connection, names: Names, jeditaskid: int) -> tuple[int, EndedJobs]:
    """The number of finished jobs of a task, and at most 1000 of them as columns."""
    finished = list(connection.scalars(sa.text(names.sql(_FINISHED)), {"task": jeditaskid}))
    rows = connection.execute(sa.text(names.sql(_JOBS)), {"jobs": sample(finished)}).mappings().all()

    def column(name: str, default: float = math.nan) -> Floats:
        return np.array([default if row[name] is None else float(row[name]) for row in rows], dtype=np.float64)

    power = column("core_power", DEFAULT_CORE_POWER)
    return len(finished), EndedJobs(
        np.array([row["pandaid"] for row in rows], dtype=np.int64), column("cores", 1.0), column("maxpss", 0.0),
        column("vmpeak"), column("wall_s"), column("cpuconsumptiontime"),
        np.where(power == 0, DEFAULT_CORE_POWER, power), column("mb"), column("events"), column("outputfilebytes"),
        column("workdir_mb"), column("disk_io"), np.array([bool(row["is_pseudo"]) for row in rows], dtype=np.bool_),
    )  # fmt: skip


def read_killed(connection: sa.Connection, names: Names, task: SizedTask) -> Floats:
    """(k,) kB used by jobs of a task that were killed for their memory, in the unit of the task."""
    rows = connection.execute(sa.text(names.sql(_KILLED)), {"task": task.jeditaskid, "most": LAST_JOBS}).all()
    whole = np.array([float(row.kb) for row in rows], dtype=np.float64)
    if task.row["ramunit"] != "MBPerCore":
        return whole
    cores = np.array([float(row.cores) for row in rows], dtype=np.float64)
    return np.asarray((whole - 1024.0 * task.row["baseramcount"]) / cores)


def asks_of_kind(connection: sa.Connection, task: SizedTask, now: datetime, days: float) -> list[float]:
    """Memory in MB that tasks of the same kind needed within ``days``, newest first."""
    parameters = {
        **task.kind,
        "ramunit": task.row["ramunit"],
        "task": task.jeditaskid,
        "since": now - timedelta(days=days),
    }
    return list(connection.scalars(sa.text(_ASKS_OF_KIND), parameters))


def used_of_kind(
    connection: sa.Connection, task: SizedTask, now: datetime, days: float
) -> tuple[list[UsedMemory], list[UsedMemory]]:
    """Memory used by jobs within ``days``, newest first: of the task's kind, and of its processing type and cores."""
    parameters = {
        **task.kind,
        "ramunit": task.row["ramunit"],
        "task": task.jeditaskid,
        "since": now - timedelta(days=days),
    }
    rows = [(row[3], UsedMemory(*row[:3])) for row in connection.execute(sa.text(_USED_OF_KIND), parameters)]
    return [used for of_kind, used in rows if of_kind], [used for _, used in rows]


def keep(
    connection: sa.Connection,
    task: SizedTask,
    finished: int,
    scouts: Mapping[str, Any],
    learned: LearnedQuantile,
    used: UsedMemory,
    now: datetime,
) -> None:
    """Store what was learned about a task."""
    values = {
        **task.kind, "task": task.jeditaskid, "now": now, "ramunit": task.row["ramunit"], "finished": finished,
        "killed": learned.killed, "scouts": json.dumps(dict(scouts)), "p50": _known(learned.p50),
        "ask": _known(learned.ask), "low": _known(learned.low), "high": _known(learned.high),
        "unknown": learned.reason, "used_jobs": used.jobs, "used_ln_sum": used.ln_sum,
        "used_ln_square_sum": used.ln_square_sum,
    }  # fmt: skip
    connection.execute(sa.text(_KEEP), values)


def change_task(
    connection: sa.Connection,
    names: Names,
    task: SizedTask,
    change: Change,
    run: int | None,
    now: datetime,
    active: bool,
) -> None:
    """Change the requests of a locked task and record the change; if not ``active``, only record it."""
    values = {
        "now": now, "run": run, "task": task.jeditaskid, "source": change.source, "active": active,
        "before": json.dumps(dict(change.before)), "after": json.dumps(dict(change.after)), "reason": change.reason,
    }  # fmt: skip
    connection.execute(sa.text(_RECORD), values)
    if active:
        columns = [name for name in COLUMNS if name in change.after]
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        if "ramcount" in change.after:
            assignments += ", resource_type = NULL"  # recomputed when the jobs are brokered
        statement = f"UPDATE {{panda}}.jedi_tasks SET {assignments}, modificationtime = :at WHERE jeditaskid = :task"  # noqa: S608 - names of COLUMNS
        parameters = {**change.after, "task": task.jeditaskid, "at": naive(now)}
        connection.execute(sa.text(names.sql(statement)), parameters)


def _known(value: float) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else value


_READ_LEARNED = "SELECT * FROM broker.request_learned WHERE jeditaskid = :task"
_READ_CHANGES = """
SELECT changed_at, source, active, before, after, reason FROM broker.request_changes
WHERE jeditaskid = :task AND changed_at <= :now ORDER BY id"""


def read_learned(connection: sa.Connection, jeditaskid: int) -> dict[str, Any] | None:
    """What was learned about a task; None before its first evaluation."""
    row = connection.execute(sa.text(_READ_LEARNED), {"task": jeditaskid}).mappings().one_or_none()
    return None if row is None else {str(name): value for name, value in row.items()}


def read_changes(connection: sa.Connection, jeditaskid: int, now: datetime) -> list[dict[str, Any]]:
    """The recorded changes of the requests of a task, oldest first."""
    rows = connection.execute(sa.text(_READ_CHANGES), {"task": jeditaskid, "now": now}).mappings()
    return [{str(name): value for name, value in row.items()} for row in rows]
