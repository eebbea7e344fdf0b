"""The submitter with a fake batch system: crashes around a submission, unknown numbers, jobs of lost pilots."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agents.pilots.batch_systems import BatchFailed, PilotJob, PsiJ
from agents.pilots.submitter import SubmitterAgent, SubmitterOptions
from agents.service.base import CycleContext
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from tests.agents.pilots.test_pilot_demand import count_demand, jobs, prepare
from tests.pilots.panda.pilot_grid import NOW, rows

PILOTS = "SELECT worker, state, native_id, outcome FROM broker.submitted_pilots ORDER BY worker"
COUNTS = "SELECT computingsite, resourcetype, status, n_workers FROM doma_panda.harvester_worker_stats ORDER BY 3"


class Crash(BaseException):
    """The end of the process."""


@dataclass
class FakeBatch:
    """A batch system that keeps its jobs in memory.

    ``crash``: the process ends before or after the next submission.
    """

    jobs: dict[str, PilotJob] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    crash: str = ""
    refuses: bool = False

    def submit(self, job: PilotJob) -> str:
        if self.refuses:
            raise BatchFailed("Invalid partition", "executor slurm", "")
        if self.crash == "before":
            raise Crash
        native = str(100 + len(self.jobs))
        self.jobs[native], self.states[native] = job, "QUEUED"
        if self.crash == "after":
            raise Crash
        return native

    def find(self, name: str) -> str | None:
        return next((native for native, job in self.jobs.items() if job.name == name), None)

    def state(self, native: str) -> str:
        return self.states.get(native, "COMPLETED")

    def cancel(self, native: str) -> None:
        self.states[native] = "CANCELED"


@pytest.fixture
def batch() -> FakeBatch:
    return FakeBatch()


def options(folder: Path, **fields: Any) -> SubmitterOptions:
    queue = {"executor": "slurm", "command": ["/pilot", "{queue}", "{worker}"], **fields}
    return SubmitterOptions.model_validate({"folder": folder, "queues": {"Q": queue}})


def cycle(database: Database, batch: FakeBatch, submitter_options: SubmitterOptions, now: datetime = NOW) -> RunRecord:
    agent = SubmitterAgent(submitter_options, ProcessSettings())
    agent.connect = lambda executor: batch
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        lease = leases.acquire(connection, "submitter", "test", LeaseTerms()).lease
    assert lease is not None
    run_id = open_run(database, "submitter", lease)
    return run_cycle(agent, CycleContext(database, now, 1, 60.0, lease=lease, run_id=run_id))


def prepare_demand(database: Database, number: int, **data: Any) -> None:
    prepare(database, jobs(number), data)
    with database.begin() as connection:
        connection.execute(sa.text("TRUNCATE broker.submitted_pilots RESTART IDENTITY"))
    count_demand(database)


def test_wanted_pilots_are_submitted_once_and_followed(
    shared_database: Database, batch: FakeBatch, tmp_path: Path
) -> None:
    prepare_demand(shared_database, 2)
    submitter_options = options(tmp_path, batch_queue="main", environment={"A": "b"})
    assert cycle(shared_database, batch, submitter_options).counts["submitted"] == 2
    assert cycle(shared_database, batch, submitter_options).counts["submitted"] == 0, (
        "the same demand is not served twice"
    )
    job = batch.jobs["100"]
    assert job.name.startswith("gridbroker-gridbroker-1-")
    assert (job.command, job.queue) == (["/pilot", "Q", "1"], "main")
    assert (job.cores, job.memory_mb, job.walltime_s) == (1, 2000, 86400), "an eighth of the slot"
    assert job.environment == {"A": "b", "HARVESTER_ID": "gridbroker", "HARVESTER_WORKER_ID": "1"}
    assert rows(shared_database, COUNTS) == [("Q", "SCORE", "submitted", 2)]
    batch.states |= {"100": "ACTIVE"}
    cycle(shared_database, batch, submitter_options)
    assert rows(shared_database, COUNTS) == [("Q", "SCORE", "running", 1), ("Q", "SCORE", "submitted", 1)]
    assert rows(shared_database, PILOTS) == [(1, "running", "100", None), (2, "submitted", "101", None)]
    del batch.states["101"]
    with shared_database.begin() as connection:
        connection.execute(
            sa.text("UPDATE doma_panda.harvester_workers SET pilotstatus = 'finished' WHERE workerid = 1")
        )
    batch.states["100"] = "COMPLETED"
    cycle(shared_database, batch, submitter_options)
    assert rows(shared_database, PILOTS) == [(1, "ended", "100", "finished"), (2, "ended", "101", "ended")]
    assert rows(shared_database, COUNTS)[0][3] == 0


@pytest.mark.parametrize(("crash", "expected"), [("before", ("ended", None)), ("after", ("submitted", "100"))])
def test_a_crash_around_the_submission_is_healed_by_the_name(
    shared_database: Database, batch: FakeBatch, tmp_path: Path, crash: str, expected: tuple[str, str | None]
) -> None:
    prepare_demand(shared_database, 1)
    submitter_options = options(tmp_path)
    batch.crash = crash
    with pytest.raises(Crash):
        cycle(shared_database, batch, submitter_options)
    batch.crash = ""
    assert rows(shared_database, PILOTS) == [(1, "planned", None, None)]
    cycle(shared_database, batch, submitter_options, NOW + timedelta(seconds=59))
    assert len(batch.jobs) == (crash == "after") and rows(shared_database, PILOTS)[0][1] == "planned"
    cycle(shared_database, batch, submitter_options, NOW + timedelta(seconds=60))
    (worker, state, native, _), *_ = rows(shared_database, PILOTS)
    assert (worker, state, native) == (1, *expected)


def test_a_refusal_and_an_old_demand_are_noted(shared_database: Database, batch: FakeBatch, tmp_path: Path) -> None:
    prepare_demand(shared_database, 3)
    batch.refuses = True
    record = cycle(shared_database, batch, options(tmp_path))
    assert record.counts["refused"] == 1 and any("Invalid partition" in note for note in record.notes)
    batch.refuses = False
    record = cycle(shared_database, batch, options(tmp_path), NOW + timedelta(seconds=301))
    assert not batch.jobs and any("was counted more than 300 s ago" in note for note in record.notes)


def test_a_job_whose_pilot_is_gone_and_silent_is_tried_again(
    shared_database: Database, batch: FakeBatch, tmp_path: Path
) -> None:
    prepare_demand(shared_database, 1)
    submitter_options = options(tmp_path)
    cycle(shared_database, batch, submitter_options)
    with shared_database.begin() as connection:
        stamp = NOW.replace(tzinfo=None)
        connection.execute(
            sa.text("UPDATE doma_panda.jobsactive4 SET jobstatus = 'running', modificationtime = :n"), {"n": stamp}
        )
        connection.execute(
            sa.text("INSERT INTO doma_panda.harvester_rel_jobs_workers VALUES ('gridbroker', 1, 1, :n)"), {"n": stamp}
        )
    batch.states["100"] = "CANCELED"
    assert cycle(shared_database, batch, submitter_options, NOW + timedelta(seconds=10)).counts["lost_jobs"] == 0
    assert cycle(shared_database, batch, submitter_options, NOW + timedelta(seconds=309)).counts["lost_jobs"] == 0
    assert cycle(shared_database, batch, submitter_options, NOW + timedelta(seconds=310)).counts["lost_jobs"] == 1
    archived = "SELECT jobstatus, taskbuffererrorcode FROM doma_panda.jobsarchived4"
    assert rows(shared_database, archived) == [("failed", 300)]


def test_without_psij_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psij", None)
    with pytest.raises(BatchFailed, match="submitter"):
        PsiJ("slurm", 10)


AT_SLURM = {"queues": [{"ce_endpoint": "main", "ce_flavour": "SLURM"}]}


def test_a_queue_says_where_its_pilots_go_and_how_many(
    shared_database: Database, batch: FakeBatch, tmp_path: Path
) -> None:
    prepare_demand(shared_database, 9, **AT_SLURM, params={"nQueueLimitWorker": 2, "maxWorkers": None})
    submitter_options = SubmitterOptions.model_validate(
        {"folder": tmp_path, "command": ["/pilot", "{queue}"], "queues": {"Q": {}}}
    )
    assert cycle(shared_database, batch, submitter_options).counts["submitted"] == 2
    assert (batch.jobs["100"].queue, batch.jobs["100"].command) == ("main", ["/pilot", "Q"])


def test_the_options_override_the_settings_of_the_queue(
    shared_database: Database, batch: FakeBatch, tmp_path: Path
) -> None:
    prepare_demand(shared_database, 9, **AT_SLURM, params={"nQueueLimitWorker": 2})
    submitter_options = options(tmp_path, most_waiting=1)
    assert cycle(shared_database, batch, submitter_options).counts["submitted"] == 1
    assert batch.jobs["100"].queue is None, "an executor that is named has the default of its batch system"


@pytest.mark.parametrize(
    ("data", "fields", "note"),
    [
        (AT_SLURM, {"queues": {"Q": {}}}, "no command of pilots is named"),
        ({"queues": []}, {"command": ["/p"], "queues": {"Q": {}}}, "its batch system is not named"),
        ({"queues": [{"ce_flavour": "HTCONDOR-CE"}]}, {"command": ["/p"], "queues": {"Q": {}}}, "is HTCONDOR-CE"),
        ({"queues": AT_SLURM["queues"] * 2}, {"command": ["/p"], "queues": {"Q": {}}}, "its batch system is not named"),
    ],
)
def test_a_queue_with_incomplete_settings_is_noted(
    shared_database: Database, batch: FakeBatch, tmp_path: Path, data: dict[str, Any], fields: dict[str, Any], note: str
) -> None:
    prepare_demand(shared_database, 1, **data)
    record = cycle(shared_database, batch, SubmitterOptions.model_validate({"folder": tmp_path, **fields}))
    assert not batch.jobs and any(note in line for line in record.notes), record.notes
