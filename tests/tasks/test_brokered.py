"""A submitted task on a grid: what a dry run says, and jobs that are brokered, activated and given to pilots."""

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


def grid_task(**given: Any) -> dict[str, Any]:
    """A task that queues of the small grid can run."""
    about = {"vo": "atlas", "nucleus": "ALPHA", "coreCount": 8, "ramCount": 1000, "ramUnit": "MBPerCore"}
    return parameters(constant("-n ${SN} -i ${PANDAID}"), **{**about, "gshare": small_grid.SHARE, **given})


def scalar(database: Database, query: str) -> Any:
    with database.begin() as connection:
        return connection.scalar(sa.text(query))


def written(folder: Path, content: object) -> str:
    (folder / "task.json").write_text(json.dumps(content), encoding="utf-8")
    return str(folder / "task.json")


def test_a_dry_run_says_where_jobs_would_go_and_why_they_would_wait(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    before = scalar(database, "SELECT count(*) FROM doma_panda.jedi_tasks")
    placed = broker("task", "submit", written(tmp_path, grid_task()), "--count", "7", "--dry-run", "--json")
    assert (placed.status, placed.document["jobs"]) == (0, 7), placed.err
    assert placed.document["decisions"][-1]["assigned"]
    huge = written(tmp_path, grid_task(ramCount=90_000))
    waits = broker("task", "submit", huge, "--count", "7", "--dry-run")
    assert waits.status == 5 and "pending" in waits.out
    assert scalar(database, "SELECT count(*) FROM doma_panda.jedi_tasks") == before


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"nucleus": "ALPA"}, "nucleus is 'ALPA': there is none of that name; task parameters; did you mean ALPHA?"),
        ({"site": "BETA,GAMMA_MCOR"}, "site is 'GAMMA_MCOR': there is none of that name"),
    ],
)
def test_a_place_that_is_not_there_is_refused_at_once(
    broker: Command, tmp_path: Path, given: dict[str, Any], what: str
) -> None:
    refused = broker("task", "submit", written(tmp_path, grid_task(**given)), "--count", "1")
    assert refused.status == 2 and what in refused.err, refused.err
    taken = broker("task", "submit", written(tmp_path, grid_task(site="BETA")), "--count", "1")
    assert taken.status == 0, taken.err


def test_jobs_of_a_submitted_task_reach_pilots_each_with_its_own_call(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    told = broker("task", "submit", written(tmp_path, grid_task()), "--count", "5", "--json").document
    record, _ = run_agent(database, "production_job", LATER)
    assert record.outcome == "done", record.error
    run_agent(database, "activation", LATER)
    query = sa.text("SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = :task ORDER BY pandaid")
    with database.begin() as connection:
        jobs = list(connection.execute(query, {"task": told["jeditaskid"]}).scalars())
        given = [given_job(connection, database.names, job) for job in jobs]
    task = told["jeditaskid"]
    assert [one.parameters for one in given] == [
        f"-n {n} -i {job} --out=hits.{task}._{n:06d}.root" for n, job in enumerate(jobs, 1)
    ]
    assert len(jobs) == 5 and all({"output", "log"} <= {file.type for file in one.files} for one in given)


def test_the_api_makes_the_same_task(database: Database, broker: Command, tmp_path: Path) -> None:
    with serving(database, tmp_path) as server, client_of(server) as client:
        made = post(client, {"parameters": grid_task(), "count": 3, "request": "r-1"})
        assert (made.status_code, made.json()["jobs"]) == (201, 3), made.text
        again = post(client, {"parameters": grid_task(), "count": 3, "request": "r-1"})
        assert again.json()["jeditaskid"] == made.json()["jeditaskid"]
        refused = post(client, {"parameters": grid_task(maxWalltime=86_400), "count": 3})
        assert refused.status_code == 422
        assert "maxWalltime is 86400" in refused.json()["detail"] and "hours" in refused.text


def post(client: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    return client.post(f"{V1}/tasks", json=body)
