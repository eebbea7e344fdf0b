"""Activating jobs whose input can be read at their queue, with the files that they will write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.reads.replica_reads import read_catalogue
from broker.store.writes.job_row_sql import note_status
from broker.work.catalogue import PlacedDatasets, place_datasets
from broker.work.input_files import parse_attributes, scope_and_name

# Jobs of a task take its next numbers, in their order; all outputs of a job have the same place in their sequences.
# Digits are filled with zeros: six of them in ${SN} and ${SN/P}, as many as it states in ${SN:04d}.
_INSERT_OUTPUT_FILES = """
WITH activated AS MATERIALIZED (
    SELECT job.pandaid, job.jeditaskid, row_number() OVER (PARTITION BY job.jeditaskid ORDER BY job.pandaid) AS place
    FROM unnest(CAST(:jobs AS bigint[])) AS wanted (pandaid)
    JOIN {panda}.jobsactive4 AS job ON job.pandaid = wanted.pandaid
    WHERE job.jobstatus = 'activated'
), sums AS MATERIALIZED (
    SELECT jeditaskid, count(*) AS jobs FROM activated GROUP BY jeditaskid
), counted_jobs AS (
    UPDATE {broker}.task_templates AS template SET jobs_numbered = template.jobs_numbered + sums.jobs
    FROM sums WHERE template.jeditaskid = sums.jeditaskid
    RETURNING template.jeditaskid, template.jobs_numbered - sums.jobs AS before
), numbered AS (
    INSERT INTO {broker}.job_serial_numbers (pandaid, jeditaskid, number)
    SELECT activated.pandaid, activated.jeditaskid, counted_jobs.before + activated.place
    FROM activated JOIN counted_jobs USING (jeditaskid)
    ON CONFLICT (pandaid) DO NOTHING
), serials AS (
    UPDATE {broker}.task_outputs AS output SET serialnr = output.serialnr + sums.jobs
    FROM sums WHERE output.jeditaskid = sums.jeditaskid AND output.serialnr IS NOT NULL
    RETURNING output.jeditaskid, output.position, output.serialnr - sums.jobs - 1 AS before
), named AS (
    SELECT activated.pandaid, output.jeditaskid, output.datasetid, output.type, output.scope, output.position,
        replace(output.lfn, '${PANDAID}', activated.pandaid::text) AS lfn,
        (serials.before + activated.place)::text AS serial,
        substring(output.lfn FROM '[$][{]SN\\:0?([1-9][0-9]?)d[}]')::integer AS digits
    FROM activated JOIN {broker}.task_outputs AS output ON output.jeditaskid = activated.jeditaskid
    LEFT JOIN serials ON serials.jeditaskid = output.jeditaskid AND serials.position = output.position
), made AS MATERIALIZED (
    SELECT named.pandaid, named.jeditaskid, named.datasetid, named.type, named.scope, dataset.datasetname,
        CASE WHEN named.serial IS NULL THEN named.lfn
             ELSE regexp_replace(regexp_replace(named.lfn, '[$][{]SN(/P)?[}]',
                      lpad(named.serial, greatest(6, length(named.serial)), '0'), 'g'),
                  '[$][{]SN\\:0?[0-9]*d[}]',
                  lpad(named.serial, greatest(coalesce(named.digits, 1), length(named.serial)), '0'), 'g') END AS lfn,
        nextval('{broker}.pseudo_file_seq') AS fileid
    FROM named
    JOIN {panda}.jedi_datasets AS dataset
        ON dataset.jeditaskid = named.jeditaskid AND dataset.datasetid = named.datasetid
    ORDER BY named.pandaid, named.position
), contents AS (
    INSERT INTO {panda}.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, type, status, proc_status,
        creationdate, scope, pandaid)
    SELECT jeditaskid, datasetid, fileid, lfn, type, 'defined', 'queued', :now, scope, pandaid FROM made
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset SET nfiles = coalesce(dataset.nfiles, 0) + sums.files
    FROM (SELECT jeditaskid, datasetid, count(*) AS files FROM made GROUP BY jeditaskid, datasetid) AS sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
)
INSERT INTO {panda}.filestable4 (row_id, pandaid, modificationtime, lfn, type, status, dataset, destinationdblock,
    scope, jeditaskid, datasetid, fileid)
SELECT nextval('{panda}.filestable4_row_id_seq'), pandaid, :now, lfn, type, 'defined', datasetname, datasetname, scope,
    jeditaskid, datasetid, fileid
FROM made"""


def record_outputs(connection: sa.Connection, names: Names, jobs: Sequence[int], now: datetime) -> int:
    """Record the output files of those jobs that are activated, at ``now`` (naive UTC); return how many files."""
    if not jobs:
        return 0
    return connection.execute(sa.text(names.sql(_INSERT_OUTPUT_FILES)), {"jobs": list(jobs), "now": now}).rowcount


OPEN = ("defined", "assigned")
"""Statuses of jobs that may be activated."""

# Jobs that were not checked yet come first. The others come in an order that changes every cycle, so that many jobs
# with a long wait do not block the rest.
_OPEN_JOBS = """
SELECT pandaid, computingsite FROM {panda}.jobsdefined4
WHERE jobstatus = ANY(:open) AND computingsite IS NOT NULL
ORDER BY jobstatus <> 'defined', hashint8extended(pandaid, :seed) LIMIT :limit"""
_READ_INPUTS = """
SELECT DISTINCT job.computingsite AS queue, coalesce(file.jeditaskid, 0) AS task,
    coalesce(file.datasetid, 0) AS dataset, coalesce(dataset.datasetname, file.dataset) AS name,
    dataset.attributes, dataset.nfiles,
    coalesce(config.wan AND task.splitrule ~ '(^|,)IW=[0-9]', false) AS wan
FROM unnest(CAST(:jobs AS bigint[])) AS wanted (pandaid)
JOIN {panda}.jobsdefined4 AS job USING (pandaid)
JOIN {panda}.filestable4 AS file ON file.pandaid = job.pandaid AND file.type = 'input'
LEFT JOIN {panda}.jedi_datasets AS dataset
    ON dataset.jeditaskid = file.jeditaskid AND dataset.datasetid = file.datasetid
LEFT JOIN {panda}.jedi_tasks AS task ON task.jeditaskid = file.jeditaskid
LEFT JOIN (SELECT panda_queue, data ->> 'direct_access_lan' = 'true' AND data ->> 'direct_access_wan' = 'true' AS wan
           FROM {panda}.schedconfig_json) AS config ON config.panda_queue = job.computingsite"""
_READ_READABLE_ENDPOINTS = """
SELECT relation.panda_site_name, relation.ddm_endpoint_name
FROM {panda}.panda_ddm_relation AS relation
JOIN {panda}.ddm_endpoint AS endpoint USING (ddm_endpoint_name)
WHERE relation.roles ~ '(^|,) *read_lan' AND upper(coalesce(endpoint.blacklisted_read, 'N')) <> 'Y'
  AND relation.panda_site_name = ANY(:queues)"""
# A file listed on its own carries no tape flag, and no relation tells which endpoints are open to other sites.
_READ_ENDPOINTS = """
SELECT ddm_endpoint_name AS rse, upper(coalesce(is_tape, 'N')) = 'Y' AS tape,
    upper(coalesce(blacklisted_read, 'N')) = 'Y' OR coalesce(detailed_status ->> 'read_wan', '') NOT IN ('', 'ON')
        AS closed
FROM {panda}.ddm_endpoint"""
_READ_INCOMPLETE_DATASETS = """
WITH state AS MATERIALIZED (
    SELECT given.*, (SELECT max(fileid) FROM (
        SELECT content.fileid FROM {panda}.jedi_dataset_contents AS content
        WHERE content.jeditaskid = given.task AND content.datasetid = given.dataset
        ORDER BY content.fileid LIMIT given.files) AS first_files) AS last
    FROM unnest(CAST(:state_queues AS text[]), CAST(:tasks AS bigint[]), CAST(:datasets AS bigint[]),
                CAST(:files AS bigint[]), CAST(:anywhere AS boolean[]))
         AS given (queue, task, dataset, files, anywhere)
), readable AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:queues AS text[]), CAST(:endpoints AS text[])) AS given (queue, rse)
)
SELECT DISTINCT job.pandaid
FROM unnest(CAST(:jobs AS bigint[])) AS wanted (pandaid)
JOIN {panda}.jobsdefined4 AS job USING (pandaid)
JOIN {panda}.filestable4 AS file ON file.pandaid = job.pandaid AND file.type = 'input'
JOIN state ON state.queue = job.computingsite AND state.task = coalesce(file.jeditaskid, 0)
    AND state.dataset = coalesce(file.datasetid, 0)
WHERE NOT CASE
    WHEN EXISTS (SELECT FROM {broker}.file_replicas AS replica
                 WHERE replica.scope = file.scope AND replica.name = file.lfn)
    THEN EXISTS (SELECT FROM {broker}.file_replicas AS replica
                 WHERE replica.scope = file.scope AND replica.name = file.lfn
                   AND replica.rse <> ALL(:tape)
                   AND (state.anywhere AND replica.rse <> ALL(:closed)
                        OR EXISTS (SELECT FROM readable WHERE readable.queue = job.computingsite
                                   AND readable.rse = replica.rse)))
    ELSE coalesce(file.fileid <= state.last, false) END"""
_ASSIGN = """
WITH changed AS (
    UPDATE {panda}.jobsdefined4 AS job
    SET jobstatus = 'assigned', statechangetime = :now, modificationtime = :now
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:queues AS text[])) AS seen (pandaid, queue)
    WHERE job.pandaid = seen.pandaid AND job.computingsite = seen.queue AND job.jobstatus = 'defined'
    RETURNING job.*
) NOTE_STATUS""".replace("NOTE_STATUS", note_status("changed", ":now"))
_ACTIVATE = """
WITH moved AS (
    DELETE FROM {panda}.jobsdefined4 AS job
    USING unnest(CAST(:jobs AS bigint[]), CAST(:queues AS text[])) AS seen (pandaid, queue)
    WHERE job.pandaid = seen.pandaid AND job.computingsite = seen.queue AND job.jobstatus = ANY(:open)
    RETURNING job.*
), changed AS (
    INSERT INTO {panda}.jobsactive4 (COLUMNS) SELECT VALUES FROM moved
    RETURNING pandaid, jobstatus, prodsourcelabel, cloud, computingsite
) NOTE_STATUS""".replace("NOTE_STATUS", note_status("changed", ":now"))
_CHANGED = {"jobstatus": "'activated'", "statechangetime": ":now", "modificationtime": ":now"}


@dataclass(frozen=True)
class ActivationSplit:
    """Jobs that may be activated, and those whose input is not there yet: number and queue of each."""

    ready: tuple[tuple[int, str], ...]
    waiting: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class _Endpoints:
    """Where files can be read: (queue, endpoint) over LAN, endpoints that are tape, those closed to other sites."""

    readable: tuple[tuple[str, str], ...]
    tape: frozenset[str]
    closed: frozenset[str]


@dataclass(frozen=True)
class _Input:
    """A dataset that jobs at a queue read."""

    queue: str
    task: int
    dataset: int
    did: tuple[str, str]
    nfiles: int | None
    anywhere: bool


def sort_jobs(connection: sa.Connection, catalogue: TableCatalogue, limit: int, seed: int) -> ActivationSplit:
    """Sort up to ``limit`` jobs that are not activated yet, in the caller's read-only transaction."""
    names = catalogue.names
    rows = connection.execute(sa.text(names.sql(_OPEN_JOBS)), {"open": list(OPEN), "seed": seed, "limit": limit}).all()
    jobs = [(int(row.pandaid), str(row.computingsite)) for row in rows]
    inputs = _read_inputs(connection, catalogue, [job for job, _ in jobs])
    endpoints = _read_endpoints(connection, catalogue, inputs)
    lacking = _incomplete(connection, catalogue, [job for job, _ in jobs], inputs, endpoints)
    return ActivationSplit(
        tuple(job for job in jobs if job[0] not in lacking), tuple(job for job in jobs if job[0] in lacking)
    )


def write_sorted(
    connection: sa.Connection, catalogue: TableCatalogue, jobs: ActivationSplit, now: datetime
) -> dict[str, int]:
    """Activate the ready jobs and assign the others, unless they changed since they were read; return the counts."""
    stamp = naive(now)
    columns = sorted(catalogue.columns_present("jobsdefined4") & catalogue.columns_present("jobsactive4"))
    named = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(_CHANGED.get(column, f'moved."{column}"') for column in columns)
    # the jobs wait for pilots from this transaction on, so nobody needs to be notified
    connection.execute(sa.text("SET LOCAL gridbroker.activates = 'on'"))
    activate = catalogue.names.sql(_ACTIVATE).replace("COLUMNS", named).replace("VALUES", values)
    assign = catalogue.names.sql(_ASSIGN)
    done = connection.execute(sa.text(activate), {**_columns(jobs.ready), "open": list(OPEN), "now": stamp}).rowcount
    record_outputs(connection, catalogue.names, [job for job, _ in jobs.ready], stamp)
    held = connection.execute(sa.text(assign), {**_columns(jobs.waiting), "now": stamp}).rowcount
    return {"activated": done, "assigned": held}


def _columns(jobs: Sequence[tuple[int, str]]) -> dict[str, Any]:
    return {"jobs": [job for job, _ in jobs], "queues": [queue for _, queue in jobs]}


def _read_inputs(connection: sa.Connection, catalogue: TableCatalogue, jobs: Sequence[int]) -> list[_Input]:
    rows = connection.execute(sa.text(catalogue.names.sql(_READ_INPUTS)), {"jobs": list(jobs)}).all()
    return [
        _Input(row.queue, row.task, row.dataset, scope_and_name(row.name), row.nfiles, row.wan)
        for row in rows
        if not parse_attributes(row.attributes, row.name, "input").pseudo
    ]


def _read_endpoints(connection: sa.Connection, catalogue: TableCatalogue, inputs: Sequence[_Input]) -> _Endpoints:
    names, queues = catalogue.names, sorted({one.queue for one in inputs})
    readable = connection.execute(sa.text(names.sql(_READ_READABLE_ENDPOINTS)), {"queues": queues}).all()
    known = connection.execute(sa.text(names.sql(_READ_ENDPOINTS))).all()
    return _Endpoints(
        tuple((row[0], row[1]) for row in readable),
        frozenset(row.rse for row in known if row.tape),
        frozenset(row.rse for row in known if row.closed),
    )


def _incomplete(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    jobs: Sequence[int],
    inputs: Sequence[_Input],
    endpoints: _Endpoints,
) -> frozenset[int]:
    """The jobs with some input that cannot be read at their queue."""
    held = _files_held(connection, catalogue, inputs, endpoints)
    partial = [(one, files) for one, files in zip(inputs, held, strict=True) if files is not None]
    if not partial:
        return frozenset()
    values = {
        "jobs": list(jobs),
        "state_queues": [one.queue for one, _ in partial],
        "tasks": [one.task for one, _ in partial],
        "datasets": [one.dataset for one, _ in partial],
        "files": [files for _, files in partial],
        "anywhere": [one.anywhere for one, _ in partial],
        "queues": [queue for queue, _ in endpoints.readable],
        "endpoints": [rse for _, rse in endpoints.readable],
        "tape": sorted(endpoints.tape),
        "closed": sorted(endpoints.closed),
    }
    return frozenset(connection.execute(sa.text(catalogue.names.sql(_READ_INCOMPLETE_DATASETS)), values).scalars())


def _files_held(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    inputs: Sequence[_Input],
    endpoints: _Endpoints,
) -> list[int | None]:
    """For each input, the most of its files at one endpoint that the queue can read; None for all of them."""
    position = {did: at for at, did in enumerate(dict.fromkeys(one.did for one in inputs))}
    answer = read_catalogue(connection, catalogue, tuple(position))
    everything = np.arange(len(position), dtype=np.int64)
    placed = place_datasets(answer, everything, everything)
    readable: dict[str, set[str]] = {}
    for queue, rse in endpoints.readable:
        readable.setdefault(queue, set()).add(rse)
    rows_of: dict[int, list[int]] = {}
    for row, dataset in enumerate(placed.dataset.tolist()):
        rows_of.setdefault(dataset, []).append(row)
    return [
        _most_files(placed, rows_of.get(position[one.did], []), one, readable.get(one.queue, set()), endpoints.closed)
        for one in inputs
    ]


def _most_files(
    placed: PlacedDatasets, rows: Sequence[int], one: _Input, readable: set[str], closed: frozenset[str]
) -> int | None:
    """The most files of the input in one of these rows that the queue can read; None for all of them.

    Of 10 files the queue can read the 3 on disk, not the 9 on tape, nor the 5 elsewhere:

    >>> from types import SimpleNamespace as Table
    >>> found = {"rse": ["DISK", "TAPE", "FAR"], "is_tape": [False, True, False], "available": [3, 9, 5]}
    >>> placed = Table(**found, is_vp=[False] * 3, complete=[False] * 3, total=[10] * 3)
    >>> _most_files(placed, [0, 1, 2], _Input("Q", 1, 2, ("mc", "in"), 10, False), {"DISK"}, frozenset())
    3
    """
    most = 0
    for row in rows:
        over_wan = one.anywhere and placed.rse[row] not in closed
        if placed.is_tape[row] or not (over_wan or placed.rse[row] in readable):
            continue
        if placed.is_vp[row] or (placed.complete[row] and not placed.total[row] < (one.nfiles or 0)):
            return None
        most = max(most, int(np.nan_to_num(placed.available[row])))
    return most
