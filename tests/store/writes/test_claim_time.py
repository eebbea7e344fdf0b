"""Claiming files takes time proportional to the files, whatever the planner estimates, and never exceeds a limit."""

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
from tests.conftest import TestServer
from tests.store.small_work import NAIVE_NOW, NOW, all_rows, placement, seed

DATASETS, FILES, BATCHES = 4, 500, 4
CLAIMED = DATASETS * FILES // BATCHES

#: Session settings that make the planner choose as it does with wrong estimates.
PLANNER_SETTINGS = (
    "",
    "SET LOCAL enable_hashjoin = off",
    "SET LOCAL enable_nestloop = off",
    "SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = off",
    "SET LOCAL enable_seqscan = off",
)


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def rows_compared(node: Mapping[str, Any]) -> float:
    """Return the rows that a node produced or discarded."""
    discarded_rows = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Join Filter", "Filter", "Index Recheck"))
    return float((node.get("Actual Rows", 0) + discarded_rows) * node.get("Actual Loops", 1))


def claim_plan_nodes(connection: sa.Connection, names: Any, planner_settings: str) -> list[Mapping[str, Any]]:
    raw = Database.raw(connection)
    writer = AssignmentWriter(raw, names, NOW)
    batch = next(placements(DATASETS, FILES, BATCHES))
    raw.execute(planner_settings.encode())
    writer._stage(batch, np.ones(len(batch.jobs), dtype=np.bool_))
    text = "EXPLAIN (ANALYZE, FORMAT JSON) " + names.sql(job_row_sql.CLAIM_FILES)
    row = raw.execute(text.encode(), {"now": NAIVE_NOW}).fetchone()
    assert row is not None
    plans = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return list(nodes(plans[0]["Plan"]))


@pytest.fixture(scope="module", params=["of files not ready", "of files ready", "none"])
def estimated_files(test_server: TestServer, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database of files to claim, with the planner's statistics; tests roll back what they claim."""
    with test_server.opened(test_server.create()) as database:
        fill(database, DATASETS, FILES)
        with database.autocommit() as connection:
            if request.param == "of files ready":
                connection.exec_driver_sql("ANALYZE")
            elif request.param == "none":
                connection.exec_driver_sql("DELETE FROM pg_statistic")
        yield database


@pytest.mark.parametrize("planner_settings", PLANNER_SETTINGS)
def test_no_claim_is_compared_with_every_file_of_its_dataset(estimated_files: Database, planner_settings: str) -> None:
    with estimated_files.engine.connect() as connection:  # rolls back on closing
        plan_nodes = claim_plan_nodes(connection, estimated_files.names, planner_settings)
    claim_node = next(node for node in plan_nodes if node.get("Subplan Name") == "CTE claimed")
    assert claim_node["Actual Rows"] == CLAIMED
    assert max(map(rows_compared, plan_nodes)) <= 2 * DATASETS * FILES


def test_every_batch_of_a_large_dataset_is_claimed(database: Database) -> None:
    fill(database, 2, 1000)
    for batch in placements(2, 1000, 4):
        with database.begin() as connection:
            result = AssignmentWriter(Database.raw(connection), database.names, NOW).write(batch)
        assert (result.files, result.skipped_changed) == (500, 0)
    assert all_rows(database, "SELECT nfilesused, count(*) AS n FROM doma_panda.jedi_datasets GROUP BY 1") == [
        {"nfilesused": 1000, "n": 2}
    ]


def test_a_claim_that_exceeds_its_limit_is_cancelled_and_rolled_back(database: Database) -> None:
    seed(database)
    with database.begin() as holder:
        holder.execute(sa.text("SELECT 1 FROM doma_panda.jedi_dataset_contents WHERE fileid = 100 FOR UPDATE"))
        with (
            pytest.raises(ClaimOverTimeError, match=r"within 0\.1 s.*jedi_dataset_contents"),
            database.begin() as claimer,
        ):
            AssignmentWriter(Database.raw(claimer), database.names, NOW, claim_limit_s=0.1).write(
                placement([(1, "CERN", [100, 101])])
            )
    assert all_rows(database, "SELECT pandaid FROM doma_panda.jobsdefined4") == []


@pytest.mark.parametrize(("before", "within"), [("0", "0.1 s"), ("50ms", "0.05 s"), ("10s", "0.1 s")])
def test_the_shorter_limit_applies(database: Database, before: str, within: str) -> None:
    seed(database)
    with database.begin() as holder:
        holder.execute(sa.text("SELECT 1 FROM doma_panda.jedi_dataset_contents WHERE fileid = 100 FOR UPDATE"))
        with pytest.raises(ClaimOverTimeError, match=f"within {within}"), database.begin() as claimer:
            claimer.execute(sa.text(f"SET LOCAL statement_timeout = '{before}'"))
            AssignmentWriter(Database.raw(claimer), database.names, NOW, claim_limit_s=0.1).write(
                placement([(1, "CERN", [100, 101])])
            )


def test_the_limit_ends_with_the_claim(database: Database) -> None:
    seed(database)
    with database.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = '50s'"))
        AssignmentWriter(Database.raw(connection), database.names, NOW).write(placement([(1, "CERN", [100])]))
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "50s"
