"""``broker db`` as processes: their output and exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.errors import SchemaOutdated
from broker.store.connection.opening import connect
from broker.store.schema import migrate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SCENARIO = {
    "now": "2026-08-01T12:00:00",
    "tables": {"site": [{"site_name": "S\u202e\n"}], "jedi_tasks": [{"jeditaskid": 7, "status": "ready"}]},
}

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def scenario_path(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(SCENARIO))
    return path


@pytest.fixture
def broker(broker_home: Path) -> Run:
    """Runs ``broker`` with the given words; its home is fresh and no database is configured."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "broker.cli.main", *words],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "BROKER_HOME": str(broker_home), **variables},
            timeout=120,
        )

    return run


@pytest.mark.slow
def test_init_load_dump_and_psql_on_a_given_database(
    broker: Run, empty_database: Database, scenario_path: Path, tmp_path: Path, broker_home: Path
) -> None:
    url = empty_database.url
    first = broker("db", "init", "--json", "--db", url)
    assert (first.returncode, first.stderr) == (0, "")
    installation = json.loads(first.stdout)
    assert installation["mode"] == "standalone"
    assert "schema/panda/0001_grid.sql" in installation["applied"]
    assert broker("db", "init", "--db", url).stdout == "the schema is current\n"

    load = broker("--db", url, "db", "load", "--json", str(scenario_path))
    assert (load.returncode, load.stderr) == (0, "")
    assert json.loads(load.stdout)["tables"] == {"site": 1, "jedi_tasks": 1}

    dump = broker("db", "dump", str(tmp_path / "out.json.gz"), BROKER_DATABASE_URL=url)
    assert (dump.returncode, dump.stderr) == (0, "")
    assert "jedi_tasks" in dump.stdout
    reload = broker("db", "load", "--replace", str(tmp_path / "out.json.gz"), BROKER_DATABASE_URL=url)
    assert reload.returncode == 0

    query = broker("db", "psql", "--db", url, "--", "-At", "-c", "SELECT jeditaskid, status FROM jedi_tasks")
    assert (query.returncode, query.stdout, query.stderr) == (0, "7|ready\n", "")
    assert not broker_home.exists(), "the embedded server was not started"


@pytest.mark.slow
def test_the_embedded_database_needs_no_setup_and_stops_after_each_command(
    broker: Run, broker_home: Path, scenario_path: Path
) -> None:
    load = broker("db", "load", str(scenario_path))
    assert (load.returncode, load.stderr) == (0, "")
    assert not EmbeddedServer(broker_home).running
    count = broker("db", "psql", "--", "-Atc", "select count(*) from site")
    assert (count.returncode, count.stdout, count.stderr) == (0, "1\n", "")
    assert not EmbeddedServer(broker_home).running


@pytest.mark.slow
def test_url_leaves_the_embedded_server_running_until_stop(broker: Run, broker_home: Path) -> None:
    assert broker("db", "init").returncode == 0
    printed = broker("db", "url")
    try:
        assert printed.stdout.startswith("postgresql://postgres@")
        assert "broker db stop" in printed.stderr
        assert broker("db", "psql", "--", "-Atc", "SELECT 1").stdout == "1\n"
        with Database(printed.stdout.strip()) as database, database.begin() as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1
    finally:
        stop = broker("db", "stop")
    assert (stop.returncode, stop.stdout, stop.stderr) == (0, "", "")
    assert not EmbeddedServer(broker_home).running


def test_the_url_of_a_given_database_is_printed(broker: Run, database: Database) -> None:
    printed = broker("db", "url", "--json", "--db", database.url)
    assert (printed.returncode, json.loads(printed.stdout), printed.stderr) == (0, {"url": database.url}, "")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("db", "load", "none.json"), 1, "error: cannot read: No such file or directory; none.json"),
        (("db", "load"), 2, "Missing argument"),
        (("db", "melt"), 2, "No such command"),
        (("db", "init", "--db", "sqlite://"), 2, "error: not a PostgreSQL address"),
        (("db", "init", "--db", "postgresql://localhost:1/x"), 1, "error: cannot connect"),
        (("db", "init", "--db"), 2, "--db"),
        (("melt",), 2, "No such command"),
    ],
)
def test_errors_are_one_line_on_stderr_and_a_status(
    broker: Run, words: tuple[str, ...], status: int, message: str
) -> None:
    result = broker(*words)
    assert (result.returncode, result.stdout) == (status, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    if result.stderr.startswith("error"):
        assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_database_without_schema_or_with_rows_is_refused_with_status_3(
    broker: Run, empty_database: Database, scenario_path: Path
) -> None:
    url = empty_database.url
    without_schema = broker("db", "load", str(scenario_path), "--db", url)
    assert (without_schema.returncode, without_schema.stdout) == (3, "")
    assert "broker db init" in without_schema.stderr
    assert broker("db", "upgrade", "--db", url).returncode == 3
    broker("db", "init", "--db", url)
    assert broker("db", "upgrade", "--db", url).stdout == "the schema is current\n"
    assert broker("db", "load", str(scenario_path), "--db", url).returncode == 0
    second_load = broker("db", "load", str(scenario_path), "--db", url)
    assert (second_load.returncode, second_load.stdout) == (3, "")
    assert "--replace" in second_load.stderr


def test_upgrade_applies_missing_migrations(broker: Run, empty_database: Database) -> None:
    migrate.upgrade(empty_database, own=migrate.read_migrations("broker")[:1])
    result = broker("db", "upgrade", "--db", empty_database.url)
    assert result.returncode == 0
    assert "applied schema/broker/0002_decisions.sql" in result.stdout
    assert "upgrading" in result.stderr


def test_a_check_reports_the_steps_of_an_upgrade_and_changes_nothing(broker: Run, empty_database: Database) -> None:
    migrate.upgrade(empty_database, own=migrate.read_migrations("broker")[:1])
    result = broker("db", "upgrade", "--check", "--json", "--db", empty_database.url)
    report = json.loads(result.stdout)
    assert (result.returncode, report["safe"], report["from_before_1"]) == (6, False, True)
    assert report["steps"][0]["step"] == "schema/broker/0002_decisions.sql"
    (rename,) = [step for step in report["steps"] if step["step"] == "schema/broker/0086_decision_store.sql"]
    assert (rename["only_adds"], rename["oldest_writer"]) == (False, None)
    assert {lock["stops"] for lock in rename["locks"]} == {"all"}
    with pytest.raises(SchemaOutdated):
        migrate.check(empty_database)


def test_init_beside_panda_names_missing_tables_and_columns(broker: Run, empty_database: Database) -> None:
    with empty_database.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA doma_panda; CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint)")
    result = broker("db", "init", "--db", empty_database.url)
    assert result.returncode == 0
    assert "schema doma_panda was left as it is" in result.stdout
    assert "missing in PanDA's database: table site is gone: source queues cannot be read" in result.stderr
    assert "column jedi_tasks.splitrule is gone: work cannot be read" in result.stderr
    assert "jedi_tasks: taskname" in result.stderr
    assert "PanDA's schema: version unknown" in result.stdout


@pytest.mark.slow
def test_schema_names_need_to_be_given_only_once(broker: Run, empty_database: Database, scenario_path: Path) -> None:
    url = empty_database.url
    assert broker("db", "init", "--db", url, BROKER_PANDA_SCHEMA="elsewhere").returncode == 0
    assert broker("db", "load", str(scenario_path), "--db", url).returncode == 0
    count = broker("db", "psql", "--db", url, "--", "-Atc", "SELECT count(*) FROM elsewhere.site")
    assert count.stdout == "1\n"
    conflict = broker("db", "dump", "x.json", "--db", url, BROKER_PANDA_SCHEMA="third")
    assert conflict.returncode == 3
    assert "installed with the schemas elsewhere" in conflict.stderr


def test_the_failure_of_psql_is_passed_on(broker: Run, database: Database) -> None:
    result = broker("db", "psql", "--db", database.url, "--", "-c", "SELECT nothing")
    assert result.returncode == 1
    assert 'column "nothing" does not exist' in result.stderr


def test_sigterm_stops_the_embedded_server(broker_home: Path) -> None:
    with connect(None, broker_home):  # creates the database
        pass
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.cli.main", "db", "psql", "--", "-At"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "BROKER_HOME": str(broker_home)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("SELECT 'up';\n")
    process.stdin.flush()
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert not EmbeddedServer(broker_home).running
