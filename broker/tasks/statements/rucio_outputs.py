"""The outbox of outputs for Rucio: datasets that are taken on, files that jobs have written, and their outcomes.

See the tables ``broker.rucio_datasets`` and ``broker.rucio_files``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import Names
from broker.tasks.model.output_registration import OutputFile, Problem
from broker.tasks.model.verbs import ENDED

# Tasks at work, and those that ended a short while ago: the jobs of the others wrote before outputs were registered.
_READ_NEW = """
SELECT dataset.jeditaskid, dataset.datasetid, dataset.datasetname, dataset.containername, output.scope
FROM {panda}.jedi_tasks AS task
JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid)
JOIN LATERAL (
    SELECT one.scope FROM broker.task_outputs AS one
    WHERE one.jeditaskid = dataset.jeditaskid AND one.datasetid = dataset.datasetid ORDER BY one.position LIMIT 1
) AS output ON true
WHERE dataset.type = ANY(:types)
  AND (task.status <> ALL(:ended) OR task.statechangetime >= :since)
  AND (CAST(:tasks AS bigint[]) IS NULL OR task.jeditaskid = ANY(CAST(:tasks AS bigint[])))
  AND NOT EXISTS (SELECT FROM broker.rucio_datasets AS known
                  WHERE known.jeditaskid = dataset.jeditaskid AND known.datasetid = dataset.datasetid)
ORDER BY dataset.jeditaskid, dataset.datasetid LIMIT :most"""
_INSERT_DATASET = """
INSERT INTO broker.rucio_datasets (jeditaskid, datasetid, site, scope, name, container_scope, container_name, state,
    next_try_at)
VALUES (:task, :dataset, '', :scope, :name, :container_scope, :container_name, :state, :now) ON CONFLICT DO NOTHING"""
OF_NUCLEUS = "nucleus:"
# Files of datasets that were taken on; each is queued once. The endpoint is the one that the pilot was given: that of
# the file, or the one to which its queue writes by default.
_QUEUE = """
WITH endpoints AS MATERIALIZED (
    SELECT DISTINCT ON (panda_site_name) panda_site_name, ddm_endpoint_name FROM {panda}.panda_ddm_relation
    WHERE default_write = 'Y' AND roles LIKE '%write_lan%'
    ORDER BY panda_site_name, scope <> 'default', ddm_endpoint_name
), written AS (
    SELECT file.*, known.state = 'template' AS goes_by_site, job.computingsite AS queue,
        coalesce(record.destinationse, endpoints.ddm_endpoint_name) AS rse
    FROM {panda}.jedi_dataset_contents AS file
    JOIN broker.rucio_datasets AS known
        ON known.jeditaskid = file.jeditaskid AND known.datasetid = file.datasetid AND known.site = ''
    LEFT JOIN {panda}.jobsarchived4 AS job ON job.pandaid = file.pandaid
    LEFT JOIN {panda}.filestable4 AS record
        ON record.pandaid = file.pandaid AND record.datasetid = file.datasetid AND record.fileid = file.fileid
    LEFT JOIN endpoints ON endpoints.panda_site_name = job.computingsite
    WHERE file.status = 'finished' AND file.type IN ('output', 'log') AND WHICH
)
INSERT INTO broker.rucio_files (jeditaskid, datasetid, fileid, site, pandaid, scope, lfn, rse, fsize, checksum, guid,
    nevents, queued_at)
SELECT jeditaskid, datasetid, fileid, CASE WHEN goes_by_site THEN coalesce(queue, '') ELSE '' END, pandaid, scope, lfn,
    rse, fsize, checksum, guid, nevents, :now
FROM written ON CONFLICT DO NOTHING"""
# A dataset of its own for each site whose jobs have written into a container.
_INSERT_SITES = """
INSERT INTO broker.rucio_datasets (jeditaskid, datasetid, site, scope, name, container_scope, container_name, state,
    next_try_at)
SELECT template.jeditaskid, template.datasetid, found.site, template.scope,
    template.name || '.' || nextval('{panda}.jedi_datasets_id_seq'), template.container_scope, template.container_name,
    'planned', :now
FROM broker.rucio_datasets AS template
JOIN LATERAL (
    SELECT DISTINCT file.site FROM broker.rucio_files AS file
    WHERE file.jeditaskid = template.jeditaskid AND file.datasetid = template.datasetid AND file.state = 'queued'
) AS found ON found.site <> ''
WHERE template.state = 'template' AND NOT EXISTS (
    SELECT FROM broker.rucio_datasets AS known
    WHERE known.jeditaskid = template.jeditaskid AND known.datasetid = template.datasetid AND known.site = found.site)
ON CONFLICT DO NOTHING"""
# Work: files that are queued, or a dataset to be closed because its task has ended. A template is never work itself;
# only its files without a site are.
_READ_WORK = """
SELECT known.*, task.status AS task_status, task.vo, task.prodsourcelabel AS label, task.nucleus, task.username,
    dataset.type, dataset.destination,
    coalesce(task.statechangetime AT TIME ZONE 'UTC' > known.closed_at, false) AS ended_again,
    (SELECT relation.ddm_endpoint_name FROM {panda}.panda_ddm_relation AS relation
     JOIN {panda}.ddm_endpoint AS endpoint USING (ddm_endpoint_name)
     WHERE endpoint.site_name = task.nucleus AND relation.default_write = 'Y' AND relation.roles LIKE '%write_lan%'
     ORDER BY relation.scope <> 'default', 1 LIMIT 1) AS nucleus_rse
FROM broker.rucio_datasets AS known
JOIN {panda}.jedi_tasks AS task ON task.jeditaskid = known.jeditaskid
JOIN {panda}.jedi_datasets AS dataset ON dataset.jeditaskid = known.jeditaskid AND dataset.datasetid = known.datasetid
WHERE (known.next_try_at <= :now OR :at_once)
  AND (CAST(:tasks AS bigint[]) IS NULL OR known.jeditaskid = ANY(CAST(:tasks AS bigint[])))
  AND (known.state IN ('planned', 'open') AND task.status = ANY(:ended)
       OR EXISTS (SELECT FROM broker.rucio_files AS file
                  WHERE file.jeditaskid = known.jeditaskid AND file.datasetid = known.datasetid
                    AND file.site = known.site AND file.state = 'queued'))
ORDER BY known.next_try_at, known.jeditaskid, known.datasetid, known.site LIMIT :most"""
_READ_QUEUED = """
SELECT lfn, scope, fsize, nevents, checksum, guid, fileid, pandaid, rse FROM broker.rucio_files
WHERE jeditaskid = :task AND datasetid = :dataset AND site = :site AND state = 'queued'
ORDER BY fileid LIMIT :most"""
_MARK = """
UPDATE broker.rucio_files AS file
SET state = given.state, reason_code = given.code, reason = given.reason, done_at = :now
FROM unnest(CAST(:files AS bigint[]), CAST(:states AS text[]), CAST(:codes AS text[]), CAST(:reasons AS text[]))
    AS given (fileid, state, code, reason)
WHERE file.jeditaskid = :task AND file.datasetid = :dataset AND file.fileid = given.fileid AND file.state = 'queued'"""
_SET_STATE = """
UPDATE broker.rucio_datasets SET state = :state, failures = 0, reason_code = NULL, reason = NULL, next_try_at = :now,
    made_at = CASE WHEN :state = 'open' THEN coalesce(made_at, :now) ELSE made_at END,
    closed_at = CASE WHEN :state IN ('closed', 'empty') THEN CAST(:now AS timestamptz) END, files = :files,
    bytes = :bytes
WHERE jeditaskid = :task AND datasetid = :dataset AND site = :site"""
_POSTPONE = """
UPDATE broker.rucio_datasets SET failures = failures + 1, reason_code = :code, reason = :reason, next_try_at = :next
WHERE jeditaskid = :task AND datasetid = :dataset AND site = :site"""
_SETTLE = """
UPDATE broker.rucio_datasets SET failures = 0, reason_code = NULL, reason = NULL, next_try_at = :now
WHERE jeditaskid = :task AND datasetid = :dataset AND site = :site AND failures > 0"""
_READ_SUMS = """
SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'refused') AS refused,
    count(*) FILTER (WHERE state = 'registered') AS registered,
    coalesce(sum(fsize) FILTER (WHERE state = 'registered'), 0)::bigint AS bytes
FROM broker.rucio_files WHERE jeditaskid = :task AND datasetid = :dataset AND site = :site"""


@dataclass(frozen=True)
class NewDataset:
    """A dataset of a task that was not taken on yet."""

    jeditaskid: int
    datasetid: int
    datasetname: str
    containername: str | None
    scope: str


@dataclass(frozen=True)
class PlannedDataset:
    """The names of such a dataset at Rucio; ``by_site``: each site has one of its own, and this is the template."""

    jeditaskid: int
    datasetid: int
    did: tuple[str, str]
    container: tuple[str, str] | None
    by_site: bool


@dataclass(frozen=True)
class Work:
    """A dataset with files to be registered, or to be closed.

    Attributes:
        key: task, dataset and site.
        did: its name at Rucio.
        container: the container that it belongs to.
        state: see the table.
        failures: failed tries in a row.
        has_ended: whether its task has ended.
        ended_again: it was started again, and ended, since the dataset was closed.
        type: output or log.
        destination: endpoint that the task names, or to which its nucleus writes by default.
        facts: values of the task for templates: nucleus, vo, label, task, user.
    """

    key: tuple[int, int, str]
    did: tuple[str, str]
    container: tuple[str, str] | None
    state: str
    failures: int
    has_ended: bool
    ended_again: bool
    type: str
    destination: str | None
    facts: dict[str, str]


@dataclass(frozen=True)
class Sums:
    """Files of a dataset by state, and the bytes of those that are registered."""

    queued: int
    refused: int
    registered: int
    bytes: int


def new_datasets(
    connection: sa.Connection,
    names: Names,
    types: Sequence[str],
    since: datetime,
    most: int,
    tasks: Sequence[int] | None = None,
) -> list[NewDataset]:
    """Datasets to be taken on, of tasks at work or ended since ``since`` (naive UTC)."""
    values = {"types": list(types), "ended": list(ENDED), "since": since, "most": most}
    values["tasks"] = None if tasks is None else list(tasks)
    return [NewDataset(*row) for row in connection.execute(sa.text(names.sql(_READ_NEW)), values)]


def take_on(connection: sa.Connection, names: Names, datasets: Sequence[PlannedDataset], now: datetime) -> None:
    """Take on datasets, and queue the files that are in them already."""
    for dataset in datasets:
        container = dataset.container or (None, None)
        values = {
            "task": dataset.jeditaskid,
            "dataset": dataset.datasetid,
            "scope": dataset.did[0],
            "name": dataset.did[1],
            "now": now,
        }
        values |= {"container_scope": container[0], "container_name": container[1]}
        connection.execute(sa.text(_INSERT_DATASET), {**values, "state": "template" if dataset.by_site else "planned"})
        queue_files(connection, names, (dataset.jeditaskid, dataset.datasetid), now)


def queue_jobs(connection: sa.Connection, names: Names, jobs: Sequence[int], now: datetime) -> int:
    """Queue what these jobs have written, in the transaction that ends them; returns how many files. ``now``: aware."""
    if not jobs:
        return 0
    statement = names.sql(_QUEUE).replace("WHICH", "file.pandaid = ANY(CAST(:jobs AS bigint[]))")
    return connection.execute(sa.text(statement), {"jobs": list(jobs), "now": now}).rowcount


def queue_files(connection: sa.Connection, names: Names, dataset: tuple[int, int], now: datetime) -> int:
    """Queue all files of a dataset that are not queued yet; returns their number."""
    statement = names.sql(_QUEUE).replace("WHICH", "file.jeditaskid = :task AND file.datasetid = :dataset")
    return connection.execute(sa.text(statement), {"task": dataset[0], "dataset": dataset[1], "now": now}).rowcount


def plan_sites(connection: sa.Connection, names: Names, now: datetime) -> int:
    """Plan a dataset for each site that has written into a container; returns their number."""
    return connection.execute(sa.text(names.sql(_INSERT_SITES)), {"now": now}).rowcount


def read_work(
    connection: sa.Connection,
    names: Names,
    now: datetime,
    most: int,
    tasks: Sequence[int] | None = None,
    *,
    at_once: bool = False,
) -> list[Work]:
    """The datasets to be processed, those that wait longest first; ``at_once``: also those that are to wait."""
    values = {"now": now, "most": most, "ended": list(ENDED), "at_once": at_once}
    values["tasks"] = None if tasks is None else list(tasks)
    return [_work(row._mapping) for row in connection.execute(sa.text(names.sql(_READ_WORK)), values)]


def _work(row: Any) -> Work:
    facts = {"nucleus": row["nucleus"], "vo": row["vo"], "label": row["label"], "user": row["username"]}
    known = {name: str(value) for name, value in facts.items() if value is not None}
    return Work(
        (row["jeditaskid"], row["datasetid"], row["site"]),
        (row["scope"], row["name"]),
        None if row["container_name"] is None else (row["container_scope"], row["container_name"]),
        row["state"],
        row["failures"],
        row["task_status"] in ENDED,
        row["ended_again"],
        row["type"],
        _destination(row),
        {**known, "task": str(row["jeditaskid"])},
    )


def _destination(row: Any) -> str | None:
    """The endpoint that a dataset is for; what the task brokerage writes there names a nucleus, not an endpoint."""
    named = row["destination"]
    if named and not named.startswith(OF_NUCLEUS):
        return str(named)
    return None if row["site"] else row["nucleus_rse"]


def read_queued(connection: sa.Connection, work: Work, most: int) -> list[OutputFile]:
    """Files of a dataset that wait to be registered, the oldest first."""
    rows = connection.execute(sa.text(_READ_QUEUED), {**_key(work), "most": most})
    return [OutputFile(*row) for row in rows]


def mark_files(
    connection: sa.Connection, work: Work, outcomes: Iterable[tuple[OutputFile, Problem | None]], now: datetime
) -> None:
    """Mark files as registered, or as refused with the problem."""
    rows = [
        (file.fileid, *(("registered", None, None) if problem is None else ("refused", problem.code, problem.what)))
        for file, problem in outcomes
    ]
    if not rows:
        return
    files, states, codes, reasons = (list(column) for column in zip(*rows, strict=True))
    values = {"files": files, "states": states, "codes": codes, "reasons": reasons, "now": now}
    connection.execute(sa.text(_MARK), {**_key(work), **values})


def set_state(
    connection: sa.Connection, work: Work, state: str, now: datetime, files: int | None = None, size: int | None = None
) -> None:
    """Record that a dataset was made, reopened, or closed with this many files and bytes."""
    values = {"state": state, "now": now, "files": files, "bytes": size}
    connection.execute(sa.text(_SET_STATE), {**_key(work), **values})


def postpone(connection: sa.Connection, work: Work, problem: Problem, until: datetime) -> None:
    """Have a dataset tried again later, and keep the reason."""
    values = {"code": problem.code, "reason": problem.what, "next": until}
    connection.execute(sa.text(_POSTPONE), {**_key(work), **values})


def settle(connection: sa.Connection, work: Work, now: datetime) -> None:
    """Forget the failures of a dataset after a successful try."""
    connection.execute(sa.text(_SETTLE), {**_key(work), "now": now})


def read_sums(connection: sa.Connection, work: Work) -> Sums:
    """The files of a dataset by state."""
    return Sums(*connection.execute(sa.text(_READ_SUMS), _key(work)).one())


def _key(work: Work) -> dict[str, Any]:
    return dict(zip(("task", "dataset", "site"), work.key, strict=True))
