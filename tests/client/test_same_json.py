"""``--json`` of every command with a route prints the answer of the API, locally and remotely."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from broker.api.server import ApiServer
from broker.cli import entry
from broker.cli.application import build_app
from broker.cli.reference import commands_of
from broker.errors import NOT_PLACED
from broker.pilots.model.pilot_demand import Demand
from broker.pilots.statements.pilot_demand import write_demand
from broker.pools.statements.pool_registration import register
from broker.store.connection.database import Database
from broker.tasks.model.verbs import VERBS
from tests.api.decided import decided_server
from tests.api.serving import TOKEN, client_of
from tests.brokerages.small_grid import TASK
from tests.cli.commands import remote_commands, runner
from tests.conftest import TestServer
from tests.pools.pool_grid import at, pool_for, publish_places, refresh

KEY, WHY = "NQUEUED_SAT_CAP", ("--reason", "try")
POOL = pool_for(Memory=5000)
RULE = {"source": "pilotErrorCode", "code": 1235, "action": "no_retry"}
RULE_OPTIONS = ("--source", "pilotErrorCode", "--code", "1235", "--action", "no_retry")
READING: dict[str, tuple[str, ...]] = {
    "tasks": (),
    "reasons": (),
    "explain": (str(TASK),),
    "why-not": (str(TASK + 2), "ALPHA_MCORE"),
    "history": (str(TASK),),
    "story": (str(TASK),),
    "jobs": ("--task", str(TASK)),
    "job": ("1",),
    "queues": (),
    "queue show": ("ALPHA_MCORE",),
    "nucleus": ("ALPHA",),
    "links": (),
    "shares": (),
    "user": ("prodsys",),
    "agents": (),
    "alarms": (),
    "config list": (),
    "config get": (KEY,),
    "config history": (),
    "config diff": ("1", "2"),
    "run": ("production_job", "--dry-run", "--seed", "3", "--task", str(TASK)),
}
CHANGING: dict[str, tuple[str, ...]] = {
    "config set": (KEY, "77", *WHY),
    "config unset": (KEY, *WHY),
    "config rollback": ("1",),
    "queue set": ("ALPHA_MCORE", "corepower=12", *WHY, "--until", "1h"),
    "queue unset": ("ALPHA_MCORE", "corepower"),
    "pause": ("timeouts", *WHY, "--until", "1h"),
    "resume": ("timeouts",),
}
#: Commands that run before each of the two calls, so that both start from the same state.
BEFORE: dict[str, tuple[str, ...]] = {
    "acknowledge": ("pause", "timeouts", *WHY, "--until", "1h"),
    "retry-rule list": ("retry-rule", "add", *RULE_OPTIONS),
    "alarms": ("pause", "timeouts", *WHY, "--until", "1h"),
    "config set": ("config", "set", KEY, "61", *WHY),
    "config unset": ("config", "set", KEY, "61", *WHY),
    "config rollback": ("config", "set", KEY, "62", *WHY),
    "queue unset": ("queue", "set", "ALPHA_MCORE", "corepower=12", *WHY, "--until", "1h"),
    "resume": ("pause", "timeouts", *WHY, "--until", "1h"),
}
#: Tested where a file or a mapped queue exists, in tests/api/test_routes.py and tests/pools/commands, or where each
#: command can run twice, in tests/tasks/test_verbs_elsewhere.py; mcp in tests/service/test_mcp_stdio.py.
ELSEWHERE = {"mcp", "submit", "match-job", "task submit", *(f"task {verb}" for verb in VERBS)}


@dataclass(frozen=True)
class Question:
    """A command without a remote form, and the request of the same question; {folder} holds the reports of a job.

    Attributes:
        arguments: arguments of the command.
        path: path of the route.
        items: field of the answer whose items the command prints one a line; None for the whole answer.
        body: body of a POST request; None for a GET request.
    """

    arguments: tuple[str, ...]
    path: str
    items: str | None = None
    body: Mapping[str, Any] | None = None


QUESTIONS: dict[str, Question] = {
    "acknowledge": Question(
        ("agent_paused", "--reason", "looking"), "alarms/agent_paused:acknowledge", body={"reason": "looking"}
    ),
    "features report": Question(
        ("--queue", "ALPHA_MCORE", "--machinefeatures", "{folder}/machine", "--jobfeatures", "{folder}/job"),
        "features",
        body={"queue": "ALPHA_MCORE", "reporter": "pilot", "machinefeatures": {"hs06": "fast", "total_cpu": "64"}},
    ),
    "job-status report": Question(
        ("{folder}/status", "--pandaid", "1"),
        "job-status",
        body={"pandaid": 1, "record": {"used_CPU": "6", "last_job_start": "soon"}},
    ),
    "forecast check": Question((), "forecasts/check"),
    "forecast list": Question((), "forecasts"),
    "forecast show": Question((str(TASK),), f"forecasts/tasks/{TASK}"),
    "notify decisions": Question((), "notifications/decisions"),
    "notify list": Question((), "notifications/channels"),
    "pilots demand": Question((), "pilot-demand", "items"),
    "pool list": Question((), "submit-pools", "items"),
    "pool queues": Question((POOL.pool_id,), f"pools/{POOL.pool_id}", "queues"),
    "pool show": Question((POOL.pool_id,), f"pools/{POOL.pool_id}"),
    "quality show": Question((), "quality?cycles=20"),
    "retry-rule add": Question(RULE_OPTIONS, "retry-rules", body=RULE),
    "retry-rule list": Question((), "retry-rules"),
    "retry-rule test": Question(RULE_OPTIONS, "retry-rules:test", body={"rule": RULE}),
    "shadow": Question((), "shadow"),
    "task subscriptions": Question((str(TASK),), f"tasks/{TASK}/subscriptions"),
}
"""Commands that have a route and no remote form."""
OTHERS = {
    "config canary": "lists its group's outcomes as the page does, in tests/tuning",
    "match-job": "also names the pools of the pilot, which is the answer of /pools",
    "notify history": "its messages are compared in tests/notifications/routes/test_notifications.py",
    "retry-rule remove": "prints the rule as retry-rule add does",
    "rules": "reads no database: counts of rejections are left out, and the steps of a profile are added",
    "task show": "joins the answers of /tasks/{task}/requests and /tasks/{task}/retries",
    "task subscribe": "prints the answer of task subscriptions",
    "task unsubscribe": "prints the answer of task subscriptions",
    "import cric": "reads the source itself, where the API takes a document",
    "import network": "reads the source itself, where the API takes a document",
    "import rucio": "reads the source itself, where the API takes a document",
    "import sites": "reads a file of sites, where the API takes documents",
    "import workers": "reads the source itself, where the API takes a document",
    "what-if": "prints decisions as they are made, where the API starts a run",
    "sweep": "prints decisions as they are made, where the API starts a run",
    "replay": "prints decisions as they are made, where the API starts a run",
}
"""Commands that print something else than the route for a similar question, and why."""
NO_ROUTE = {
    "calibrate", "classes", "db dump", "db init", "db load", "db upgrade", "db url", "demo", "doctor",
    "features announce-shutdown", "features read", "features withdraw", "import log", "init", "job-status drain",
    "job-status rank", "job-status read", "job-status write", "match", "notify test", "outcomes", "outputs leave",
    "outputs list", "outputs retry", "plugin labels", "plugin log", "plugin off", "plugin on", "plugin percent",
    "pool check", "pool hash", "pool match", "pool resources", "queue history", "share history", "share list",
    "share remove", "share set", "simulate", "snapshot export", "snapshot import", "snapshot list", "snapshot show",
    "sss export", "sss import", "sss show", "sss validate", "task audit", "timeouts", "why-timeout",
}  # fmt: skip
"""Commands for which the API has no route."""
#: Fields that differ between two calls: times, the caller, and the number of the next version.
OF_THE_MOMENT = {
    "now",
    "until",
    "set_at",
    "editor",
    "version",
    "started_at",
    "finished_at",
    "next_run_at",
    "age_s",
    "since",
    "added_at",
    "added_by",
    "rule",
}


@pytest.fixture(scope="module")
def served_broker(
    test_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as database_and_server:
        for value in ("60", "61"):
            with pytest.raises(SystemExit) as end:
                entry.main(["--db", database_and_server[0].url, "config", "set", KEY, value, *WHY])
            assert end.value.code == 0
        fill(database_and_server[0])
        yield database_and_server


def fill(database: Database) -> None:
    """Add a pool with a queue, and the demand for pilots at a queue."""
    publish_places(database)
    with database.begin() as connection:
        register(connection, POOL, at(0))
    refresh(database, 0)
    demand = Demand("MCORE", 3, 2, {"memory": 1}, 0, 1, 2, 0, "covered", None)
    with database.begin() as connection:
        write_demand(connection, database.names, {"ALPHA_MCORE": [demand]}, "own", at(0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that a job reports: features of its machine, features of the job, and its status."""
    texts = {
        "machine": {"hs06": "fast", "total_cpu": "64"},
        "job": {},
        "status": {"used_CPU": "6", "last_job_start": "soon"},
    }
    for name, keys in texts.items():
        (tmp_path / name).mkdir()
        for key, text in keys.items():
            (tmp_path / name / key).write_text(text, encoding="utf-8")
    return tmp_path


def without_moments(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: None if name in OF_THE_MOMENT else without_moments(value) for name, value in document.items()}
    return [without_moments(item) for item in document] if isinstance(document, list) else document


@pytest.mark.parametrize("path", [*READING, *CHANGING])
def test_a_command_prints_the_answer_of_the_api(
    served_broker: tuple[Database, ApiServer], tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    command, local = (*path.split(), *(READING | CHANGING)[path]), runner(capsys, "--db", served_broker[0].url)
    prepare = BEFORE.get(path)
    assert prepare is None or local(*prepare).status == 0
    local_output = local(*command, "--json")
    assert local_output.status in (0, NOT_PLACED), local_output.err
    assert prepare is None or local(*prepare).status == 0
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--json", "--server", served_broker[1].url, "--token-file", str(token)])
    remote_output = capsys.readouterr()
    assert end.value.code == 0, remote_output.err
    local_documents = [without_moments(json.loads(line)) for line in local_output.out.splitlines()]
    assert (
        local_documents == [without_moments(json.loads(line)) for line in remote_output.out.splitlines()]
        and local_documents
    )
    if path in READING:
        assert [list(document) for document in local_documents] == [
            list(json.loads(line)) for line in remote_output.out.splitlines()
        ], "the order"


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_command_without_a_remote_form_prints_the_answer_of_the_api(
    served_broker: tuple[Database, ApiServer], folder: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    question, local = QUESTIONS[path], runner(capsys, "--db", served_broker[0].url)
    prepare = BEFORE.get(path)
    assert prepare is None or local(*prepare).status == 0
    local_output = local(*path.split(), *(word.format(folder=folder) for word in question.arguments), "--json")
    assert local_output.status == 0, local_output.err
    with client_of(served_broker[1]) as client:
        address = f"/api/v1/{question.path}"
        response = client.get(address) if question.body is None else client.post(address, json=question.body)
    assert response.is_success, response.text
    answers = [response.json()] if question.items is None else response.json()[question.items]
    printed = [json.loads(line) for line in local_output.out.splitlines()]
    assert without_moments(printed) == without_moments(answers) and printed
    assert [list(document) for document in printed] == [list(answer) for answer in answers], "the order"


def test_every_command_with_a_remote_form_is_compared() -> None:
    assert {*READING, *CHANGING} | ELSEWHERE == {*remote_commands()}


def test_every_command_is_compared_or_says_why_it_is_not() -> None:
    printing = {
        " ".join(words[1:])
        for words, command in commands_of(typer.main.get_command(build_app()), ("broker",))
        if any("--json" in parameter.opts for parameter in command.params)
    }
    lists = (
        {*remote_commands()} - OTHERS.keys(),
        QUESTIONS.keys(),
        OTHERS.keys(),
        {name.replace("_", " ") for name in NO_ROUTE},
    )
    assert printing | {"mcp"} == set().union(*lists)
    assert len(set().union(*lists)) == sum(map(len, lists)), "each is in one list"
