"""A submitted task on a grid: its dry run, and its jobs from brokerage and activation to the pilots."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.pilots.answers.jobs import given_job
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.api.serving import client_of, serving
from tests.brokerages import small_grid
from tests.cli.commands import Command, runner
from tests.pilots.panda.pilot_grid import run_agent
from tests.tasks.parameters import constant, parameters

pytestmark = pytest.mark.slow

V1 = "/api/v1"
LATER = small_grid.NOW + timedelta(minutes=1)


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    load(database, small_grid.scenario(), replace=True)
    return runner(capsys, "--db", database.url)


def grid_task(**overrides: Any) -> dict[str, Any]:
    """Parameters of a task that queues of the small grid can run."""
    defaults = {"vo": "atlas", "nucleus": "ALPHA", "coreCount": 8, "ramCount": 1000, "ramUnit": "MBPerCore"}
    return parameters(constant("-n ${SN} -i ${PANDAID}"), **{**defaults, "gshare": small_grid.SHARE, **overrides})


def scalar(database: Database, query: str) -> Any:
    with database.begin() as connection:
        return connection.scalar(sa.text(query))


def write_task(folder: Path, content: object) -> str:
    (folder / "task.json").write_text(json.dumps(content), encoding="utf-8")
    return str(folder / "task.json")


def test_a_dry_run_says_where_jobs_would_go_and_why_they_would_wait(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    before = scalar(database, "SELECT count(*) FROM doma_panda.jedi_tasks")
    result = broker("task", "submit", write_task(tmp_path, grid_task()), "--count", "7", "--dry-run", "--json")
    assert (result.status, result.document["jobs"]) == (0, 7), result.err
    assert result.document["decisions"][-1]["assigned"]
    huge = write_task(tmp_path, grid_task(ramCount=90_000))
    waiting = broker("task", "submit", huge, "--count", "7", "--dry-run")
    assert waiting.status == 5 and "pending" in waiting.out
    assert scalar(database, "SELECT count(*) FROM doma_panda.jedi_tasks") == before


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nucleus": "ALPA"}, "nucleus is 'ALPA': there is none of that name; task parameters; did you mean ALPHA?"),
        ({"site": "BETA,GAMMA_MCOR"}, "site is 'GAMMA_MCOR': there is none of that name"),
    ],
)
def test_an_unknown_nucleus_or_site_is_refused_at_once(
    broker: Command, tmp_path: Path, overrides: dict[str, Any], message: str
) -> None:
    refused = broker("task", "submit", write_task(tmp_path, grid_task(**overrides)), "--count", "1")
    assert refused.status == 2 and message in refused.err, refused.err
    accepted = broker("task", "submit", write_task(tmp_path, grid_task(site="BETA")), "--count", "1")
    assert accepted.status == 0, accepted.err


def test_each_job_of_a_submitted_task_reaches_a_pilot_with_its_own_parameters(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    answer = broker("task", "submit", write_task(tmp_path, grid_task()), "--count", "5", "--json").document
    record, _ = run_agent(database, "production_job", LATER)
    assert record.outcome == "done", record.error
    run_agent(database, "activation", LATER)
    query = sa.text("SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = :task ORDER BY pandaid")
    with database.begin() as connection:
        jobs = list(connection.execute(query, {"task": answer["jeditaskid"]}).scalars())
        pilot_jobs = [given_job(connection, database.names, job) for job in jobs]
    task = answer["jeditaskid"]
    assert [pilot_job.parameters for pilot_job in pilot_jobs] == [
        f"-n {n} -i {job} --out=hits.{task}._{n:06d}.root" for n, job in enumerate(jobs, 1)
    ]
    assert len(jobs) == 5 and all(
        {"output", "log"} <= {file.type for file in pilot_job.files} for pilot_job in pilot_jobs
    )


def test_the_api_creates_the_same_task(database: Database, broker: Command, tmp_path: Path) -> None:
    with serving(database, tmp_path) as server, client_of(server) as client:
        first = post(client, {"parameters": grid_task(), "count": 3, "request": "r-1"})
        assert (first.status_code, first.json()["jobs"]) == (201, 3), first.text
        second = post(client, {"parameters": grid_task(), "count": 3, "request": "r-1"})
        assert second.json()["jeditaskid"] == first.json()["jeditaskid"]
        refused = post(client, {"parameters": grid_task(maxWalltime=86_400), "count": 3})
        assert refused.status_code == 422
        assert "maxWalltime is 86400" in refused.json()["detail"] and "hours" in refused.text


def post(client: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    return client.post(f"{V1}/tasks", json=body)
