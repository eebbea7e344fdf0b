"""``broker submit --dry-run``: it shows where jobs would go and writes nothing."""

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
def test_a_job_that_fits_nowhere_exits_with_5_and_submits_nothing(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    load_grid(database)
    file = tmp_path / "job.jdl"
    file.write_text(JOB, encoding="utf-8")
    with database.begin() as connection:
        before = connection.exec_driver_sql("SELECT count(*) FROM doma_panda.jedi_tasks").scalar_one()
    broker = runner(capsys, "--db", database.url)
    result = broker("submit", str(file), "--vo", "atlas", "--dry-run", "--json")
    assert result.status == NOT_PLACED, result
    assert result.document["taskname"]
    assert "of a node it asks ms1-" in result.err and "a & ~b" in result.err
    assert all(decision["outcome"] != "brokered" for decision in result.document["decisions"])
    assert "nothing was submitted" in broker("submit", str(file), "--vo", "atlas", "--dry-run").out
    assert "left out" not in result.err
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
    answer = feasible.feasibility(database, [task, task, task], question)
    assert (len(answer.tasks), answer.left_out) == (1, 2)
    assert feasible.feasibility(database, [task], question).left_out == 0
    monkeypatch.setitem(submit.PLANNERS, ".jdl", lambda *arguments: (task, task, task))
    result = runner(capsys, "--db", database.url)("submit", str(file), "--vo", "atlas", "--dry-run")
    assert "2 tasks were left out: only the first 1 are tried" in result.err
