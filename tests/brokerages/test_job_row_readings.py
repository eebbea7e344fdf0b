"""Ambiguous points of the written job rows, tested on the rows after a whole cycle.

Source: PanDA production brokerage, decisions on points that the specification leaves open.
"""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import user_task
from tests.brokerages.small_grid import GB, dataset, input_files, one_cycle, queue, replica, scenario, task

HIGH = {"resource_name": "MCORE_HIMEM", "mincore": 2, "minrampercore": 2001}
KINDS = [
    {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000},
    {"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000},
    HIGH,
]


def written_jobs(database: Database, **tables: Any) -> list[Any]:
    """Run a cycle and return resource type, cores and input types of each job that it writes."""
    defaults = {
        "jedi_tasks": [task()],
        "jedi_datasets": [dataset(2)],
        "jedi_dataset_contents": input_files(2, GB),
        "dataset_replicas": [replica("ALPHA", 2, 2)],
        "schedconfig_json": [queue("ALPHA_MCORE")],
        "resource_types": KINDS,
    }
    one_cycle(database, scenario(**(defaults | tables)), agent=tables.pop("agent", "production_job"))
    query = """
        SELECT j.resource_type, j.corecount, array_agg(DISTINCT f.type)
        FROM doma_panda.jobsdefined4 AS j JOIN doma_panda.filestable4 AS f USING (pandaid) GROUP BY j.pandaid, 1, 2
    """
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        # 1,500 MB x 0.9 per core
        ({"resource_type": "MCORE_HIMEM"}, "MCORE"),
        ({"resource_type": None}, "MCORE"),
        ({"resource_type": "MCORE", "ramcount": 2300}, "MCORE_HIMEM"),
        ({"resource_type": "MCORE_HIMEM", "corecount": 1}, "SCORE"),
    ],
)
def test_43_a_job_has_the_type_of_its_own_cores_and_memory(
    database: Database, columns: dict[str, Any], kind: str
) -> None:
    cores = columns.get("corecount", 8)
    queues = [queue("ALPHA_MCORE", corecount=cores, maxrss=64_000)]
    jobs = written_jobs(database, jedi_tasks=[task(**columns)], schedconfig_json=queues)
    assert jobs == [(kind, cores, ["input"])] * 2


def test_43_without_a_matching_type_a_job_has_the_type_of_its_task(database: Database) -> None:
    jobs = written_jobs(database, jedi_tasks=[task(resource_type="MCORE_HIMEM")], resource_types=[])
    assert jobs == [("MCORE_HIMEM", 8, ["input"])] * 2


@pytest.mark.parametrize("kind", ["trn_log", "trn_output"])
def test_43_what_merge_jobs_read_is_input(database: Database, kind: str) -> None:
    jobs = written_jobs(
        database,
        jedi_tasks=[user_task(splitrule="ZF=1", prodsourcelabel="managed", nucleus="ALPHA")],
        jedi_datasets=[dataset(2, type=kind)],
        jedi_dataset_contents=input_files(2, GB, type=kind),
        schedconfig_json=[queue("ALPHA_MCORE", corecount=1)],
    )
    assert jobs
    assert {types[0] for _, _, types in jobs} == {"input"}


@pytest.mark.parametrize(
    ("usejumbo", "least", "code"),
    [("W", 201, "fewevents"), ("W", 200, "jumbo"), (None, 201, "jumbo"), ("D", 201, "jumbo")],
)
def test_a_queue_for_jumbo_jobs_rejects_too_few_events(
    database: Database, usejumbo: str | None, least: int, code: str
) -> None:
    """The task has two files of 100 events."""
    only_jumbo = queue("ALPHA_MCORE", catchall=f"useJumboJobs,minEventsForJumbo={least}")
    tables = {
        "jedi_tasks": [task(usejumbo=usejumbo, splitrule="NF=1,NJ=1")],
        "jedi_datasets": [dataset(2)],
        "jedi_dataset_contents": input_files(2, GB),
        "dataset_replicas": [replica("ALPHA", 2, 2)],
        "schedconfig_json": [only_jumbo],
    }
    _, (decision,) = one_cycle(database, scenario(**tables))
    assert decision["rejected"] == {"ALPHA_MCORE": code}
