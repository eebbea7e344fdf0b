"""The client and ``broker --server``: commands print the same from a remote machine as locally."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from broker.api.server import ApiServer
from broker.cli import entry, remote
from broker.store.connection.database import Database
from gridbroker_client import (
    BrokerClient,
    BrokerProblem,
    BrokerUnreachable,
    NoToken,
    connection,
    find_token,
    token_from_file,
)
from tests.api.decided import decided_server
from tests.api.serving import TOKEN
from tests.brokerages.small_grid import TASK
from tests.cli.commands import remote_commands, runner
from tests.conftest import TestServer


@pytest.fixture(scope="module")
def served_broker(
    test_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as database_and_server:
        yield database_and_server


@pytest.fixture
def client(served_broker: tuple[Database, ApiServer]) -> Iterator[BrokerClient]:
    with BrokerClient(served_broker[1].url, lambda: TOKEN) as broker_client:
        yield broker_client


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


def test_methods_of_the_client(client: BrokerClient) -> None:
    assert client.whoami()["issuer"] == "local"
    assert client.tasks(limit=1)["total"] == 3
    assert not client.explain(TASK + 2)["decisions"][0]["remedies"]["evaluated"]
    assert client.explain(TASK + 2, evaluate=True)["decisions"][0]["near_misses"]
    assert not client.queue("ALPHA_MCORE")["limits"] and client.queue("ALPHA_MCORE", evaluate=True)["limits"]
    assert client.why_not(TASK + 2, "ALPHA_MCORE")["answers"]
    assert client.decisions([TASK])["tasks"][0]["task"]["jeditaskid"] == TASK
    assert client.run("production_job", tasks=[TASK], seed=1)["decisions"]
    assert len(list(client.config_list())) > 80
    setting = client.config_set("NQUEUED_SAT_CAP", 88, reason="try")
    assert client.config_get("NQUEUED_SAT_CAP")["value"] == 88
    with pytest.raises(BrokerProblem) as conflict:
        client.config_set("NQUEUED_SAT_CAP", 89, reason="try", expect_version=setting["version"] + 9)
    assert (conflict.value.status, conflict.value.code, conflict.value.exit_status) == (412, "version_conflict", 3)
    assert client.match_job("A", "B", "C", pilot="p", request_number=1)["pandaid"] is None
    with pytest.raises(BrokerProblem, match="nothing_found"):
        client.explain(1)
    with pytest.raises(BrokerProblem, match="there is no user /DC=org/CN=~Jane"):
        client.user("/DC=org/CN=~Jane")


def test_an_unreachable_broker_is_retried() -> None:
    pauses: list[float] = []
    client = BrokerClient("http://127.0.0.1:9", timeout_s=2, sleep=pauses.append)
    with client, pytest.raises(BrokerUnreachable):
        client.whoami()
    assert pauses == [0.5, 1.0]


@pytest.mark.parametrize(
    ("number", "retry_after", "wait_s"),
    [
        (0, None, 0.5),
        (1, None, 1.0),
        (2, None, 2.0),
        (0, "7", 7.0),
        (1, " 0 ", 0.0),
        (0, "30", 30.0),
        (0, "31", 30.0),
        (0, "Sat, 01 Aug 2026 12:00:09 GMT", 9.0),
        (0, "Sat, 01 Aug 2026 11:59:00 GMT", 0.0),
        (0, "Sun, 02 Aug 2026 12:00:00 GMT", 30.0),
        (1, "-1", 1.0),
        (1, "soon", 1.0),
        (1, "\N{SUPERSCRIPT TWO}", 1.0),
        (1, "9" * 5000, 30.0),
        (1, "Sat, 99 Aug 2026 12:00:09 GMT", 1.0),
    ],
)
def test_how_long_to_wait_before_the_next_try(number: int, retry_after: str | None, wait_s: float) -> None:
    assert connection.pause_s(number, retry_after, datetime(2026, 8, 1, 12, tzinfo=UTC)) == wait_s


def test_a_busy_broker_is_retried_after_the_time_it_names() -> None:
    pauses: list[float] = []
    answers = iter(
        [
            httpx.Response(429, json={"code": "too_many_requests"}, headers={"Retry-After": "3"}),
            httpx.Response(503, json={"code": "starting"}),
            httpx.Response(200, json={"issuer": "local"}),
        ]
    )
    transport = httpx.MockTransport(lambda request: next(answers))
    with BrokerClient("http://broker", transport=transport, sleep=pauses.append) as client:
        assert client.whoami()["issuer"] == "local"
    assert pauses == [3.0, 1.0]


def test_where_a_token_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "bt_u7"
    file.write_text("from-runtime\n")
    assert find_token({"BEARER_TOKEN": " mine "}, 7)() == "mine"
    assert find_token({"BEARER_TOKEN_FILE": str(file)}, 8)() == "from-runtime"
    assert find_token({"XDG_RUNTIME_DIR": str(tmp_path)}, 7)() == "from-runtime"
    read_token = token_from_file(file)
    file.write_text("renewed\nand a remark\n")
    assert read_token() == "renewed"
    assert find_token({"BEARER_TOKEN_FILE": str(file)}, 8)() == "renewed"
    file.write_text("\nrenewed\n")
    with pytest.raises(NoToken, match="bt_u7: its first line holds no token"):
        read_token()
    file.write_text("")
    with pytest.raises(NoToken, match="bt_u7: its first line holds no token"):
        find_token({"XDG_RUNTIME_DIR": str(tmp_path)}, 7)()


@pytest.mark.parametrize(
    "command",
    [
        ("tasks",),
        ("reasons",),
        ("queues",),
        ("queue", "show", "ALPHA_MCORE"),
        ("shares",),
        ("config", "get", "NQUEUED_SAT_CAP"),
        ("run", "production_job", "--dry-run", "--seed", "3", "--task", str(TASK)),
    ],
)
def test_a_remote_command_prints_the_same_json(
    served_broker: tuple[Database, ApiServer],
    token_file: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    local = runner(capsys, "--db", served_broker[0].url)(*command, "--json")
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--json", "--server", served_broker[1].url, "--token-file", str(token_file)])
    remote_output = capsys.readouterr()
    assert (end.value.code, remote_output.err) == (0, "")
    assert [_plain(line) for line in remote_output.out.splitlines()] == [
        _plain(line) for line in local.out.splitlines()
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("tasks",),
        ("tasks", "--status", "pending"),
        ("reasons",),
        ("explain", str(TASK)),
        ("explain", str(TASK + 2)),
        ("why-not", str(TASK + 2), "ALPHA_MCORE"),
        ("history", str(TASK)),
        ("queues",),
        ("queue", "show", "ALPHA_MCORE"),
        ("nucleus",),
        ("nucleus", "ALPHA"),
        ("links",),
        ("shares",),
        ("alarms",),
    ],
)
def test_a_remote_command_prints_the_same_tables(
    served_broker: tuple[Database, ApiServer],
    token_file: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    local = runner(capsys, "--db", served_broker[0].url)(*command)
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--server", served_broker[1].url, "--token-file", str(token_file)])
    remote_output = capsys.readouterr()
    assert (end.value.code, remote_output.err) == (0, "")
    assert remote_output.out == local.out and not remote_output.out.startswith("{")


def test_an_answer_of_another_version_is_refused_with_its_field(
    monkeypatch: pytest.MonkeyPatch, served_broker: tuple[Database, ApiServer], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(BrokerClient, "shares", lambda client: {"now": "2026-01-01T00:00:00Z", "parts": []})
    with pytest.raises(SystemExit) as end:
        entry.main(["shares", "--server", served_broker[1].url])
    assert end.value.code == 1
    assert "another version" in (message := capsys.readouterr().err) and "field" in message and "--json" in message


def _plain(line: str) -> Any:
    return json.loads(line.replace('+00:00"', 'Z"'))


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("explain", "1"), 4),
        (("config", "set", "NQUEUED_SAT_CAP", "-1", "--reason", "x"), 3),
        (("db", "init"), 2),
        (("run", "production_job"), 2),
        (("tasks", "--nothing"), 2),
    ],
)
def test_exit_statuses_of_remote_commands(
    served_broker: tuple[Database, ApiServer],
    token_file: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    status: int,
) -> None:
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--server", served_broker[1].url, "--token-file", str(token_file)])
    assert end.value.code == status
    assert capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--format", "json", "--server", served_broker[1].url, "--token-file", str(token_file)])
    output = capsys.readouterr()
    error = json.loads(output.out)["error"]
    assert (end.value.code, error["exit_status"], output.err) == (status, status, "")
    assert set(error) == {"code", "exit_status", "what", "where", "what_to_do"} and error["what"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("config", "set", "NQUEUED_SAT_CAP", "61", "--reason", "x", "--dry-run"), "--dry-run"),
        (("config", "set", "NQUEUED_SAT_CAP", "61", "--reason", "x", "--preview", "--yes"), "--preview and --yes"),
        (("pause", "production_job", "--until", "1h", "--reason", "x", "--editor", "ann"), "--editor"),
        (("run", "production_job", "--dry-run", "--profile", "flow"), "--profile"),
        (("explain", str(TASK), "--exit-code"), "--exit-code"),
        (("why-not", str(TASK), "ALPHA_MCORE", "--every-rule"), "--every-rule"),
        (("history", str(TASK), "--last", "2"), "--last"),
        (("agents", "--health"), "--health"),
        (("queues", "--watch", "1"), "--watch"),
    ],
)
def test_an_option_that_a_remote_command_does_not_know_is_refused_before_any_request(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    token_file: Path,
    command: tuple[str, ...],
    option: str,
) -> None:
    requests: list[object] = []
    monkeypatch.setattr(BrokerClient, "get", lambda *request, **parameters: requests.append(request))
    monkeypatch.setattr(BrokerClient, "send", lambda *request, **parameters: requests.append(request))
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--server", "http://127.0.0.1:9", "--token-file", str(token_file)])
    assert (end.value.code, requests) == (2, [])
    assert f"knows {option} on the broker's own machine only" in capsys.readouterr().err


def test_the_limit_of_moved_jobs_goes_with_a_change(monkeypatch: pytest.MonkeyPatch, token_file: Path) -> None:
    bodies: list[object] = []

    def send(client: BrokerClient, method: str, path: str, body: object, **parameters: object) -> dict[str, object]:
        bodies.append(body)
        return {}

    monkeypatch.setattr(BrokerClient, "send", send)
    command = ("config", "set", "NQUEUED_SAT_CAP", "61", "--reason", "x", "--may-move", "5")
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--server", "http://127.0.0.1:9", "--token-file", str(token_file)])
    assert (end.value.code, bodies) == (0, [{"value": "61", "reason": "x", "may_move": 5}])


@pytest.mark.parametrize(
    ("layout", "lines"),
    [
        ("csv", ["name,count,parts", 'a,1,"1, 2"', "b,,"]),
        ("table", ["name\tcount", "a\t1", "b\t"]),
    ],
)
def test_documents_of_a_remote_command_are_printed_as_asked(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    token_file: Path,
    layout: str,
    lines: list[str],
) -> None:
    """CSV has every column, also of one document."""
    documents = [{"name": "a", "count": 1, "parts": [1, 2]}, {"name": "b", "count": None, "parts": []}]
    monkeypatch.setattr(BrokerClient, "pages", lambda client, path, **parameters: iter(documents))
    command = ["config", "list", "--format", layout, "--server", "http://127.0.0.1:9", "--token-file", str(token_file)]
    with pytest.raises(SystemExit):
        entry.main(command)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [line.rstrip() for line in lines]
    monkeypatch.setattr(BrokerClient, "pages", lambda client, path, **parameters: iter(documents[:1]))
    with pytest.raises(SystemExit):
        entry.main(command)
    first = capsys.readouterr().out.strip().splitlines()[0]
    assert first == (lines[0] if layout == "csv" else '{"name": "a", "count": 1, "parts": [1, 2]}')


def test_the_remote_commands_of_a_group_are_listed_with_its_name(
    capsys: pytest.CaptureFixture[str], token_file: Path
) -> None:
    with pytest.raises(SystemExit) as end:
        entry.main(["queue", "history", "Q", "--server", "http://127.0.0.1:9", "--token-file", str(token_file)])
    assert end.value.code == 2
    assert "elsewhere: queue show, queue set, queue unset" in capsys.readouterr().err


def test_a_file_without_a_token_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(SystemExit) as end:
        entry.main(["tasks", "--server", "http://127.0.0.1:9", "--token-file", str(tmp_path / "empty")])
    assert end.value.code == 1 and f"no token; {tmp_path / 'empty'}" in capsys.readouterr().err


def test_an_unreachable_broker_is_reported_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token_file: Path
) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE_S", 0.0)
    with pytest.raises(SystemExit) as end:
        entry.main(["tasks", "--json", "--server", "http://user:secret@127.0.0.1:9", "--token-file", str(token_file)])
    error = json.loads(capsys.readouterr().out)["error"]
    assert end.value.code == error["exit_status"] == 1 and "secret" not in str(error)


def test_every_remote_command_is_a_local_command() -> None:
    for path in remote_commands():
        with pytest.raises(typer.Exit):
            remote._parsed([*path.split(), "--help"])


def test_the_server_option_is_found_at_any_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_SERVER", raising=False)
    assert entry.server_in(["tasks"]) is None
    assert entry.server_in(["tasks", "--server=http://x", "--json"]) == ("http://x", None, ["tasks", "--json"])
    assert entry.server_in(["--server", "u", "--token-file", "f", "tasks"]) == ("u", "f", ["tasks"])
    monkeypatch.setenv("BROKER_SERVER", "http://y")
    assert entry.server_in(["tasks"]) == ("http://y", None, ["tasks"])
