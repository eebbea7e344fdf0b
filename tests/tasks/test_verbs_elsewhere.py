"""Task verbs over HTTP and through ``broker --server`` act as on the broker's own machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.cli import entry
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.api.serving import TOKEN, client_of, serving
from tests.brokerages import small_grid
from tests.cli.commands import Command, runner
from tests.tasks.parameters import parameters

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    load(database, small_grid.scenario(), replace=True)
    return runner(capsys, "--db", database.url)


def write_task(folder: Path, **overrides: Any) -> str:
    defaults = {"vo": "atlas", "nucleus": "ALPHA", "gshare": small_grid.SHARE}
    (folder / "task.json").write_text(json.dumps(parameters(**{**defaults, **overrides})), encoding="utf-8")
    return str(folder / "task.json")


def submit_task(broker: Command, folder: Path) -> int:
    result = broker("task", "submit", write_task(folder), "--count", "4", "--json")
    assert result.status == 0, result.err
    return int(result.document["jeditaskid"])


def test_the_api_acts_on_tasks_too(database: Database, broker: Command, tmp_path: Path) -> None:
    task = submit_task(broker, tmp_path)
    with serving(database, tmp_path) as server, client_of(server) as client:
        paused = client.post(f"/api/v1/tasks/{task}:pause", json={"reason": "looking"})
        assert (paused.status_code, paused.json()["status"]) == (200, "paused"), paused.text
        refused = client.post(f"/api/v1/tasks/{task}:retry", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
        assert f"task {task} is paused" in refused.json()["detail"]
        for verb, body in (
            ("resume", {}),
            ("priority", {"priority": 7}),
            ("try-now", {}),
            ("reassign", {"anew": True}),
        ):
            response = client.post(f"/api/v1/tasks/{task}:{verb}", json=body)
            assert (response.status_code, response.json()["verb"]) == (200, verb), response.text
        assert client.post(f"/api/v1/tasks/{task}:reassign", json={}).status_code == 422
        assert client.post(f"/api/v1/tasks/{task}:priority", json={"priority": -1}).status_code == 422
        assert client.post("/api/v1/tasks/999:kill", json={}).status_code == 404
        assert client.post(f"/api/v1/tasks/{task}:kill", json={}).json()["status"] == "aborted"
        retry = client.post(f"/api/v1/tasks/{task}:retry", json={"new_parameters": {"ramCount": 2000}})
        assert retry.json()["status"] == "assigning"
        client.post(f"/api/v1/tasks/{task}:kill", json={})
        wrong = client.post(f"/api/v1/tasks/{task}:retry", json={"new_parameters": {"ramCount": 2}})
        assert wrong.status_code == 422 and "ramCount is 2" in wrong.json()["detail"]
    with serving(database, tmp_path) as server, client_of(server, {}) as client:
        assert client.post(f"/api/v1/tasks/{task}:kill", json={}).status_code == 401


def test_a_task_is_submitted_and_acted_on_remotely(
    database: Database, broker: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with serving(database, tmp_path) as server:

        def run_remotely(*words: str) -> dict[str, Any]:
            options = ("--server", server.url, "--token-file", str(tmp_path / "token"), "--json")
            with pytest.raises(SystemExit) as end:
                entry.main(["task", *words, *options])
            captured = capsys.readouterr()
            assert end.value.code == 0, captured.err
            document: dict[str, Any] = json.loads(captured.out)
            return document

        submitted = run_remotely("submit", write_task(tmp_path), "--count", "4")
        made = broker("task", "submit", write_task(tmp_path), "--count", "4", "--json").document
        assert list(submitted) == list(made) and {**submitted, "jeditaskid": 0} == {**made, "jeditaskid": 0}
        assert submitted["jobs"] == 4
        task = str(submitted["jeditaskid"])
        steps = (
            ("pause", ()), ("resume", ()), ("priority", ("900",)), ("reassign", ("--site", "BETA")), ("try-now", ()),
            ("finish", ("--soft",)), ("retry", ("--set", "ramCount=2000")), ("kill", ()),
        )  # fmt: skip
        local_task = str(submit_task(broker, tmp_path))
        for verb, words in steps:
            remote = run_remotely(verb, task, *words, "--reason", "why")
            local = broker("task", verb, local_task, *words, "--reason", "why", "--json").document
            assert {**remote, "jeditaskid": 0} == {**local, "jeditaskid": 0}, verb
        assert broker("task", "audit", task, "--json").out.count("why") == len(steps)
