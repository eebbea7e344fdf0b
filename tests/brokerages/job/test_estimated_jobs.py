"""Numbers of jobs (N_j) calculated by hand: 12 files of 2 GiB and 100 events, 100 HS06 s per event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.brokerages.job.chunk_jobs import estimated_jobs, jobs_of_weight
from broker.domain.arrays import Floats
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.scenarios.load_dump import load
from broker.work.assemble import CycleWork
from tests.brokerages.analysis_grid import analysis_tasks
from tests.brokerages.small_grid import TASK

#: Task and number of jobs. A file takes 1,000 s on one core of 10 HS06.
CASES: list[tuple[dict[str, Any], int]] = [
    ({"splitrule": "NF=1"}, 12),
    ({"splitrule": "NF=5"}, 3),
    # 4 GB, 1,500 MB of output and 300 MB of work space: two files of 2 GiB
    ({"splitrule": "NG=4"}, 6),
    # 4 days hold 3 files of 100,000 s, or 12 on 8 cores; NULL and 0 cores mean one
    ({"splitrule": "", "cputime": 10_000}, 4),
    ({"splitrule": "", "cputime": 10_000, "corecount": None}, 4),
    ({"splitrule": "", "cputime": 10_000, "corecount": 0}, 4),
    ({"splitrule": "", "cputime": 10_000, "corecount": 8}, 1),
    # an hour: 3 files of 1,000 s; 200 hours: 7 of 100,000 s
    ({"splitrule": "MW=1"}, 4),
    ({"splitrule": "MW=200", "cputime": 10_000}, 2),
    # all files together are less than 500,000 MB
    ({"splitrule": ""}, 1),
]


#: Task, number of jobs by all of its rules, and number of jobs for the new weight.
RULES: list[tuple[dict[str, Any], int, int]] = [
    ({"splitrule": "NE=250"}, 6, 6),
    ({"splitrule": "MF=5"}, 3, 3),
    ({"splitrule": "NF=1,EI=1000,DY=250"}, 3, 3),
    # at most 500 events are five files; the weight ignores this rule
    ({"splitrule": "MX=500"}, 3, 1),
    ({"splitrule": "MX=500,MF=6"}, 3, 2),
    # each file has its own boundary
    ({"splitrule": "GB=1"}, 12, 1),
    ({"splitrule": "GB=3,NF=4"}, 12, 3),
    # each file also has its own luminosity block, which the weight respects
    ({"splitrule": "RL=1"}, 12, 12),
    # 3 GB of output per file: 10 GB hold three files
    ({"splitrule": "", "outdiskcount": 1536, "outdiskunit": "kB"}, 4, 1),
    ({"splitrule": "US=2"}, 12, 1),
    ({"splitrule": "US=2,NF=6"}, 2, 2),
    # rules for merging
    ({"splitrule": "NF=6,ZF=1", "merging": True}, 12, 2),
    ({"splitrule": "ZF=2", "merging": True}, 12, 1),
    ({"splitrule": "MW=1,ZG=1", "merging": True}, 12, 4),
]


def load_work_of(database: Database, cases: list[dict[str, Any]]) -> CycleWork:
    """Load the chunks of tasks with these columns; with ``merging`` their input is to be merged."""
    tasks = [{name: value for name, value in columns.items() if name != "merging"} for columns in cases]
    scenario = analysis_tasks(*tasks, files=12)
    for number, columns in enumerate(cases):
        for table in ("jedi_datasets", "jedi_dataset_contents"):
            rows = [row for row in scenario.tables[table] if row["jeditaskid"] == TASK + number]
            for number_in_task, row in enumerate(rows):
                row["type"] = "trn_output" if columns.get("merging") else "input"
                if table == "jedi_dataset_contents":
                    row |= {"boundaryid": number_in_task, "lumiblocknr": number_in_task}
                elif "US" in columns["splitrule"]:
                    row |= {"nfiles": 24}
    load(database, scenario)
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        return load_work(connection, catalogue, WorkSelection(labels_excluded=False))


@pytest.mark.parametrize("estimate", [estimated_jobs, jobs_of_weight])
def test_jobs_of_chunks(database: Database, estimate: Callable[[CycleWork], Floats]) -> None:
    work = load_work_of(database, [columns for columns, _ in CASES])
    order = work.work.chunks.jeditaskid.argsort()
    assert estimate(work)[order].tolist() == [jobs for _, jobs in CASES]


def test_only_some_rules_count_for_the_new_weight(database: Database) -> None:
    work = load_work_of(database, [columns for columns, _, _ in RULES])
    order = work.work.chunks.jeditaskid.argsort()
    assert estimated_jobs(work)[order].tolist() == [jobs for _, jobs, _ in RULES]
    assert jobs_of_weight(work)[order].tolist() == [jobs for _, _, jobs in RULES]
