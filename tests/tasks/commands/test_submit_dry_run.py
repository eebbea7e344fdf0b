"""``broker submit --dry-run``: where jobs would go, and nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.decisions.answers import feasibility as feasible
from broker.errors import NOT_PLACED
from broker.pools.answers.pool_files import shipped_declarations
from broker.store.connection.database import Database
from broker.tasks.answers.submit import Grid, SubmitOptions, plan_description
from broker.tasks.commands import submit
from tests.cli.commands import runner
from tests.fault.processes import load_grid, made_jobs

JOB = """[
 JobName = "fit"; Executable = "/opt/bin/fit"; Owner = "ada"; CPUTime = 3600; NumberOfProcessors = 1; JobType = "User";
 Requirements = [ Memory = 1000000; ]; Tags = a & ~b;
]"""


@pytest.mark.slow
def test_what_fits_nowhere_is_5_and_nothing_is_submitted(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    load_grid(database)
    file = tmp_path / "job.jdl"
    file.write_text(JOB, encoding="utf-8")
    with database.begin() as connection:
        before = connection.exec_driver_sql("SELECT count(*) FROM doma_panda.jedi_tasks").scalar_one()
    broker = runner(capsys, "--db", database.url)
    done = broker("submit", str(file), "--vo", "atlas", "--dry-run", "--json")
    assert done.status == NOT_PLACED, done
    assert done.document["taskname"]
    assert "of a node it asks ms1-" in done.err and "a & ~b" in done.err
    assert all(one["outcome"] != "brokered" for one in done.document["decisions"])
    assert "nothing was submitted" in broker("submit", str(file), "--vo", "atlas", "--dry-run").out
    assert "left out" not in done.err
    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM doma_panda.jedi_tasks").scalar_one() == before
    assert made_jobs(database) == 0


@pytest.mark.slow
def test_tasks_that_are_left_out_are_counted(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_grid(database)
    monkeypatch.setattr(feasible, "MOST_TASKS", 1)
    file = tmp_path / "jobs.jdl"
    file.write_text(JOB, encoding="utf-8")
    options = SubmitOptions(None, "atlas")
    (task,) = plan_description(file, options, Grid(frozenset(), shipped_declarations(), None))
    question = feasible.Question(datetime(2026, 8, 1, 12, tzinfo=UTC), 1, evaluate=False)
    found = feasible.feasibility(database, [task, task, task], question)
    assert (len(found.tasks), found.left_out) == (1, 2)
    assert feasible.feasibility(database, [task], question).left_out == 0
    monkeypatch.setitem(submit.PLANNERS, ".jdl", lambda *given: (task, task, task))
    done = runner(capsys, "--db", database.url)("submit", str(file), "--vo", "atlas", "--dry-run")
    assert "2 tasks were left out: only the first 1 are tried" in done.err
