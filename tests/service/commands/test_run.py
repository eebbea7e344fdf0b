"""``broker run``, ``broker serve --once`` and ``broker agents`` as an operator uses them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from broker.cli.main import main
from broker.store.connection.database import Database
from broker.store.service import agent_pauses, services
from tests.agents.lifecycle.test_brake import add_jobs
from tests.fault.processes import load_grid, made_jobs, take_lease
from tests.lifecycle.lifecycle_grid import store

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Outcome:
    status: object
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def job_agent_in(result: Outcome) -> dict[str, Any]:
    (job_agent,) = [agent for agent in result.objects if agent["agent"] == "production_job"]
    return job_agent


class Command(Protocol):
    def __call__(self, *arguments: str) -> Outcome: ...


@pytest.fixture
def command(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main(["--db", database.url, *arguments])
        captured = capsys.readouterr()
        return Outcome(end.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def grid(database: Database) -> Database:
    load_grid(database)
    return database


def test_json_prints_one_object_per_chunk_and_nothing_else(grid: Database, command: Command, tmp_path: Path) -> None:
    timings = tmp_path / "timings.json"
    result = command("run", "production_job", "--seed", "1", "--json", "--timings", str(timings))
    assert result.status == 0
    assert sum(sum(chunk["assigned"].values()) for chunk in result.objects) == made_jobs(grid) > 0
    assert all(chunk["brokerage"] == "production_job" for chunk in result.objects)
    document = json.loads(timings.read_text())
    assert document["jobs"] == made_jobs(grid)
    assert document["chunks"] == len(result.objects)
    assert {"load_s", "decide_s", "cut_s", "write_s", "tasks", "candidates"} <= document.keys()


def test_an_agent_without_tasks_reports_its_work(grid: Database, command: Command) -> None:
    result = command("run", "gpu_summary", "--dry-run", "--json")
    assert (result.status, json.loads(result.out)) == (0, {"summary": "mv_worker_node_gpu_summary", "kind": "table"})
    assert "stays as it is" in result.err
    result = command("run", "gpu_summary", "--dry-run")
    assert result.status == 0 and "mv_worker_node_gpu_summary" in result.out
    assert "cycle of gpu_summary: done" in result.err


def test_without_json_a_table_is_printed(grid: Database, command: Command) -> None:
    result = command("run", "production_job", "--seed", "1", "--dry-run")
    assert result.status == 0
    assert "brokered" in result.out
    assert "cycle of production_job: done" in result.err
    assert made_jobs(grid) == 0


def test_the_instant_may_be_given(grid: Database, command: Command) -> None:
    for text in ("2026-08-01T12:00:00", "2026-08-01T12:00:00Z", "2026-08-01T14:00:00+02:00"):
        result = command("run", "production_job", "--at", text, "--seed", "1", "--dry-run", "--json")
        assert result.status == 0
        assert {chunk["snapshot"][:15] for chunk in result.objects} == {"20260801T120000"}


def test_only_requested_tasks_are_brokered(grid: Database, command: Command) -> None:
    all_chunks = command("run", "production_job", "--seed", "1", "--dry-run", "--json").objects
    task = all_chunks[0]["jeditaskid"]
    result = command(
        "run", "production_job", "--seed", "1", "--independent", "--json", "--task", str(task), "--task", "1"
    )
    assert {chunk["jeditaskid"] for chunk in result.objects} == {task, 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "production_job", "--at", "yesterday"), "--at"),
        (("run", "production_job", "--seed", "-1"), "seed"),
        (("run", "production_job", "--task", "x"), "task"),
    ],
)
def test_wrong_usage_exits_with_2(command: Command, arguments: tuple[str, ...], message: str) -> None:
    result = command(*arguments)
    assert result.status == 2
    assert message in result.err
    assert result.out == ""


def test_not_being_the_leader_exits_with_3_and_names_the_leader(grid: Database, command: Command) -> None:
    take_lease(grid, "somebody")
    result = command("run", "production_job", "--seed", "1")
    assert result.status == 3
    assert "somebody" in result.err
    assert result.out == ""
    (error,) = command("run", "production_job", "--seed", "1", "--json").objects
    assert error["error"]["code"] == "refused" and "somebody" in error["error"]["what"]
    assert command("run", "production_job", "--seed", "1", "--json", "--dry-run").status == 0


def test_stale_data_exit_with_3(grid: Database, command: Command) -> None:
    result = command("run", "production_job", "--at", "2026-11-01T12:00:00", "--json")
    assert result.status == 3
    assert "queues is stale" in result.err
    assert made_jobs(grid) == 0


def test_an_unexpected_error_exits_with_1(grid: Database, command: Command) -> None:
    with grid.begin() as connection:
        connection.execute(sa.text("DROP TABLE doma_panda.filestable4"))
    result = command("run", "production_job", "--seed", "1", "--json")
    assert result.status == 1
    assert "filestable4" in result.err
    assert made_jobs(grid) == 0


def test_agents_shows_the_last_run_and_the_leader(grid: Database, command: Command) -> None:
    before = job_agent_in(command("agents", "--json"))
    assert (before["agent"], before["last_outcome"], before["holder"]) == ("production_job", None, None)
    command("run", "production_job", "--seed", "1", "--json")
    take_lease(grid, "somebody")
    after = job_agent_in(command("agents", "--json"))
    assert (after["last_outcome"], after["holder"], after["period_s"]) == ("done", "somebody", 30.0)
    assert after["counts"]["jobs"] == made_jobs(grid)
    assert 0 < after["expires_in_s"] <= 15
    table = command("agents")
    assert table.status == 0
    assert "somebody" in table.out


def test_health_needs_a_recent_heartbeat_from_this_host(
    database: Database, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    assert command("agents", "--health").status == 1
    with database.begin() as connection:
        services.beat(connection, "a", "elsewhere", "1", [])
    assert command("agents", "--health").status == 1
    with database.begin() as connection:
        services.beat(connection, "b", "here", "1", [])
    assert command("agents", "--health").status == 0
    for age_s, status in ((29, 0), (31, 1)):
        with database.begin() as connection:
            connection.execute(
                sa.text("UPDATE broker.services SET seen_at = clock_timestamp() - make_interval(secs => :age)"),
                {"age": age_s},
            )
        assert command("agents", "--health").status == status


@pytest.mark.slow
def test_serve_once_runs_each_agent_once(grid: Database, command: Command) -> None:
    enabled_agents = [agent["agent"] for agent in command("agents", "--json").objects if agent["enabled"]]
    result = command("serve", "--once")
    assert result.status == 1  # the data of the grid are old, so the cycle is refused
    assert "production_job: refused" in result.err
    with grid.begin() as connection:
        runs = connection.execute(sa.text("SELECT agent FROM broker.agent_runs")).scalars().all()
    assert sorted(runs) == sorted(enabled_agents)
    take_lease(grid)
    assert command("serve", "--once").status == 3


def test_a_custom_configuration_folder_is_used(
    grid: Database, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents.yaml").write_text(
        "agents: {production_job: {period_s: 77, cycle_budget_s: 5, enabled: false}}\n"
    )
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    job_agent = job_agent_in(command("agents", "--json"))
    assert (job_agent["period_s"], job_agent["enabled"]) == (77.0, False)
    (tmp_path / "broker.yaml").write_text("profile: none\n")
    result = command("run", "production_job", "--dry-run")
    assert result.status == 1
    assert "none" in result.err


@pytest.mark.slow
def test_force_reports_the_number_of_jobs_and_needs_yes(database: Database, command: Command) -> None:
    store(database, [])
    add_jobs(database, 1, 1000, due=True)
    live = "SELECT count(*) FROM doma_panda.jobsactive4"
    first = command("run", "timeouts", "--force")
    assert first.status == 3 and "1000 of 1000 jobs due" in first.err and "--yes" in first.err
    assert "--dry-run" in first.err and count(database, live) == 1000
    assert command("run", "timeouts", "--force", "--dry-run").status == 0
    assert command("run", "timeouts", "--yes").status == 2
    assert command("run", "timeouts").status == 0 and count(database, live) == 900
    second = command("run", "timeouts", "--force", "--yes")
    assert second.status == 0 and "900 of 900 jobs due" in second.err and count(database, live) == 0


def test_an_agent_paused_by_its_brake_is_shown_as_paused_until_resumed(database: Database, command: Command) -> None:
    with database.begin() as connection:
        agent_pauses.pause(
            connection, "timeouts", until=agent_pauses.UNTIL_RESUMED, reason="due: 9 of 9 jobs", editor="brake"
        )
    (agent,) = [
        agent_document
        for agent_document in command("agents", "--json").objects
        if agent_document["agent"] == "timeouts"
    ]
    assert agent["next_run_at"] is None and agent["pause"]["editor"] == "brake"
    refusal = command("run", "timeouts")
    assert refusal.status == 3 and "paused until it is resumed by brake" in refusal.err
    assert "until resumed by brake: due" in command("agents", "--format", "wide").out
    assert command("resume", "timeouts").status == 0
    assert "paused until" not in command("run", "timeouts").err


def count(database: Database, query: str) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text(query)).scalar_one())
