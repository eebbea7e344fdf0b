"""A failed payload is explained by one command: from the pilot's report to ``broker job``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.resources import path
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.api.serving import client_of, serving
from tests.brokerages import small_grid
from tests.cli.commands import Command, runner
from tests.pilots.panda.pilot_grid import run_agent
from tests.tasks.running_tasks import MUCH_LATER, column, execute, reported, running, status_of

MEMORY = {"piloterrorcode": 1305, "piloterrordiag": "payload killed: out of memory", "transexitcode": "137"}


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    load(database, small_grid.scenario(), replace=True)
    return runner(capsys, "--db", database.url)


@pytest.fixture
def failed_job(database: Database, broker: Command, tmp_path: Path) -> int:
    """A job killed for its memory use; the other job of its task finished."""
    task = running(database, broker, tmp_path, count=2)
    execute(database, f"UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE jeditaskid = {task}")
    first, second = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task} ORDER BY 1")
    reported(database, first, "failed", MEMORY)
    reported(database, second, "finished")
    run_agent(database, "completion", MUCH_LATER)
    assert status_of(database, task) == "finished"
    return int(first)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_one_command_explains_a_failed_payload(broker: Command, failed_job: int) -> None:
    result = broker("job", str(failed_job))
    assert result.status == 0, result.err
    head = result.out.splitlines()[0]
    cause = "payload killed (SIGKILL), mostly for its memory (trans:137, memory)"
    assert head == f"Failed: {cause}; fault by default: payload or request"
    for word in ("pilot:1305", "out of memory", "ALPHA_MCORE", "why there", "decision", "MB asked", "holding"):
        assert word in result.out, word
    document = broker("job", str(failed_job), "--json").document
    assert document["failure"]["error"] == "trans:137" and document["placement"]["jobs"] == 2
    assert document["placement"]["link"].startswith(f"/api/v1/tasks/{document['jeditaskid']}/decision?at=")
    assert document["attempts"] == [] and document["log_url"] is None
    assert {"activated", "holding", "failed"} <= {step["status"] for step in document["steps"]}


def test_a_retry_with_more_memory_shows_what_changed(database: Database, broker: Command, failed_job: int) -> None:
    task = broker("job", str(failed_job), "--json").document["jeditaskid"]
    assert broker("task", "retry", str(task), "--set", "ramCount=1500").status == 0
    execute(database, "DELETE FROM broker.rebrokered_from")
    for agent in ("production_job", "activation"):
        run_agent(database, agent, MUCH_LATER)
    (retried_job,) = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task}")
    for job in (failed_job, retried_job):
        attempts = broker("job", str(job), "--json").document["attempts"]
        assert [attempt["job"]["pandaid"] for attempt in attempts] == [failed_job, retried_job]
        assert [attempt["changed"] for attempt in attempts] == [{}, {"memory_mb": [7200, 10800]}]
    assert "memory_mb 7200 -> 10800" in broker("job", str(retried_job)).out
    story = broker("history", str(task)).out
    assert "1 x trans:137 payload killed" in story and "retry by" in story


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ((), 2), (("--state", "failed"), 1), (("--state", "running"), 0), (("--queue", "alpha_mcore"), 2),
        (("--queue", "BETA"), 0), (("--error", "137"), 1), (("--error", "trans:137"), 1), (("--error", "pilot:137"), 0),
        (("--error", "memory"), 1), (("--error", "payload"), 1), (("--error", "vanished"), 0), (("--limit", "1"), 1),
    ],
)  # fmt: skip
def test_jobs_are_filtered(
    database: Database, broker: Command, failed_job: int, filters: tuple[str, ...], count: int
) -> None:
    task = column(database, f"SELECT jeditaskid FROM doma_panda.jobsarchived4 WHERE pandaid = {failed_job}")[0]
    jobs = lines(broker("jobs", "--task", str(task), *filters, "--json").out)
    assert len(jobs) == count
    assert all(list(job) == list(jobs[0]) for job in jobs)


def test_a_failed_job_without_any_code_has_vanished(database: Database, broker: Command, failed_job: int) -> None:
    execute(
        database,
        f"UPDATE doma_panda.jobsarchived4 SET piloterrorcode = 0, transexitcode = NULL WHERE pandaid = {failed_job}",
    )
    (job,) = lines(broker("jobs", "--error", "vanished", "--json").out)
    assert (job["pandaid"], job["failure"]["error"], job["failure"]["code"]) == (failed_job, "vanished", None)
    assert broker("jobs", "--error", "vanished").out.count("no code at all") == 1


def test_an_unknown_error_is_refused(broker: Command) -> None:
    refusal = broker("jobs", "--error", "memroy")
    assert refusal.status == 2 and "did you mean memory?" in refusal.err
    assert broker("job", "99999").status == 4


def test_the_log_is_linked_by_the_pattern_of_the_configuration(
    broker: Command, failed_job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = path("config/error_classes.yaml").read_text(encoding="utf-8")
    text = shipped.replace("log_url: null", "log_url: https://logs.example.org/{jeditaskid}/{pandaid}/{log}")
    (tmp_path / "error_classes.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    document = broker("job", str(failed_job), "--json").document
    assert document["log_url"].startswith(f"https://logs.example.org/{document['jeditaskid']}/{failed_job}/log.")


def test_the_api_gives_the_same_pages_of_jobs(
    database: Database, broker: Command, failed_job: int, tmp_path: Path
) -> None:
    printed = lines(broker("jobs", "--json").out)
    with serving(database, tmp_path) as server, client_of(server) as client:
        first = client.get("/api/v1/jobs", params={"limit": 1}).json()
        rest = client.get("/api/v1/jobs", params={"after": first["next_after"]}).json()
        assert [*first["jobs"], *rest["jobs"]] == printed and rest["next_after"] is None
        job = client.get(f"/api/v1/jobs/{failed_job}").json()
        assert job["failure"]["error_class"] == "memory"
        assert client.get("/api/v1/jobs", params={"error": "memroy"}).status_code == 422
