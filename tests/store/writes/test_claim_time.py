"""Claiming files takes time in proportion to the files, whatever the planner believes, and no longer than a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from benchmarks.bench_claim import fill, placements
from broker.store.connection.database import Database
from broker.store.writes import job_row_sql
from broker.store.writes.job_rows import AssignmentWriter, ClaimOverTimeError
from tests.store.small_work import NAIVE_NOW, NOW, all_rows, placement, seed

DATASETS, FILES, BATCHES = 4, 500, 4
CLAIMED = DATASETS * FILES // BATCHES

#: Settings of a session under which the planner chooses as it does when its estimates are wrong.
MISLED = (
    "",
    "SET LOCAL enable_hashjoin = off",
    "SET LOCAL enable_nestloop = off",
    "SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = off",
    "SET LOCAL enable_seqscan = off",
)


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def rows_compared(node: Mapping[str, Any]) -> float:
    """Rows that a node produced or looked at in vain."""
    in_vain = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Join Filter", "Filter", "Index Recheck"))
    return float((node.get("Actual Rows", 0) + in_vain) * node.get("Actual Loops", 1))


def explained(connection: sa.Connection, names: Any, misled: str) -> list[Mapping[str, Any]]:
    raw = Database.raw(connection)
    writer = AssignmentWriter(raw, names, NOW)
    one = next(placements(DATASETS, FILES, BATCHES))
    raw.execute(misled.encode())
    writer._stage(one, np.ones(len(one.jobs), dtype=np.bool_))
    text = "EXPLAIN (ANALYZE, FORMAT JSON) " + names.sql(job_row_sql.CLAIM_FILES)
    row = raw.execute(text.encode(), {"now": NAIVE_NOW}).fetchone()
    assert row is not None
    plans = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return list(nodes(plans[0]["Plan"]))


@pytest.mark.parametrize("misled", MISLED)
@pytest.mark.parametrize("statistics", ["of files not ready", "of files ready", "none"])
def test_no_claim_is_compared_with_every_file_of_its_dataset(make_database: Any, statistics: str, misled: str) -> None:
    database = make_database()
    fill(database, DATASETS, FILES)
    with database.autocommit() as connection:
        if statistics == "of files ready":
            connection.exec_driver_sql("ANALYZE")
        elif statistics == "none":
            connection.exec_driver_sql("DELETE FROM pg_statistic")
    with database.begin() as connection:
        found = explained(connection, database.names, misled)
    claimed = next(node for node in found if node.get("Subplan Name") == "CTE claimed")
    assert claimed["Actual Rows"] == CLAIMED
    assert max(map(rows_compared, found)) <= 2 * DATASETS * FILES


def test_every_batch_of_a_large_dataset_is_claimed(database: Database) -> None:
    fill(database, 2, 1000)
    for one in placements(2, 1000, 4):
        with database.begin() as connection:
            written = AssignmentWriter(Database.raw(connection), database.names, NOW).write(one)
        assert (written.files, written.skipped_changed) == (500, 0)
    assert all_rows(database, "SELECT nfilesused, count(*) AS n FROM doma_panda.jedi_datasets GROUP BY 1") == [
        {"nfilesused": 1000, "n": 2}
    ]


def test_a_claim_that_does_not_end_is_ended_and_nothing_is_kept(database: Database) -> None:
    seed(database)
    with database.begin() as other:
        other.execute(sa.text("SELECT 1 FROM doma_panda.jedi_dataset_contents WHERE fileid = 100 FOR UPDATE"))
        with pytest.raises(ClaimOverTimeError, match=r"within 0\.1 s.*jedi_dataset_contents"), database.begin() as mine:
            AssignmentWriter(Database.raw(mine), database.names, NOW, claim_limit_s=0.1).write(
                placement([(1, "CERN", [100, 101])])
            )
    assert all_rows(database, "SELECT pandaid FROM doma_panda.jobsdefined4") == []


@pytest.mark.parametrize(("before", "within"), [("0", "0.1 s"), ("50ms", "0.05 s"), ("10s", "0.1 s")])
def test_the_limit_is_the_shorter_of_two(database: Database, before: str, within: str) -> None:
    seed(database)
    with database.begin() as other:
        other.execute(sa.text("SELECT 1 FROM doma_panda.jedi_dataset_contents WHERE fileid = 100 FOR UPDATE"))
        with pytest.raises(ClaimOverTimeError, match=f"within {within}"), database.begin() as mine:
            mine.execute(sa.text(f"SET LOCAL statement_timeout = '{before}'"))
            AssignmentWriter(Database.raw(mine), database.names, NOW, claim_limit_s=0.1).write(
                placement([(1, "CERN", [100, 101])])
            )


def test_the_limit_ends_with_the_claim(database: Database) -> None:
    seed(database)
    with database.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = '50s'"))
        AssignmentWriter(Database.raw(connection), database.names, NOW).write(placement([(1, "CERN", [100])]))
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "50s"
