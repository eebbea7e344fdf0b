"""The timeout agent is killed between selection and action, and between action and commit."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from broker.store.connection.database import Database
from tests.fault.processes import PATIENCE_S, broker
from tests.lifecycle.lifecycle_grid import ago, run_once, store
from tests.store.small_work import all_rows

pytestmark = pytest.mark.slow

JOBS = "SELECT pandaid, jobstatus FROM doma_panda.jobs{}4 ORDER BY pandaid"


@pytest.mark.parametrize("point", ["before_write", "after_write_before_commit"])
def test_a_kill_leaves_every_job_consistent(database: Database, tmp_path: Path, point: str) -> None:
    job = {"jobstatus": "sent", "computingsite": "ON", "modificationtime": ago(3600), "jeditaskid": 1}
    file = {"jeditaskid": 1, "datasetid": 1, "fileid": 1, "pandaid": 1, "type": "input", "status": "running"}
    store(
        database,
        [{"pandaid": number, **job} for number in (1, 2)],
        jedi_tasks=[{"jeditaskid": 1, "status": "running"}],
        jedi_datasets=[{"jeditaskid": 1, "datasetid": 1, "nfilesused": 1}],
        jedi_dataset_contents=[{**file, "attemptnr": 0, "maxattempt": 3}],
    )
    with broker(database.url, "run", "timeouts", fault=f"{point}:kill", markers=tmp_path) as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert (tmp_path / point).exists()
    assert len(all_rows(database, JOBS.format("active"))) == 2
    assert all_rows(database, "SELECT 1 FROM broker.job_actions") == []
    assert run_once(database)[0].counts["failed"] == 2
    assert [row["jobstatus"] for row in all_rows(database, JOBS.format("archived"))] == ["failed", "failed"]
    assert all_rows(database, JOBS.format("active")) == []
    assert len(all_rows(database, "SELECT 1 FROM broker.job_actions")) == 2
    (released_file,) = all_rows(database, "SELECT status, attemptnr FROM doma_panda.jedi_dataset_contents")
    assert (released_file["status"], released_file["attemptnr"]) == ("ready", 1)
