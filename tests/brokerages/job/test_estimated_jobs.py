"""N_j against figures worked out by hand: 12 files of 2 GiB and 100 events, 100 HS06 s an event."""

from __future__ import annotations

from typing import Any

from broker.brokerages.job.estimated_jobs import estimated_jobs
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.scenarios.load_dump import load
from tests.brokerages.analysis_grid import several

#: Task, and its jobs. A file takes 1,000 s on one core of 10 HS06.
CASES: list[tuple[dict[str, Any], int]] = [
    ({"splitrule": "NF=1"}, 12),
    ({"splitrule": "NF=5"}, 3),
    # 4 GB and 1,500 MB of output and 300 MB of work space: two files of 2 GiB
    ({"splitrule": "NG=4"}, 6),
    # 4 days hold 3 files of 100,000 s, or 12 on 8 cores; NULL and 0 cores are one
    ({"splitrule": "", "cputime": 10_000}, 4),
    ({"splitrule": "", "cputime": 10_000, "corecount": None}, 4),
    ({"splitrule": "", "cputime": 10_000, "corecount": 0}, 4),
    ({"splitrule": "", "cputime": 10_000, "corecount": 8}, 1),
    # an hour: 3 files of 1,000 s; 200 hours: 7 of 100,000 s
    ({"splitrule": "MW=1"}, 4),
    ({"splitrule": "MW=200", "cputime": 10_000}, 2),
    # all of it is less than 500,000 MB
    ({"splitrule": ""}, 1),
]


def test_jobs_of_chunks(database: Database) -> None:
    load(database, several(*(columns for columns, _ in CASES), files=12))
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        work = load_work(connection, catalogue, WorkSelection(labels_excluded=False))
    order = work.work.chunks.jeditaskid.argsort()
    assert estimated_jobs(work)[order].tolist() == [jobs for _, jobs in CASES]
