"""PanDA's columns are renamed under us: doctor ends with 1, and no source that needs one is judged by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.cli.entry import main
from broker.store.connection.database import Database
from broker.store.schema import migrate
from tests.alongside.conftest import READ

pytestmark = pytest.mark.slow

Least = Callable[..., Database]
Run = Callable[..., tuple[int, list[Any], str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(database: Database, *words: str) -> tuple[int, list[Any], str]:
        monkeypatch.setenv("BROKER_DATABASE_URL", database.url)
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        said = capsys.readouterr()
        return int(ended.value.code or 0), [json.loads(line) for line in said.out.splitlines()], said.err

    return command


def _found(lines: list[Any], topic: str) -> list[tuple[str, str]]:
    return [(one["level"], one["what"]) for one in lines if one["topic"] == topic]


def test_doctor_fails_by_each_needed_column_and_notes_an_optional_one(panda: Database, least: Least, run: Run) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    status, lines, _ = run(database, "doctor")
    assert status == 0 and not _found(lines, "needed")
    renamed = {
        ("jobsactive4", "computingsite"): "source jobs, source user_jobs, source task_resource_types, "
        "source active_user_jobs, source recent_starts, source queue_health",
        ("jobsactive4", "gshare"): "source jobs, source user_jobs, source active_user_jobs",
        ("schedconfig_json", "data"): "source queues",
        ("jedi_tasks", "splitrule"): "work",
        ("ddm_endpoint", "space_free"): "source storages",
    }
    for (table, column), who in renamed.items():
        _run(panda, f"ALTER TABLE doma_panda.{table} RENAME COLUMN {column} TO other")
        status, lines, _ = run(database, "doctor")
        _run(panda, f"ALTER TABLE doma_panda.{table} RENAME COLUMN other TO {column}")
        assert status == 1
        assert _found(lines, "needed") == [("problem", f"column {table}.{column} is gone: {who} cannot be read")]
    _run(panda, "ALTER TABLE doma_panda.ddm_endpoint RENAME COLUMN space_min_free TO other")
    status, lines, _ = run(database, "doctor")
    assert status == 0 and ("note", "ddm_endpoint: space_min_free") in _found(lines, "missing")


def test_a_cycle_says_which_source_has_changed_and_refuses_work_that_has(
    panda: Database, least: Least, run: Run
) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    _run(panda, "INSERT INTO doma_panda.schedconfig_json (panda_queue, data, last_update) VALUES ('Q', '{}', now())")
    _run(panda, "ALTER TABLE doma_panda.jobsactive4 RENAME COLUMN gshare TO other")
    _, _, said = run(database, "run", "production_job")
    assert "source jobs is changed: column jobsactive4.gshare is gone" in said
    _run(panda, "INSERT INTO doma_panda.jedi_tasks (jeditaskid, vo, status) VALUES (1, 'atlas', 'ready')")
    _run(panda, "ALTER TABLE doma_panda.jedi_tasks RENAME COLUMN splitrule TO other")
    status, _, said = run(database, "run", "production_job")
    assert status == 3 and "column jedi_tasks.splitrule is gone" in said


def test_the_version_of_pandas_schema_is_recorded_and_a_change_noted(panda: Database, least: Least, run: Run) -> None:
    _run(panda, "INSERT INTO doma_panda.pandadb_version VALUES ('PanDA', 0, 1, 6)")
    database = least(*READ)
    _, (installed,), _ = run(database, "db", "init")
    assert installed["panda_schema"] == {"version": "PanDA 0.1.6", "before": None}
    assert _found(run(database, "doctor")[1], "panda_version") == [("ok", "PanDA's schema is PanDA 0.1.6")]
    _run(panda, "UPDATE doma_panda.pandadb_version SET patch = 7")
    status, lines, _ = run(database, "doctor")
    changed = "PanDA's schema is PanDA 0.1.7, it was PanDA 0.1.6"
    assert status == 0 and _found(lines, "panda_version") == [("note", changed)]
    _, (upgraded,), _ = run(database, "db", "upgrade")
    assert upgraded["panda_schema"] == {"version": "PanDA 0.1.7", "before": "PanDA 0.1.6"}
    _run(panda, "DROP TABLE doma_panda.pandadb_version")
    assert _found(run(database, "doctor")[1], "panda_version") == [
        ("note", "PanDA does not say its version in pandadb_version")
    ]


def _run(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(statement)
