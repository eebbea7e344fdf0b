"""Reading a pilot's queue, recording a job that was given to the pilot, and reading the job with its files.

Source: PanDA server, choice of jobs (getJobs); PanDA data model, jobs, files, Harvester.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.json_depth import is_too_deep
from broker.matching.specs.hardware_names import level_of_name, same_architecture
from broker.matching.specs.node import Node
from broker.pilots.model.job_answer import JobFile
from broker.pilots.model.job_request import JobRequest, cpu_time_left_s
from broker.pilots.model.matcher import Pilot, host_of
from broker.store.connection.tables import Names

_UNLIMITED_S = 2**62
_READ_QUEUE = """
SELECT data ->> 'status' AS status, data ->> 'atlas_site' AS site, data ->> 'maxtime' AS maxtime,
    data ->> 'corepower' AS corepower, data ->> 'corecount' AS corecount
FROM {panda}.schedconfig_json WHERE coalesce(data ->> 'nickname', panda_queue) = :queue
ORDER BY panda_queue <> :queue LIMIT 1"""
_READ_PLACES = """
SELECT site, ce, queue FROM {broker}.resource_queues
WHERE coalesce(panda_queue, queue) = :queue ORDER BY ce IS DISTINCT FROM :ce, site, ce, queue"""
# The host as its pilots last reported it; those of a site are alike in name. A slot before the host is left out.
_READ_NODE = """
SELECT node.cpu_architecture, node.cpu_architecture_level, gpu.*
FROM (SELECT array[:site,
    (SELECT data ->> 'atlas_site' FROM {panda}.schedconfig_json WHERE panda_queue = :queue)] AS sites) AS pilot
LEFT JOIN LATERAL (
    SELECT cpu_architecture, cpu_architecture_level FROM {panda}.worker_node
    WHERE site = ANY(sites) AND host_name = :host ORDER BY last_seen DESC NULLS LAST LIMIT 1) AS node ON true
LEFT JOIN LATERAL (
    SELECT sum(count)::bigint AS gpus, count(*) = 1 AS alike, min(vendor) AS vendor, min(model) AS model,
        min(vram)::bigint AS vram, min(architecture) AS generation, min(framework_version) AS runtime,
        min(driver_version) AS driver
    FROM {panda}.worker_node_gpus WHERE site = ANY(sites) AND host_name = :host) AS gpu ON true"""
_READ_PLATFORMS = "SELECT data FROM {panda}.sw_tags WHERE panda_queue = :queue LIMIT 1"
_NOTE_GIVEN = """
UPDATE {panda}.jobsactive4
SET modificationhost = coalesce(:node, modificationhost), starttime = :now, jobexecutionid = 0,
    computingelement = coalesce(:ce, computingelement), schedulerid = coalesce(:scheduler, schedulerid)
WHERE pandaid = :pandaid"""
_NOTE_WORKER = """
WITH known AS (
    SELECT FROM {panda}.harvester_instances WHERE harvester_id = :harvester
), worker AS (
    UPDATE {panda}.harvester_workers SET status = 'running', lastupdate = :now, starttime = coalesce(starttime, :now),
        njobs = coalesce(njobs, 0) + 1
    WHERE harvesterid = :harvester AND workerid = :worker AND EXISTS (SELECT FROM known)
)
INSERT INTO {panda}.harvester_rel_jobs_workers (harvesterid, workerid, pandaid, lastupdate)
SELECT :harvester, :worker, :pandaid, :now FROM known
ON CONFLICT (harvesterid, workerid, pandaid) DO UPDATE SET lastupdate = excluded.lastupdate"""
_READ_JOB = """
SELECT job.*, parameters.taskparams, said.arguments AS file_arguments
FROM {panda}.jobsactive4 AS job
LEFT JOIN {panda}.jedi_taskparams AS parameters ON parameters.jeditaskid = job.jeditaskid
LEFT JOIN LATERAL (
    SELECT one.arguments FROM {panda}.filestable4 AS file
    JOIN {broker}.file_arguments AS one ON one.jeditaskid = file.jeditaskid AND one.fileid = file.fileid
    WHERE file.pandaid = job.pandaid AND file.type = 'pseudo_input' ORDER BY file.row_id LIMIT 1) AS said ON true
WHERE job.pandaid = :pandaid"""
_READ_FILES = """
SELECT file.lfn, file.type, coalesce(file.dataset, dataset.datasetname, '') AS dataset,
    coalesce(file.scope, '') AS scope, coalesce(file.guid, '') AS guid, file.fsize,
    coalesce(file.checksum, file.md5sum, '') AS checksum,
    coalesce(file.destinationdblock, '') AS destination, coalesce(file.dispatchdblocktoken, '') AS token,
    coalesce(file.destinationse, '') AS endpoint,
    coalesce(dataset.attributes ~ '(^|,)an(=|,|$)', false) AS may_be_missing
FROM {panda}.filestable4 AS file
LEFT JOIN {panda}.jedi_datasets AS dataset
    ON dataset.jeditaskid = file.jeditaskid AND dataset.datasetid = file.datasetid
WHERE file.pandaid = :pandaid AND file.type IN ('input', 'pseudo_input', 'output', 'log')
ORDER BY file.row_id"""
_READ_ENDPOINTS = """
(SELECT false AS writes, ddm_endpoint_name AS name FROM {panda}.panda_ddm_relation
 WHERE panda_site_name = :queue AND default_read = 'Y' AND roles LIKE '%read_lan%'
 ORDER BY scope <> 'default', 2 LIMIT 1)
UNION ALL
(SELECT true, ddm_endpoint_name FROM {panda}.panda_ddm_relation
 WHERE panda_site_name = :queue AND default_write = 'Y' AND roles LIKE '%write_lan%'
 ORDER BY scope <> 'default', 2 LIMIT 1)"""


@dataclass(frozen=True)
class PilotQueue:
    """The queue that a pilot runs at.

    Attributes:
        known: whether there is such a queue.
        status: status of the queue.
        place: site, CE and queue among the resources; None where none of them matches, or more than one.
        site: site of the pilot.
        platforms: platforms that its software can run.
        maxtime_s: limit of the walltime; 0: none.
        corepower: HS06 of a core; 0: not known.
        cores: cores of a slot.
    """

    known: bool
    status: str | None
    place: tuple[str, str, str] | None
    site: str
    platforms: tuple[str, ...]
    maxtime_s: float
    corepower: float
    cores: int


@dataclass(frozen=True)
class GivenJob:
    """A job as its pilot gets it: its columns, its files, and the parameters of its payload with placeholders."""

    columns: Mapping[str, Any]
    files: tuple[JobFile, ...]
    parameters: str


def read_node(connection: sa.Connection, names: Names, site: str, request: JobRequest) -> dict[str, Any]:
    """The recorded hardware of a pilot's host, as fields of a node; unknown fields are left out.

    GPUs of several models are only counted; their properties are unknown.
    """
    if not request.node:
        return {}
    values = {"site": site, "queue": request.queue, "host": request.node.rpartition("@")[2]}
    row = connection.execute(sa.text(names.sql(_READ_NODE)), values).one()
    level = level_of_name((row.cpu_architecture_level or "").replace("_", "-", 1))
    record = {"architecture": same_architecture(row.cpu_architecture), "level": level, "gpus": row.gpus}
    if row.alike:
        record |= {
            "gpu_vendor": row.vendor, "gpu_model": row.model, "gpu_ram_mb": row.vram,
            "gpu_generation": row.generation, "runtime": row.runtime, "driver": row.driver,
        }  # fmt: skip
    return {name: value for name, value in record.items() if value is not None}


def read_queue(connection: sa.Connection, names: Names, request: JobRequest) -> PilotQueue:
    """Read the queue of a pilot."""
    row = connection.execute(sa.text(names.sql(_READ_QUEUE)), {"queue": request.queue}).mappings().first()
    places = connection.execute(
        sa.text(names.sql(_READ_PLACES)), {"queue": request.queue, "ce": request.computing_element}
    ).all()
    at_ce = [place for place in places if place.ce == request.computing_element]
    place = (at_ce or places)[0] if len(at_ce or places) == 1 else None
    tags = connection.execute(sa.text(names.sql(_READ_PLATFORMS)), {"queue": request.queue}).scalar()
    queue: dict[str, Any] = {} if row is None else {**row}
    site = place.site if place is not None else queue.get("site") or request.queue
    return PilotQueue(
        row is not None,
        queue.get("status"),
        None if place is None else (place.site, place.ce, place.queue),
        site,
        _platforms(tags),
        text_number(queue.get("maxtime")),
        text_number(queue.get("corepower")),
        int(text_number(queue.get("corecount"))),
    )


def presented(request: JobRequest, queue: PilotQueue, hardware: Mapping[str, Any] | None = None) -> Pilot:
    """What a pilot presents to the matcher. A queue at several places brings the pools of none of them.

    ``hardware``: fields of its host, see :func:`read_node`.
    """
    left_s = cpu_time_left_s(request, queue.maxtime_s, queue.corepower, queue.cores)
    site, ce, name = queue.place or (queue.site, "", request.queue)
    return Pilot(
        site,
        ce,
        name,
        platforms=queue.platforms,
        cputime_s=_UNLIMITED_S if left_s is None else left_s,
        resource_type=request.resource_type,
        node=_node(request, queue, site, hardware or {}),
        host=host_of(request.node),
    )


def _node(request: JobRequest, queue: PilotQueue, site: str, hardware: Mapping[str, Any]) -> Node:
    """The slot that a pilot of PanDA reports, and the recorded hardware of its host; the rest is unknown.

    An unknown field satisfies no requirement of a job.
    """
    return Node(
        site,
        wall_time_s=request.remaining_s or None,
        cores=queue.cores or None,
        ram_mb=request.memory_mb or None,
        scratch_mb=request.disk_mb or None,
        **hardware,
    )


def note_given(connection: sa.Connection, names: Names, pandaid: int, request: JobRequest, now: datetime) -> None:
    """Record which pilot got a job, in the transaction that gave it."""
    values = {"pandaid": pandaid, "now": naive(now)}
    who = {"node": request.node, "ce": request.computing_element, "scheduler": request.scheduler}
    connection.execute(sa.text(names.sql(_NOTE_GIVEN)), values | who)
    if request.harvester is not None and request.worker is not None:
        worker = {"harvester": request.harvester, "worker": request.worker}
        connection.execute(sa.text(names.sql(_NOTE_WORKER)), values | worker)


def read_given(connection: sa.Connection, names: Names, pandaid: int) -> GivenJob:
    """Read a job with all that its pilot needs."""
    job = connection.execute(sa.text(names.sql(_READ_JOB)), {"pandaid": pandaid}).mappings().one()
    rows = connection.execute(sa.text(names.sql(_READ_FILES)), {"pandaid": pandaid}).mappings().all()
    endpoints = {
        row.writes: row.name
        for row in connection.execute(sa.text(names.sql(_READ_ENDPOINTS)), {"queue": job["computingsite"]})
    }
    files = tuple(_file(row, endpoints) for row in rows)
    return GivenJob({**job}, files, job["file_arguments"] or parameters_of(job["taskparams"]))


def parameters_of(taskparams: str | None) -> str:
    """The payload parameters in those of a task: as submitted, or assembled from the parts of a PanDA task."""
    content = _json(taskparams)
    if not isinstance(content, dict):
        return ""
    arguments = content.get("arguments")
    if isinstance(arguments, str):
        return arguments
    parts = content.get("jobParameters")
    values = [part.get("value") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return " ".join(value for value in values if isinstance(value, str))


def _file(row: Mapping[Any, Any], endpoints: Mapping[bool, str]) -> JobFile:
    values = dict(row)
    writes = values["type"] in ("output", "log")
    values["endpoint"] = values["endpoint"] or endpoints.get(writes, "")
    return JobFile(**values)


def _platforms(tags: str | None) -> tuple[str, ...]:
    content = _json(tags)
    listed = content.get("cmtconfigs") if isinstance(content, dict) else None
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()


def _json(text: str | None) -> Any:
    """The document in a column; None where there is none that can be read."""
    if text is None or is_too_deep(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def text_number(value: Any) -> float:
    """A numeric setting of a queue; 0 where it is missing, negative or not a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if 0 <= number < float("inf") else 0.0
