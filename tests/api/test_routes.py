"""The routes against a small grid: each answer is what the command prints, and each write is what the command does."""

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
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def client(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1]) as found:
        yield found


@pytest.fixture(scope="module")
def stranger(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1], {}) as found:
        yield found


@pytest.fixture
def broker(decided: tuple[Database, ApiServer], capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", decided[0].url)


def good(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def lines(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def test_a_decision_with_its_verdict_and_numbers_that_add_up(client: httpx.Client) -> None:
    found = good(client.get(f"{V1}/tasks/{TASK + 2}/decision"))
    (decision,) = found["decisions"]
    assert decision["outcome"] == "pending" and decision["jeditaskid"] == TASK + 2
    summary = decision["summary"]
    rejected = sum(one["rejected"]["queues"] for one in summary["rejections"])
    assert summary["start"]["queues"] == rejected + summary["chosen"]["queues"]
    again = good(client.get(f"{V1}/tasks/{TASK + 2}/decision", params={"evaluate": True}))
    assert again["decisions"][0]["near_misses"] and again["decisions"][0]["remedies"]["evaluated"]


def test_a_task_that_nobody_looked_at_is_not_found(client: httpx.Client) -> None:
    answer = client.get(f"{V1}/tasks/1/decision")
    assert (answer.status_code, answer.json()["exit_status"], answer.json()["code"]) == (404, 4, "nothing_found")


def test_decisions_in_bulk_and_line_by_line(client: httpx.Client) -> None:
    asked = {"jeditaskids": [TASK, 1, TASK + 1, TASK]}
    found = good(client.post(f"{V1}/tasks:decisions", json=asked))
    assert ([one["task"]["jeditaskid"] for one in found["tasks"]], found["unknown"]) == ([TASK, TASK + 1], [1])
    streamed = client.post(f"{V1}/tasks:decisions", json=asked, headers={"Accept": "application/x-ndjson"})
    assert lines(streamed.text) == found["tasks"]


def test_tasks_and_reasons(client: httpx.Client) -> None:
    listed = good(client.get(f"{V1}/tasks", params={"limit": 2}))
    assert listed["total"] == 3 and len(listed["tasks"]) == 2 and listed["tasks"][0]["outcome"] == "pending"
    after = good(client.get(f"{V1}/tasks", params={"limit": 2, "after": listed["next_after"]}))
    assert {one["task"]["jeditaskid"] for page in (listed, after) for one in page["tasks"]} == {
        TASK,
        TASK + 1,
        TASK + 2,
    }
    reasons = good(client.get(f"{V1}/reasons", params={"window": 3600}))
    assert sum(one["chunks"] for one in reasons["lines"]) == sum(reasons["waiting"].values()) == 1


def test_names_of_users_are_for_those_with_a_token(client: httpx.Client, stranger: httpx.Client) -> None:
    own = good(client.get(f"{V1}/tasks"))["tasks"][0]["task"]["username"]
    shown = good(stranger.get(f"{V1}/tasks"))["tasks"][0]["task"]["username"]
    assert own and shown == "***"
    assert own not in stranger.get(f"{V1}/tasks").text
    assert stranger.get(f"{V1}/tasks", params={"user": own}).status_code == 401


def test_decide_is_broker_run(client: httpx.Client, broker: Command) -> None:
    printed = broker("run", "production_job", "--dry-run", "--seed", "7", "--task", str(TASK), "--json")
    assert printed.status == 5, printed.err  # decided, and placed nowhere
    answer = client.post(f"{V1}/brokerage/production_job:decide", json={"jeditaskids": [TASK], "seed": 7})
    assert good(answer)["decisions"] == lines(printed.out) and good(answer)["seed"] == 7
    unknown = client.post(f"{V1}/brokerage/nothing:decide", json={})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "no_such_brokerage")


def test_feasibility_promises_nothing_and_keeps_nothing(
    client: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    before = _tasks(decided[0])
    found = good(client.post(f"{V1}/feasibility", json={"kind": "jdl", "text": JDL, "nucleus": "NUC", "seed": 1}))
    assert found["promise"] == "feasibility, no promise"
    (task,) = found["tasks"]
    assert task["decisions"] and task["decisions"][0]["brokerage"] == "production_job"
    parameters = {"taskName": "t", "coreCount": 8, "ramCount": 90_000, "ramUnit": "MBPerCore", "nucleus": "ALPHA"}
    parameters |= {"transPath": "run.sh", "noInput": True, "nFiles": 1}
    huge = good(client.post(f"{V1}/feasibility", json={"kind": "task", "text": json.dumps(parameters)}))
    (decision,) = huge["tasks"][0]["decisions"]
    assert decision["outcome"] != "brokered" and decision["summary"]["rejections"]
    assert _tasks(decided[0]) == before


def test_a_description_that_is_not_understood_is_a_problem(client: httpx.Client) -> None:
    for kind, text in (("jdl", "Executable = "), ("sss", "<x"), ("cfg", "]["), ("task", "[1]"), ("task", "{")):
        answer = client.post(f"{V1}/feasibility", json={"kind": kind, "text": text})
        assert answer.status_code in (400, 409, 422), (kind, answer.text)
        assert answer.json()["code"] and "gridbroker-" not in answer.text


def test_submissions_count_once_with_a_key(client: httpx.Client, decided: tuple[Database, ApiServer]) -> None:
    before = _tasks(decided[0])
    asked = {"kind": "jdl", "text": JDL, "user": "ann"}
    first, again = (client.post(f"{V1}/submissions", json=asked, headers={"Idempotency-Key": "k1"}) for _ in range(2))
    assert good(first, 201) == good(again, 201) and again.headers["idempotent-replayed"] == "true"
    assert _tasks(decided[0]) == before + 1
    other = client.post(f"{V1}/submissions", json={**asked, "user": "bob"}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    with decided[0].begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.jedi_tasks WHERE jeditaskid <> ALL(:own)"), {"own": OWN})


def test_values_are_set_shown_and_rolled_back(client: httpx.Client, broker: Command) -> None:
    key = f"{V1}/config/NQUEUED_SAT_CAP"
    version = good(client.get(key))["version"]
    wrong = client.put(key, json={"value": 99, "reason": "r"}, headers={"If-Match": str(version + 7)})
    assert (wrong.status_code, wrong.json()["code"]) == (412, "version_conflict")
    done = client.put(key, json={"value": 99, "reason": "links were upgraded"}, headers={"If-Match": str(version)})
    changed = good(done)
    assert changed["changed"][0]["new"] == "99" and done.headers["x-tuning-version"] == str(changed["version"])
    assert good(client.get(key)) == broker("config", "get", "NQUEUED_SAT_CAP", "--json").document
    listed = good(client.get(f"{V1}/config", params={"only_set": True, "limit": 500}))["items"]
    assert "NQUEUED_SAT_CAP" in [one["key"] for one in listed]
    (newest, *_) = good(client.get(f"{V1}/config/history", params={"key": "NQUEUED_SAT_CAP"}))["items"]
    assert (newest["editor"], newest["reason"]) == (good(client.get(f"{V1}/whoami"))["subject"], "links were upgraded")
    assert good(client.delete(key, params={"reason": "back"}))["changed"][0]["action"] == "unset"
    rolled = good(client.post(f"{V1}/config:rollback", json={"version": changed["version"]}))
    found = good(client.get(f"{V1}/config/diff", params={"first": changed["version"], "second": rolled["version"]}))
    assert rolled["version"] > changed["version"] and found["items"] == []
    out_of_range = client.put(key, json={"value": -5, "reason": "r"})
    assert (out_of_range.status_code, out_of_range.json()["exit_status"]) == (409, 3)
    assert client.get(f"{V1}/config/NOTHING").status_code == 404


def test_pins_and_canaries(client: httpx.Client) -> None:
    held = good(
        client.put(f"{V1}/queues/BETA/pins/status", json={"value": "brokeroff", "reason": "broken", "for_s": 3600})
    )
    assert held["holds"] and held["value"] == "brokeroff"
    assert [one["queue"] for one in good(client.get(f"{V1}/pins"))["items"]] == ["BETA"]
    assert good(client.delete(f"{V1}/queues/BETA/pins/status"))["ended"]
    wrong = client.put(f"{V1}/queues/BETA/pins/status", json={"value": "asleep", "reason": "x", "for_s": 5})
    assert wrong.status_code == 422
    asked = {"values": {"NQUEUED_SAT_CAP": 50}, "share": 0.1, "for_s": 600, "reason": "try"}
    started = good(client.post(f"{V1}/canaries", json=asked), 201)
    assert started["running"] and started["set"] == {"NQUEUED_SAT_CAP": 50}
    assert client.post(f"{V1}/canaries", json=asked).status_code == 409
    assert not good(client.post(f"{V1}/canaries:stop"))["running"]
    assert good(client.get(f"{V1}/canaries"))["items"][0]["canary"] == started["canary"]


def test_factories_see_what_a_queue_can_use(client: httpx.Client) -> None:
    found = good(client.get(f"{V1}/queues/ALPHA_MCORE/demand"))
    assert found["queue"] == "ALPHA_MCORE" and found["last_cycle_at"]
    assert client.get(f"{V1}/queues/NOWHERE/demand").status_code == 404
    assert good(client.get(f"{V1}/pools", params={"site": "A", "ce": "B", "queue": "C"}))["pools"] == []


def test_sources_are_taken_whole_and_checked(client: httpx.Client) -> None:
    document = json.dumps({"ALPHA:BETA": {"mbps": {"dashb": {"1h": 5, "timestamp": "2026-08-01T11:59:00"}}}}).encode()

    def put(body: bytes, digest: str | None = None, taken_at: str = "2026-08-01T12:00:00") -> httpx.Response:
        sha256 = digest or hashlib.sha256(body).hexdigest()
        return client.put(f"{V1}/sources/network", params={"sha256": sha256, "taken_at": taken_at}, content=body)

    assert put(document, "0" * 64).json()["code"] == "digest_differs"
    assert put(document, taken_at="2999-01-01T00:00:00").json()["code"] == "taken_in_the_future"
    refused = put(b"{")
    assert (refused.status_code, refused.json()["code"]) == (400, "document_not_taken"), refused.text
    assert good(put(document))["source"] == "network"
    assert "network" in good(client.get(f"{V1}/sources"))["takes"]
    assert client.put(f"{V1}/sources/nothing", params={"sha256": "0" * 64, "taken_at": "2026-08-01"}).status_code == 404


@pytest.mark.parametrize("name", SOURCES)
def test_alongside_panda_its_own_tables_are_not_taken(
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


def _tasks(database: Database) -> int:
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
def test_answers_are_those_of_the_command(
    client: httpx.Client, broker: Command, path: str, command: tuple[str, ...], key: str | None
) -> None:
    found = good(client.get(f"{V1}/{path}"))
    printed = broker(*command, "--json")
    assert printed.status == 0, printed.err
    documents = lines(printed.out)
    shown = found[key] if key is not None and len(documents) != 1 else [found]
    assert _comparable(shown) == _comparable(documents)


def test_history_and_why_not_say_what_the_commands_say(client: httpx.Client, broker: Command) -> None:
    events = good(client.get(f"{V1}/tasks/{TASK + 2}/history"))["events"]
    assert lines(broker("history", str(TASK + 2), "--json").out) == events
    (answered,) = good(client.get(f"{V1}/tasks/{TASK + 2}/why-not/ALPHA_MCORE"))["answers"]
    (told,) = lines(broker("why-not", str(TASK + 2), "ALPHA_MCORE", "--json").out)
    assert told == answered
    assert client.get(f"{V1}/tasks/{TASK + 2}/why-not/NOWHERE").status_code == 404


def _comparable(documents: list[Any]) -> Any:
    """Times written alike: ``Z`` is ``+00:00``; ages that go on by themselves are left aside."""
    return json.loads(json.dumps(documents).replace('+00:00"', 'Z"'))


def test_nuclei_jobs_users_pools_rules_and_the_service(client: httpx.Client) -> None:
    nuclei = good(client.get(f"{V1}/nuclei"))["nuclei"]
    assert good(client.get(f"{V1}/nuclei/{nuclei[0]['nucleus']}"))["line"] == nuclei[0]
    assert good(client.get(f"{V1}/jobs/1"))["computingsite"] == "ALPHA_MCORE"
    own = good(client.get(f"{V1}/tasks"))["tasks"][0]["task"]["username"]
    assert good(client.get(f"{V1}/users/{own}"))["user"] == own
    assert client.get(f"{V1}/pools/nothing").status_code == 404
    assert good(client.get(f"{V1}/rules/production_job"))["rules"][0]["position"] in (0, 1)
    assert {one["agent"] for one in good(client.get(f"{V1}/agents"))["agents"]} >= {"production_job", "cleanup"}


def test_agents_are_paused_and_resumed(client: httpx.Client) -> None:
    asked = {"reason": "maintenance", "for_s": 600}
    paused = good(client.post(f"{V1}/agents/cleanup:pause", json=asked))
    assert paused["reason"] == "maintenance"
    assert "agent_paused" in [one["code"] for one in good(client.get(f"{V1}/alarms"))["alarms"]]
    assert good(client.post(f"{V1}/agents/cleanup:resume"))["resumed"]
    wrong = client.post(f"{V1}/agents/clean:pause", json=asked)
    assert wrong.status_code == 404 and "cleanup" in wrong.json()["remedy"]


def test_a_decision_that_was_told_before_is_told_again_until_something_of_it_changes(
    client: httpx.Client, stranger: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    path = f"{V1}/tasks/{TASK}/decision"
    first = client.get(path)
    held = {"If-None-Match": first.headers["etag"]}
    assert client.get(path).json()["decisions"] == good(first)["decisions"] == good(client.get(path))["decisions"]
    assert client.get(path, headers=held).status_code == 304, "another instant of the question is no other answer"
    assert good(stranger.get(path))["task"]["username"] == "***" != good(client.get(path))["task"]["username"]
    assert good(client.get(path, params={"fields": "task.jeditaskid"})) == {"task": {"jeditaskid": TASK}}
    change = sa.text("UPDATE doma_panda.jedi_tasks SET errordialog = :text WHERE jeditaskid = :task")
    for text in ("it changed", None):
        with decided[0].begin() as connection:
            connection.execute(change, {"text": text, "task": TASK})
        changed = client.get(path, headers=held if text else {})
        assert good(changed)["task"]["errordialog"] == text
    assert changed.headers["etag"] == first.headers["etag"]
    with decided[0].begin() as connection:
        connection.execute(sa.text("UPDATE broker.chunk_states SET seen_again = seen_again + 3"))
    assert good(client.get(path))["decisions"][0]["times_seen"] == good(first)["decisions"][0]["times_seen"] + 3
    with decided[0].begin() as connection:
        connection.execute(sa.text("UPDATE broker.chunk_states SET seen_again = seen_again - 3"))


def test_a_kept_decision_outlives_the_connection_that_asks_for_it(
    client: httpx.Client, decided: tuple[Database, ApiServer]
) -> None:
    path = f"{V1}/tasks/{TASK}/decision"
    told = [good(client.get(path))["decisions"] for _ in range(2)]
    with decided[0].autocommit() as connection:
        query = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = 'gridbroker decisions' AND datname = current_database()"""
        assert set(connection.execute(sa.text(query)).scalars()) == {True}
    assert [good(client.get(path))["decisions"] for _ in range(2)] == told
