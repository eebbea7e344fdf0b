"""``--json`` of every command that asks the API elsewhere is what the API answers: here and from elsewhere alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api.server import ApiServer
from broker.cli import entry, remote
from broker.cli.remote import ANSWERS
from broker.errors import NOT_PLACED
from broker.store.connection.database import Database
from broker.tasks.model.verbs import VERBS
from tests.api.decided import decided_server
from tests.api.serving import TOKEN
from tests.brokerages.small_grid import TASK
from tests.cli.commands import runner
from tests.conftest import TestServer

KEY, WHY = "NQUEUED_SAT_CAP", ("--reason", "try")
READING: dict[str, tuple[str, ...]] = {
    "tasks": (),
    "reasons": (),
    "explain": (str(TASK),),
    "why-not": (str(TASK + 2), "ALPHA_MCORE"),
    "history": (str(TASK),),
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
#: What is done before each of the two, so that both find the same.
BEFORE: dict[str, tuple[str, ...]] = {
    "alarms": ("pause", "timeouts", *WHY, "--until", "1h"),
    "config set": ("config", "set", KEY, "61", *WHY),
    "config unset": ("config", "set", KEY, "61", *WHY),
    "config rollback": ("config", "set", KEY, "62", *WHY),
    "queue unset": ("queue", "set", "ALPHA_MCORE", "corepower=12", *WHY, "--until", "1h"),
    "resume": ("pause", "timeouts", *WHY, "--until", "1h"),
}
#: They are tried where a file or a mapped queue is there, tests/api/test_routes.py and tests/pools/commands, or where
#: each can be done twice: tests/tasks/test_verbs_elsewhere.py.
ELSEWHERE = {"submit", "match-job", "task submit", *(f"task {verb}" for verb in VERBS)}
#: What goes on by itself between two questions, and who asks, and the number of the next version.
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
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as found:
        for value in ("60", "61"):
            with pytest.raises(SystemExit) as end:
                entry.main(["--db", found[0].url, "config", "set", KEY, value, *WHY])
            assert end.value.code == 0
        yield found


def without_moments(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: None if name in OF_THE_MOMENT else without_moments(value) for name, value in document.items()}
    return [without_moments(one) for one in document] if isinstance(document, list) else document


@pytest.mark.parametrize("path", [*READING, *CHANGING])
def test_a_command_prints_what_the_api_answers(
    decided: tuple[Database, ApiServer], tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    command, local = (*path.split(), *(READING | CHANGING)[path]), runner(capsys, "--db", decided[0].url)
    prepare = BEFORE.get(path)
    assert prepare is None or local(*prepare).status == 0
    here = local(*command, "--json")
    assert here.status in (0, NOT_PLACED), here.err
    assert prepare is None or local(*prepare).status == 0
    with pytest.raises(SystemExit) as end:
        entry.main([*command, "--json", "--server", decided[1].url, "--token-file", str(token)])
    there = capsys.readouterr()
    assert end.value.code == 0, there.err
    told = [without_moments(json.loads(line)) for line in here.out.splitlines()]
    assert told == [without_moments(json.loads(line)) for line in there.out.splitlines()] and told
    if path in READING:
        assert [list(one) for one in told] == [list(json.loads(line)) for line in there.out.splitlines()], "the order"


def test_every_command_that_asks_the_api_is_compared() -> None:
    assert {*READING, *CHANGING} | ELSEWHERE == {*ANSWERS, *remote.HANDLERS}
