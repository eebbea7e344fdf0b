"""A broker process is killed, stopped, disconnected or superseded at a named point of its cycle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.fault.auditor import audit, baseline
from tests.fault.processes import (
    PATIENCE_S,
    broker,
    cycle_here,
    free_leases,
    last_outcome,
    load_grid,
    made_jobs,
    run_arguments,
    take_lease,
    wait_until,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def grid(database: Database) -> Database:
    load_grid(database)
    return database


@pytest.fixture(scope="module")
def fault_free_jobs(make_module_database: Callable[[], Database]) -> int:
    """The number of jobs that an undisturbed cycle creates."""
    database = make_module_database()
    load_grid(database)
    assert cycle_here(database).outcome == "done"
    return made_jobs(database)


@pytest.mark.parametrize(
    ("point", "committed"),
    [
        ("before_snapshot", False),
        ("after_snapshot", False),
        ("before_write", False),
        ("after_write_before_commit", False),
        ("after_commit", True),
    ],
)
def test_a_kill_loses_at_most_uncommitted_work(
    grid: Database, tmp_path: Path, fault_free_jobs: int, point: str, committed: bool
) -> None:
    before = baseline(grid)
    with broker(grid.url, *run_arguments(), fault=f"{point}:kill", markers=tmp_path) as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert (tmp_path / point).exists()
    assert audit(grid, before) == []
    assert made_jobs(grid) == (fault_free_jobs if committed else 0)
    free_leases(grid)
    assert cycle_here(grid).outcome == "done"
    assert audit(grid, before) == []
    assert made_jobs(grid) >= fault_free_jobs
    with grid.begin() as connection:
        outcomes = connection.execute(sa.text("SELECT outcome FROM broker.agent_runs ORDER BY id")).scalars().all()
    assert outcomes == ["interrupted", "done"]


def test_a_leader_paused_past_its_lease_is_refused_when_it_resumes(grid: Database, tmp_path: Path) -> None:
    before = baseline(grid)
    fault = "after_write_before_commit:stop"
    with broker(grid.url, *run_arguments(), fault=fault, markers=tmp_path) as process:
        wait_until((tmp_path / "after_write_before_commit").exists, "the fault point was reached")
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        free_leases(grid)
        lease = take_lease(grid)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 3, errors
    assert made_jobs(grid) == 0
    assert last_outcome(grid) == "lost_lease"
    assert audit(grid, before) == []
    with grid.begin() as connection:
        epochs = connection.execute(sa.text("SELECT max(epoch) FROM broker.agent_runs")).scalar_one()
    assert epochs < lease.epoch


def test_a_second_broker_is_refused_while_the_first_works(grid: Database, tmp_path: Path) -> None:
    before = baseline(grid)
    go = tmp_path / "go"
    with broker(grid.url, *run_arguments(), fault=f"before_write:pause:{go}", markers=tmp_path) as first:
        wait_until((tmp_path / "before_write").exists, "the fault point was reached")
        with broker(grid.url, *run_arguments()) as second:
            assert second.wait(PATIENCE_S) == 3
            assert second.stderr is not None
            assert "not the leader" in second.stderr.read()
        go.touch()
        assert first.wait(PATIENCE_S) == 0
    assert audit(grid, before) == []


def test_tasks_and_files_changed_during_the_cycle_are_skipped_and_counted(grid: Database, tmp_path: Path) -> None:
    before = baseline(grid)
    go = tmp_path / "go"
    fault = f"before_write:pause:{go}"
    with broker(grid.url, *run_arguments("--json"), fault=fault, markers=tmp_path) as process:
        wait_until((tmp_path / "before_write").exists, "the fault point was reached")
        with grid.begin() as connection:
            tasks = connection.execute(
                sa.text(
                    "SELECT jeditaskid FROM doma_panda.jedi_dataset_contents JOIN doma_panda.jedi_datasets AS dataset"
                    " USING (jeditaskid, datasetid) WHERE jedi_dataset_contents.status = 'ready' AND masterid IS NULL"
                    " GROUP BY jeditaskid ORDER BY count(*) DESC LIMIT 2"
                )
            ).scalars()
            aborted_task, changed_task = tasks
            connection.execute(
                sa.text("UPDATE doma_panda.jedi_tasks SET status = 'aborting' WHERE jeditaskid = :id"),
                {"id": aborted_task},
            )
            connection.execute(
                sa.text(
                    "UPDATE doma_panda.jedi_dataset_contents SET status = 'lost' WHERE fileid IN (SELECT fileid"
                    " FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :id AND status = 'ready'"
                    " AND datasetid = (SELECT min(datasetid) FROM doma_panda.jedi_datasets WHERE jeditaskid = :id"
                    " AND masterid IS NULL) ORDER BY fileid LIMIT 1)"
                ),
                {"id": changed_task},
            )
        go.touch()
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert audit(grid, before) == []
    assert '"reason": "task_changed"' in out
    with grid.begin() as connection:
        counts = connection.execute(sa.text("SELECT counts FROM broker.agent_runs")).scalar_one()
        status = connection.execute(
            sa.text("SELECT status FROM doma_panda.jedi_tasks WHERE jeditaskid = :id"), {"id": aborted_task}
        )
        assert status.scalar_one() == "aborting"
    assert (counts["tasks_skipped"], counts["skipped_changed"]) == (1, 1)


def test_a_connection_lost_during_the_write_is_a_transient_failure(grid: Database, tmp_path: Path) -> None:
    before = baseline(grid)
    go = tmp_path / "go"
    fault = f"after_write_before_commit:pause:{go}"
    with broker(grid.url, *run_arguments(), fault=fault, markers=tmp_path) as process:
        wait_until((tmp_path / "after_write_before_commit").exists, "the fault point was reached")
        with grid.begin() as connection:
            result = connection.execute(
                sa.text(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    " AND datname = current_database() AND state = 'idle in transaction'"
                )
            )
            assert result.scalar_one() == 1
        go.touch()
        assert process.wait(PATIENCE_S) == 1
    assert last_outcome(grid) == "failed_transient"
    assert made_jobs(grid) == 0
    assert audit(grid, before) == []
    assert cycle_here(grid).outcome == "done"
    assert audit(grid, before) == []
