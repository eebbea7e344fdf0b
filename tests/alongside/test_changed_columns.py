"""Renamed columns in PanDA's tables: doctor exits with 1, and a source that needs such a column is not used."""

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
        with pytest.raises(SystemExit) as exit_info:
            main([*words, "--json"])
        captured = capsys.readouterr()
        return int(exit_info.value.code or 0), [json.loads(line) for line in captured.out.splitlines()], captured.err

    return command


def _findings(lines: list[Any], topic: str) -> list[tuple[str, str]]:
    return [(line["level"], line["what"]) for line in lines if line["topic"] == topic]


def test_doctor_fails_for_a_missing_needed_column_and_notes_an_optional_one(
    panda: Database, least: Least, run: Run
) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    status, lines, _ = run(database, "doctor")
    assert status == 0 and not _findings(lines, "needed")
    needed = {
        ("jobsactive4", "computingsite"): "source jobs, source user_jobs, source task_resource_types, "
        "source active_user_jobs, source recent_starts, source queue_health",
        ("jobsactive4", "gshare"): "source jobs, source user_jobs, source active_user_jobs",
        ("schedconfig_json", "data"): "source queues",
        ("jedi_tasks", "splitrule"): "work",
        ("ddm_endpoint", "space_free"): "source storages",
    }
    for (table, column), users in needed.items():
        _execute(panda, f"ALTER TABLE doma_panda.{table} RENAME COLUMN {column} TO other")
        status, lines, _ = run(database, "doctor")
        _execute(panda, f"ALTER TABLE doma_panda.{table} RENAME COLUMN other TO {column}")
        assert status == 1
        assert _findings(lines, "needed") == [("problem", f"column {table}.{column} is gone: {users} cannot be read")]
    _execute(panda, "ALTER TABLE doma_panda.ddm_endpoint RENAME COLUMN space_min_free TO other")
    status, lines, _ = run(database, "doctor")
    assert status == 0 and ("note", "ddm_endpoint: space_min_free") in _findings(lines, "missing")


def test_a_cycle_names_a_changed_source_and_refuses_to_run_on_changed_task_tables(
    panda: Database, least: Least, run: Run
) -> None:
    database = least(*READ)
    migrate.upgrade(database)
    _execute(
        panda, "INSERT INTO doma_panda.schedconfig_json (panda_queue, data, last_update) VALUES ('Q', '{}', now())"
    )
    _execute(panda, "ALTER TABLE doma_panda.jobsactive4 RENAME COLUMN gshare TO other")
    _, _, errors = run(database, "run", "production_job")
    assert "source jobs is changed: column jobsactive4.gshare is gone" in errors
    _execute(panda, "INSERT INTO doma_panda.jedi_tasks (jeditaskid, vo, status) VALUES (1, 'atlas', 'ready')")
    _execute(panda, "ALTER TABLE doma_panda.jedi_tasks RENAME COLUMN splitrule TO other")
    status, _, errors = run(database, "run", "production_job")
    assert status == 3 and "column jedi_tasks.splitrule is gone" in errors


def test_the_version_of_pandas_schema_is_recorded_and_a_change_noted(panda: Database, least: Least, run: Run) -> None:
    _execute(panda, "INSERT INTO doma_panda.pandadb_version VALUES ('PanDA', 0, 1, 6)")
    database = least(*READ)
    _, (installed,), _ = run(database, "db", "init")
    assert installed["panda_schema"] == {"version": "PanDA 0.1.6", "before": None}
    assert _findings(run(database, "doctor")[1], "panda_version") == [("ok", "PanDA's schema is PanDA 0.1.6")]
    _execute(panda, "UPDATE doma_panda.pandadb_version SET patch = 7")
    status, lines, _ = run(database, "doctor")
    note = "PanDA's schema is PanDA 0.1.7, it was PanDA 0.1.6"
    assert status == 0 and _findings(lines, "panda_version") == [("note", note)]
    _, (upgraded,), _ = run(database, "db", "upgrade")
    assert upgraded["panda_schema"] == {"version": "PanDA 0.1.7", "before": "PanDA 0.1.6"}
    _execute(panda, "DROP TABLE doma_panda.pandadb_version")
    assert _findings(run(database, "doctor")[1], "panda_version") == [
        ("note", "PanDA does not say its version in pandadb_version")
    ]


def _execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(statement)
