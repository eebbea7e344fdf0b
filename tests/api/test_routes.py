"""The routes on a small grid: answers and writes agree with those of the commands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.api.server import ApiServer
from broker.feeds.answers.source_documents import SOURCES
from broker.store.connection.database import Database
from broker.store.schema.migrate import STANDALONE
from tests.api.decided import decided_server
from tests.api.serving import client_of
from tests.brokerages.small_grid import TASK
from tests.cli.commands import Command, runner
from tests.conftest import TestServer

V1 = "/api/v1"
OWN = [TASK, TASK + 1, TASK + 2]
JDL = '[ Executable = "run"; JobName = "one"; CPUTime = 1000; ]'


@pytest.fixture(scope="module")
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as database_and_server:
        yield database_and_server


@pytest.fixture(scope="module")
def client(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1]) as http_client:
        yield http_client


@pytest.fixture(scope="module")
def stranger(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1], {}) as http_client:
        yield http_client


@pytest.fixture
def broker(decided: tuple[Database, ApiServer], capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", decided[0].url)


def json_of(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_the_numbers_of_a_decision_add_up(client: httpx.Client) -> None:
    answer = json_of(client.get(f"{V1}/tasks/{TASK + 2}/decision"))
    (decision,) = answer["decisions"]
    assert decision["outcome"] == "pending" and decision["jeditaskid"] == TASK + 2
    summary = decision["summary"]
    rejected = sum(rejection["rejected"]["queues"] for rejection in summary["rejections"])
    assert summary["start"]["queues"] == rejected + summary["chosen"]["queues"]
    evaluated = json_of(client.get(f"{V1}/tasks/{TASK + 2}/decision", params={"evaluate": True}))
    assert evaluated["decisions"][0]["near_misses"] and evaluated["decisions"][0]["remedies"]["evaluated"]


def test_a_task_without_a_decision_is_not_found(client: httpx.Client) -> None:
    answer = client.get(f"{V1}/tasks/1/decision")
    assert (answer.status_code, answer.json()["exit_status"], answer.json()["code"]) == (404, 4, "nothing_found")


def test_decisions_in_bulk_and_line_by_line(client: httpx.Client) -> None:
    request = {"jeditaskids": [TASK, 1, TASK + 1, TASK]}
    answer = json_of(client.post(f"{V1}/tasks:decisions", json=request))
    assert ([line["task"]["jeditaskid"] for line in answer["tasks"]], answer["unknown"]) == ([TASK, TASK + 1], [1])
    stream = client.post(f"{V1}/tasks:decisions", json=request, headers={"Accept": "application/x-ndjson"})
    assert lines(stream.text) == answer["tasks"]


def test_tasks_and_reasons(client: httpx.Client) -> None:
    first_page = json_of(client.get(f"{V1}/tasks", params={"limit": 2}))
    assert first_page["total"] == 3 and len(first_page["tasks"]) == 2 and first_page["tasks"][0]["outcome"] == "pending"
    second_page = json_of(client.get(f"{V1}/tasks", params={"limit": 2, "after": first_page["next_after"]}))
    assert {line["task"]["jeditaskid"] for page in (first_page, second_page) for line in page["tasks"]} == {
        TASK,
        TASK + 1,
        TASK + 2,
    }
    reasons = json_of(client.get(f"{V1}/reasons", params={"window": 3600}))
    assert sum(line["chunks"] for line in reasons["lines"]) == sum(reasons["waiting"].values()) == 1


def test_user_names_need_a_token(client: httpx.Client, stranger: httpx.Client) -> None:
    name = json_of(client.get(f"{V1}/tasks"))["tasks"][0]["task"]["username"]
    masked = json_of(stranger.get(f"{V1}/tasks"))["tasks"][0]["task"]["username"]
    assert name and masked == "***"
    assert name not in stranger.get(f"{V1}/tasks").text
    assert stranger.get(f"{V1}/tasks", params={"user": name}).status_code == 401


def test_decide_agrees_with_broker_run(client: httpx.Client, broker: Command) -> None:
    result = broker("run", "production_job", "--dry-run", "--seed", "7", "--task", str(TASK), "--json")
    assert result.status == 5, result.err  # decided, but without a placement
    answer = client.post(f"{V1}/brokerage/production_job:decide", json={"jeditaskids": [TASK], "seed": 7})
    assert json_of(answer)["decisions"] == lines(result.out) and json_of(answer)["seed"] == 7
    unknown = client.post(f"{V1}/brokerage/nothing:decide", json={})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "no_such_brokerage")


def test_feasibility_promises_and_stores_nothing(client: httpx.Client, decided: tuple[Database, ApiServer]) -> None:
    before = _count_tasks(decided[0])
    answer = json_of(client.post(f"{V1}/feasibility", json={"kind": "jdl", "text": JDL, "nucleus": "NUC", "seed": 1}))
    assert answer["promise"] == "feasibility, no promise"
    (task,) = answer["tasks"]
    assert task["decisions"] and task["decisions"][0]["brokerage"] == "production_job"
    parameters = {"taskName": "t", "coreCount": 8, "ramCount": 90_000, "ramUnit": "MBPerCore", "nucleus": "ALPHA"}
    parameters |= {"transPath": "run.sh", "noInput": True, "nFiles": 1}
    huge = json_of(client.post(f"{V1}/feasibility", json={"kind": "task", "text": json.dumps(parameters)}))
    (decision,) = huge["tasks"][0]["decisions"]
    assert decision["outcome"] != "brokered" and decision["summary"]["rejections"]
    assert _count_tasks(decided[0]) == before


def test_an_invalid_job_description_is_a_problem(client: httpx.Client) -> None:
    for kind, text in (("jdl", "Executable = "), ("sss", "<x"), ("cfg", "]["), ("task", "[1]"), ("task", "{")):
        answer = client.post(f"{V1}/feasibility", json={"kind": kind, "text": text})
        assert answer.status_code in (400, 409, 422), (kind, answer.text)
        assert answer.json()["code"] and "gridbroker-" not in answer.text


def test_a_submission_with_an_idempotency_key_counts_once(
    client: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    before = _count_tasks(decided[0])
    request = {"kind": "jdl", "text": JDL, "user": "ann"}
    first, repeated = (
        client.post(f"{V1}/submissions", json=request, headers={"Idempotency-Key": "k1"}) for _ in range(2)
    )
    assert json_of(first, 201) == json_of(repeated, 201) and repeated.headers["idempotent-replayed"] == "true"
    assert _count_tasks(decided[0]) == before + 1
    conflicting = client.post(f"{V1}/submissions", json={**request, "user": "bob"}, headers={"Idempotency-Key": "k1"})
    assert (conflicting.status_code, conflicting.json()["code"]) == (422, "idempotency_key_reused")
    with decided[0].begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.jedi_tasks WHERE jeditaskid <> ALL(:own)"), {"own": OWN})


def test_values_are_set_shown_and_rolled_back(client: httpx.Client, broker: Command) -> None:
    key = f"{V1}/config/NQUEUED_SAT_CAP"
    version = json_of(client.get(key))["version"]
    conflict = client.put(key, json={"value": 99, "reason": "r"}, headers={"If-Match": str(version + 7)})
    assert (conflict.status_code, conflict.json()["code"]) == (412, "version_conflict")
    response = client.put(key, json={"value": 99, "reason": "links were upgraded"}, headers={"If-Match": str(version)})
    change = json_of(response)
    assert change["changed"][0]["new"] == "99" and response.headers["x-tuning-version"] == str(change["version"])
    assert json_of(client.get(key)) == broker("config", "get", "NQUEUED_SAT_CAP", "--json").document
    items = json_of(client.get(f"{V1}/config", params={"only_set": True, "limit": 500}))["items"]
    assert "NQUEUED_SAT_CAP" in [item["key"] for item in items]
    (newest, *_) = json_of(client.get(f"{V1}/config/history", params={"key": "NQUEUED_SAT_CAP"}))["items"]
    assert (newest["editor"], newest["reason"]) == (
        json_of(client.get(f"{V1}/whoami"))["subject"],
        "links were upgraded",
    )
    assert json_of(client.delete(key, params={"reason": "back"}))["changed"][0]["action"] == "unset"
    rollback = json_of(client.post(f"{V1}/config:rollback", json={"version": change["version"]}))
    difference = json_of(
        client.get(f"{V1}/config/diff", params={"first": change["version"], "second": rollback["version"]})
    )
    assert rollback["version"] > change["version"] and difference["items"] == []
    out_of_range = client.put(key, json={"value": -5, "reason": "r"})
    assert (out_of_range.status_code, out_of_range.json()["exit_status"]) == (409, 3)
    assert client.get(f"{V1}/config/NOTHING").status_code == 404


def test_pins_and_canaries(client: httpx.Client) -> None:
    pin = json_of(
        client.put(f"{V1}/queues/BETA/pins/status", json={"value": "brokeroff", "reason": "broken", "for_s": 3600})
    )
    assert pin["holds"] and pin["value"] == "brokeroff"
    assert [pin_line["queue"] for pin_line in json_of(client.get(f"{V1}/pins"))["items"]] == ["BETA"]
    assert json_of(client.delete(f"{V1}/queues/BETA/pins/status"))["ended"]
    refusal = client.put(f"{V1}/queues/BETA/pins/status", json={"value": "asleep", "reason": "x", "for_s": 5})
    assert refusal.status_code == 422
    request = {"values": {"NQUEUED_SAT_CAP": 50}, "share": 0.1, "for_s": 600, "reason": "try"}
    canary = json_of(client.post(f"{V1}/canaries", json=request), 201)
    assert canary["running"] and canary["set"] == {"NQUEUED_SAT_CAP": 50}
    assert client.post(f"{V1}/canaries", json=request).status_code == 409
    assert not json_of(client.post(f"{V1}/canaries:stop"))["running"]
    assert json_of(client.get(f"{V1}/canaries"))["items"][0]["canary"] == canary["canary"]


def test_factories_see_the_demand_of_a_queue(client: httpx.Client) -> None:
    demand = json_of(client.get(f"{V1}/queues/ALPHA_MCORE/demand"))
    assert demand["queue"] == "ALPHA_MCORE" and demand["last_cycle_at"]
    assert client.get(f"{V1}/queues/NOWHERE/demand").status_code == 404
    assert json_of(client.get(f"{V1}/pools", params={"site": "A", "ce": "B", "queue": "C"}))["pools"] == []


def test_uploaded_sources_are_checked(client: httpx.Client) -> None:
    document = json.dumps({"ALPHA:BETA": {"mbps": {"dashb": {"1h": 5, "timestamp": "2026-08-01T11:59:00"}}}}).encode()

    def put(body: bytes, digest: str | None = None, taken_at: str = "2026-08-01T12:00:00") -> httpx.Response:
        sha256 = digest or hashlib.sha256(body).hexdigest()
        return client.put(f"{V1}/sources/network", params={"sha256": sha256, "taken_at": taken_at}, content=body)

    assert put(document, "0" * 64).json()["code"] == "digest_differs"
    assert put(document, taken_at="2999-01-01T00:00:00").json()["code"] == "taken_in_the_future"
    refusal = put(b"{")
    assert (refusal.status_code, refusal.json()["code"]) == (400, "document_not_taken"), refusal.text
    assert json_of(put(document))["source"] == "network"
    assert "network" in json_of(client.get(f"{V1}/sources"))["takes"]
    assert client.put(f"{V1}/sources/nothing", params={"sha256": "0" * 64, "taken_at": "2026-08-01"}).status_code == 404


@pytest.mark.parametrize("name", SOURCES)
def test_sources_of_pandas_own_tables_are_refused_alongside_panda(
    client: httpx.Client, decided: tuple[Database, ApiServer], name: str
) -> None:
    params = {"sha256": hashlib.sha256(b"{").hexdigest(), "taken_at": "2026-08-01T12:00:00"}
    _set_mode(decided[0], "beside")
    try:
        answer = client.put(f"{V1}/sources/{name}", params=params, content=b"{")
    finally:
        _set_mode(decided[0], STANDALONE)
    expected = (409, "tables_of_panda") if SOURCES[name].pandas else (400, "document_not_taken")
    assert (answer.status_code, answer.json()["code"]) == expected, answer.text


def _set_mode(database: Database, mode: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.installation SET mode = :mode"), {"mode": mode})


def _count_tasks(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM doma_panda.jedi_tasks")).scalar_one())


@pytest.mark.parametrize(
    ("path", "command", "key"),
    [
        ("queues", ("queues",), "queues"),
        ("queues/ALPHA_MCORE?evaluate=true", ("queue", "show", "ALPHA_MCORE"), None),
        ("shares", ("shares",), "shares"),
        ("links", ("links",), "links"),
        ("reasons", ("reasons",), "lines"),
        ("tasks?limit=1000", ("tasks",), "tasks"),
        ("alarms", ("alarms",), "alarms"),
    ],
)
def test_answers_agree_with_the_command(
    client: httpx.Client, broker: Command, path: str, command: tuple[str, ...], key: str | None
) -> None:
    answer = json_of(client.get(f"{V1}/{path}"))
    result = broker(*command, "--json")
    assert result.status == 0, result.err
    documents = lines(result.out)
    answers = answer[key] if key is not None and len(documents) != 1 else [answer]
    assert _comparable(answers) == _comparable(documents)


def test_history_and_why_not_agree_with_the_commands(client: httpx.Client, broker: Command) -> None:
    events = json_of(client.get(f"{V1}/tasks/{TASK + 2}/history"))["events"]
    assert lines(broker("history", str(TASK + 2), "--json").out) == events
    (answer,) = json_of(client.get(f"{V1}/tasks/{TASK + 2}/why-not/ALPHA_MCORE"))["answers"]
    (printed_answer,) = lines(broker("why-not", str(TASK + 2), "ALPHA_MCORE", "--json").out)
    assert printed_answer == answer
    assert client.get(f"{V1}/tasks/{TASK + 2}/why-not/NOWHERE").status_code == 404


def _comparable(documents: list[Any]) -> Any:
    """The documents with times written alike: ``Z`` for ``+00:00``."""
    return json.loads(json.dumps(documents).replace('+00:00"', 'Z"'))


def test_nuclei_jobs_users_pools_rules_and_the_service(client: httpx.Client) -> None:
    nuclei = json_of(client.get(f"{V1}/nuclei"))["nuclei"]
    assert json_of(client.get(f"{V1}/nuclei/{nuclei[0]['nucleus']}"))["line"] == nuclei[0]
    assert json_of(client.get(f"{V1}/jobs/1"))["computingsite"] == "ALPHA_MCORE"
    name = json_of(client.get(f"{V1}/tasks"))["tasks"][0]["task"]["username"]
    assert json_of(client.get(f"{V1}/users/{name}"))["user"] == name
    assert client.get(f"{V1}/pools/nothing").status_code == 404
    assert json_of(client.get(f"{V1}/rules/production_job"))["rules"][0]["position"] in (0, 1)
    assert {agent["agent"] for agent in json_of(client.get(f"{V1}/agents"))["agents"]} >= {
        "production_job",
        "cleanup",
    }


def test_agents_are_paused_and_resumed(client: httpx.Client) -> None:
    request = {"reason": "maintenance", "for_s": 600}
    pause = json_of(client.post(f"{V1}/agents/cleanup:pause", json=request))
    assert pause["reason"] == "maintenance"
    assert "agent_paused" in [alarm["code"] for alarm in json_of(client.get(f"{V1}/alarms"))["alarms"]]
    assert json_of(client.post(f"{V1}/agents/cleanup:resume"))["resumed"]
    refusal = client.post(f"{V1}/agents/clean:pause", json=request)
    assert refusal.status_code == 404 and "cleanup" in refusal.json()["remedy"]


def test_a_cached_decision_is_served_until_it_changes(
    client: httpx.Client, stranger: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    path = f"{V1}/tasks/{TASK}/decision"
    first = client.get(path)
    headers = {"If-None-Match": first.headers["etag"]}
    assert client.get(path).json()["decisions"] == json_of(first)["decisions"] == json_of(client.get(path))["decisions"]
    assert client.get(path, headers=headers).status_code == 304, "another instant of the question is no other answer"
    assert json_of(stranger.get(path))["task"]["username"] == "***" != json_of(client.get(path))["task"]["username"]
    assert json_of(client.get(path, params={"fields": "task.jeditaskid"})) == {"task": {"jeditaskid": TASK}}
    change = sa.text("UPDATE doma_panda.jedi_tasks SET errordialog = :text WHERE jeditaskid = :task")
    for text in ("it changed", None):
        with decided[0].begin() as connection:
            connection.execute(change, {"text": text, "task": TASK})
        response = client.get(path, headers=headers if text else {})
        assert json_of(response)["task"]["errordialog"] == text
    assert response.headers["etag"] == first.headers["etag"]
    with decided[0].begin() as connection:
        connection.execute(sa.text("UPDATE broker.chunk_states SET seen_again = seen_again + 3"))
    assert json_of(client.get(path))["decisions"][0]["times_seen"] == json_of(first)["decisions"][0]["times_seen"] + 3
    with decided[0].begin() as connection:
        connection.execute(sa.text("UPDATE broker.chunk_states SET seen_again = seen_again - 3"))


def test_a_cached_decision_outlives_its_database_connection(
    client: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    path = f"{V1}/tasks/{TASK}/decision"
    answers = [json_of(client.get(path))["decisions"] for _ in range(2)]
    with decided[0].autocommit() as connection:
        query = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = 'gridbroker decisions' AND datname = current_database()"""
        assert set(connection.execute(sa.text(query)).scalars()) == {True}
    assert [json_of(client.get(path))["decisions"] for _ in range(2)] == answers
