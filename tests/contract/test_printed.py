"""The output of ``--json`` keeps the promised fields: see docs/explanation/stability.md."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.cli.test_exit_statuses import NEEDS_A_DATABASE
from tests.contract.printed import FILE, Printed, fields_of
from tests.contract.promises import as_text, differences, read_promises, with_additions
from tests.contract.test_promises import ADDS, BREAKS
from tests.fault.processes import AGENT, load_grid

WITH_ARGUMENTS = {
    **{name: arguments for name, arguments in NEEDS_A_DATABASE.items() if not arguments},
    "config get": ("NQUEUED_SAT_CAP",),
    "config set": ("NQUEUED_SAT_CAP", "149", "--reason", "r", "--yes"),
    "config diff": ("1", "2"),
    "explain": ("{task}",),
    "why-not": ("{task}", "{queue}"),
    "story": ("{task}",),
    "history": ("{task}",),
    "queue show": ("{queue}",),
    "queue set": ("{queue}", "status=online", "--reason", "r", "--until", "8h"),
    "queue history": ("{queue}",),
    "nucleus": ("{nucleus}",),
    "pause": ("activation", "--until", "8h", "--reason", "r"),
    "match": ("x86_64-centos7-gcc8-opt",),
    "task show": ("{task}",),
    "what-if": ("--set", "NQUEUED_SAT_CAP=149"),
    "job": ("{job}",),
    "plugin on": ("--reason", "r"),
    "share list": (),
    "rules": (AGENT,),
    "doctor": (),
    "retry-rule add": ("--source", "pilotErrorCode", "--code", "1235", "--action", "no_retry"),
    "run": (AGENT, "--seed", "1"),
}
#: Queries for the names in braces above.
NAME_QUERIES = {
    "task": "SELECT min(jeditaskid) FROM doma_panda.jedi_tasks",
    "nucleus": "SELECT min(nucleus) FROM doma_panda.jedi_tasks",
    "job": "SELECT min(pandaid) FROM doma_panda.jobsactive4",
    "queue": "SELECT min(computingsite) FROM doma_panda.jobsactive4",
}
#: Commands whose output has no rows of the broker, or no output at all.
LEFT_OUT = {"db psql", "db upgrade", "db url", "db stop", "pool resources"}
#: Commands with nothing to list on the example grid; the API description covers their rows.
EMPTY = {
    "alarms", "classes", "config canary", "import log", "notify history", "outputs list", "pilots demand", "plugin log",
    "pool list", "queue history", "share history",
}  # fmt: skip


@pytest.fixture
def printed(
    database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Printed:
    """The recorded output of each command on the example grid."""
    monkeypatch.chdir(tmp_path)
    load_grid(database)
    command, recorder = runner(capsys, "--db", database.url), Printed()
    recorder.attach(monkeypatch)
    with database.begin() as connection:
        names = {word: str(connection.exec_driver_sql(query).scalar_one()) for word, query in NAME_QUERIES.items()}
    commands = ["run", "config set", *sorted(WITH_ARGUMENTS.keys() - {"run", "config set"} - LEFT_OUT)]
    for name in commands:
        words = [word.format(**names) for word in WITH_ARGUMENTS[name]]
        with recorder.of_command(f"broker {name}"):
            result = command(*name.split(), *words, "--json")
        assert not result.out.startswith('{"error"'), (name, result.out)
    return recorder


@pytest.mark.slow
def test_printed_fields_are_as_promised(printed: Printed) -> None:
    now, before = printed.fields, read_promises(FILE)
    if os.environ.get("BROKER_CONTRACT") == "add":
        FILE.write_text(as_text({"commands": with_additions(before.get("commands", {}), now)}), encoding="utf-8")
        before = read_promises(FILE)
    changes = list(differences(before, {"commands": now}))
    assert [change for change, breaks in changes if breaks] == [], BREAKS
    assert [change for change, breaks in changes if not breaks] == [], ADDS
    assert {f"broker {name}" for name in WITH_ARGUMENTS.keys() - LEFT_OUT - EMPTY} == now.keys()


class Row(BaseModel):
    queue: str
    jobs: int | None = None


@dataclass
class Plain:
    queue: str


def test_a_renamed_field_of_a_row_type_breaks() -> None:
    before = {"commands": {"broker x": fields_of(Row(queue="q"), {"queue": "q", "jobs": None})}}
    assert before["commands"]["broker x"]["jobs"] == {"type": "integer or null"}
    after = {"commands": {"broker x": fields_of(Plain("q"), {"queue": "q"})}}
    assert [change for change, breaks in differences(before, after) if breaks] == ["commands/broker x/jobs is gone"]


def test_a_missing_key_of_a_plain_object_breaks() -> None:
    before = fields_of({}, {"job": {"pandaid": 1, "state": "x"}, "count": 1})
    assert before == {"job": {"fields": {"pandaid": {}, "state": {}}}, "count": {}}
    after = fields_of({}, {"job": {"pandaid": 1}, "count": 1})
    assert [change for change, breaks in differences(before, after) if breaks] == ["job/fields/state is gone"]
