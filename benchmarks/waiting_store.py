"""Stores waiting work in a database: places, tasks and jobs, as the brokerage and activation leave them."""

from __future__ import annotations

import json
from datetime import UTC

import psycopg
import sqlalchemy as sa

from benchmarks.measuring import NOW
from benchmarks.waiting_work import CE, QUEUE, VO, Work, site_name
from broker.pools.statements.pool_refresh import new_mapping, write_mapping
from broker.pools.statements.resource_versions import ResourceText, current, publish
from broker.store.connection.database import Database

JOBS_OF_A_COMMIT = 500_000
_MAKE_TASKS = """
CREATE TEMPORARY TABLE bench_tasks (task bigint, first bigint, jobs bigint, owner text, owner_group text, job_type text,
    priority integer)"""
# the broker's own activation records nothing for itself
_ACTIVATES = "SET LOCAL gridbroker.activates = 'on'"
_JOBS = """
INSERT INTO doma_panda.jobsactive4 (pandaid, jeditaskid, jobdefinitionid, jobstatus, vo, produsername, workinggroup,
    gshare, resource_type, currentpriority, prodsourcelabel, processingtype, corecount, minramcount, maxdiskcount,
    maxcpucount, transformation, jobname, creationtime, modificationtime, statechangetime)
SELECT task.first + number, task.task, 0, 'activated', %(vo)s, task.owner, task.owner_group, 'Share', NULL,
    task.priority, 'managed', task.job_type, 1, 2000, 20000, 86400, 'run.py', 'job.' || task.task || '.' || number,
    %(now)s, %(now)s, %(now)s
FROM bench_tasks AS task, generate_series(0, task.jobs - 1) AS number
WHERE task.first >= %(from)s AND task.first < %(to)s"""


def store(database: Database, work: Work) -> int:
    """Write places, tasks and jobs; return the number of jobs."""
    _publish(database, work.sites)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(_MAKE_TASKS)
        jobs = _copy_tasks(connection, work)
        now = NOW.astimezone(UTC).replace(tzinfo=None)
        for start in range(1, jobs + 1, JOBS_OF_A_COMMIT):
            with connection.transaction():
                connection.execute(_ACTIVATES)
                values = {"vo": VO, "now": now, "from": start, "to": start + JOBS_OF_A_COMMIT}
                connection.execute(_JOBS, values)
        connection.execute("VACUUM (ANALYZE) doma_panda.jobsactive4")
        connection.execute("ANALYZE broker.task_requirements")
    return jobs


def _publish(database: Database, sites: int) -> None:
    places = {
        site_name(number): {"params": {"PandaQueue": f"QUEUE_{number}"}, "ces": {CE: {"queues": {QUEUE: {}}}}}
        for number in range(sites)
    }
    with database.begin() as connection:
        publish(connection, ResourceText("bench", "json", json.dumps(places)), NOW)
        version = current(connection)
        if version is not None:
            resources = version.content.resources
            write_mapping(connection, new_mapping(connection, resources), resources, version.id, NOW)
        connection.execute(sa.text("ANALYZE broker.resource_queues"))


def _copy_tasks(connection: psycopg.Connection[tuple[object, ...]], work: Work) -> int:
    first = 1
    with connection.cursor() as cursor:
        with cursor.copy("COPY bench_tasks FROM STDIN") as copy:
            for number, task in enumerate(work.tasks, 1):
                row = (number, first, task.jobs, task.owner, task.owner_group, task.job_type, task.priority)
                copy.write_row(row)
                first += task.jobs
        columns = "jeditaskid, sites, platforms, cputime_s, specs"
        with cursor.copy(f"COPY broker.task_requirements ({columns}) FROM STDIN") as copy:
            for number, task in enumerate(work.tasks, 1):
                lists = json.dumps(task.sites), json.dumps(task.platforms)
                copy.write_row((number, *lists, task.cputime_s, task.specs))
    return first - 1
