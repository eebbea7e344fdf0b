"""``broker submit --dry-run``: where jobs would go, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import NOT_PLACED
from broker.store.connection.database import Database
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
    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM doma_panda.jedi_tasks").scalar_one() == before
    assert made_jobs(database) == 0
