"""``--json`` of every command with a remote form prints the answer of the API, locally and remotely."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.server import ApiServer
from broker.cli import entry
from broker.errors import NOT_PLACED
from broker.store.connection.database import Database
from broker.tasks.model.verbs import VERBS
from tests.api.decided import decided_server
from tests.api.serving import TOKEN
from tests.brokerages.small_grid import TASK
from tests.cli.commands import remote_commands, runner
from tests.conftest import TestServer

KEY, WHY = "NQUEUED_SAT_CAP", ("--reason", "try")
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
        yield database_and_server


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


def test_every_command_with_a_remote_form_is_compared() -> None:
    assert {*READING, *CHANGING} | ELSEWHERE == {*remote_commands()}
