"""``broker db`` as processes: what they print, where, and how they end."""

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
    """Runs ``broker`` with words; its home is fresh and nothing names a database."""

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
    installed = json.loads(first.stdout)
    assert installed["mode"] == "standalone"
    assert "schema/panda/0001_grid.sql" in installed["applied"]
    assert broker("db", "init", "--db", url).stdout == "the schema is current\n"

    loaded = broker("--db", url, "db", "load", "--json", str(scenario_path))
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert json.loads(loaded.stdout)["tables"] == {"site": 1, "jedi_tasks": 1}

    dumped = broker("db", "dump", str(tmp_path / "out.json.gz"), BROKER_DATABASE_URL=url)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    assert "jedi_tasks" in dumped.stdout
    again = broker("db", "load", "--replace", str(tmp_path / "out.json.gz"), BROKER_DATABASE_URL=url)
    assert again.returncode == 0

    asked = broker("db", "psql", "--db", url, "--", "-At", "-c", "SELECT jeditaskid, status FROM jedi_tasks")
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, "7|ready\n", "")
    assert not broker_home.exists(), "the embedded server was not started"


@pytest.mark.slow
def test_the_embedded_database_needs_no_set_up_and_is_stopped_after_each_command(
    broker: Run, broker_home: Path, scenario_path: Path
) -> None:
    loaded = broker("db", "load", str(scenario_path))
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert not EmbeddedServer(broker_home).running
    counted = broker("db", "psql", "--", "-Atc", "select count(*) from site")
    assert (counted.returncode, counted.stdout, counted.stderr) == (0, "1\n", "")
    assert not EmbeddedServer(broker_home).running


@pytest.mark.slow
def test_url_leaves_the_embedded_server_running_until_stop(broker: Run, broker_home: Path) -> None:
    assert broker("db", "init").returncode == 0
    told = broker("db", "url")
    try:
        assert told.stdout.startswith("postgresql://postgres@")
        assert "broker db stop" in told.stderr
        assert broker("db", "psql", "--", "-Atc", "SELECT 1").stdout == "1\n"
        with Database(told.stdout.strip()) as database, database.begin() as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1
    finally:
        stopped = broker("db", "stop")
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert not EmbeddedServer(broker_home).running


def test_url_of_a_given_database_is_repeated(broker: Run, database: Database) -> None:
    told = broker("db", "url", "--json", "--db", database.url)
    assert (told.returncode, json.loads(told.stdout), told.stderr) == (0, {"url": database.url}, "")


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
    done = broker(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if done.stderr.startswith("error"):
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_database_without_schema_or_with_rows_is_refused_with_status_3(
    broker: Run, empty_database: Database, scenario_path: Path
) -> None:
    url = empty_database.url
    before = broker("db", "load", str(scenario_path), "--db", url)
    assert (before.returncode, before.stdout) == (3, "")
    assert "broker db init" in before.stderr
    assert broker("db", "upgrade", "--db", url).returncode == 3
    broker("db", "init", "--db", url)
    assert broker("db", "upgrade", "--db", url).stdout == "the schema is current\n"
    assert broker("db", "load", str(scenario_path), "--db", url).returncode == 0
    twice = broker("db", "load", str(scenario_path), "--db", url)
    assert (twice.returncode, twice.stdout) == (3, "")
    assert "--replace" in twice.stderr


def test_upgrade_applies_what_is_missing(broker: Run, empty_database: Database) -> None:
    migrate.upgrade(empty_database, own=migrate.read_migrations("broker")[:1])
    done = broker("db", "upgrade", "--db", empty_database.url)
    assert done.returncode == 0
    assert "applied schema/broker/0002_decisions.sql" in done.stdout
    assert "upgrading" in done.stderr


def test_a_check_says_what_an_upgrade_would_do_and_does_nothing(broker: Run, empty_database: Database) -> None:
    migrate.upgrade(empty_database, own=migrate.read_migrations("broker")[:1])
    done = broker("db", "upgrade", "--check", "--json", "--db", empty_database.url)
    found = json.loads(done.stdout)
    assert (done.returncode, found["safe"], found["from_before_1"]) == (6, False, True)
    assert found["steps"][0]["step"] == "schema/broker/0002_decisions.sql"
    (renamed,) = [one for one in found["steps"] if one["step"] == "schema/broker/0086_decision_store.sql"]
    assert (renamed["only_adds"], renamed["oldest_writer"]) == (False, None)
    assert {lock["stops"] for lock in renamed["locks"]} == {"all"}
    with pytest.raises(SchemaOutdated):
        migrate.check(empty_database)


def test_beside_panda_init_says_what_is_missing(broker: Run, empty_database: Database) -> None:
    with empty_database.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA doma_panda; CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint)")
    done = broker("db", "init", "--db", empty_database.url)
    assert done.returncode == 0
    assert "schema doma_panda was left as it is" in done.stdout
    assert "missing in PanDA's database: table site is gone: source queues cannot be read" in done.stderr
    assert "column jedi_tasks.splitrule is gone: work cannot be read" in done.stderr
    assert "jedi_tasks: taskname" in done.stderr
    assert "PanDA's schema: version unknown" in done.stdout


@pytest.mark.slow
def test_other_schema_names_need_to_be_named_once(broker: Run, empty_database: Database, scenario_path: Path) -> None:
    url = empty_database.url
    assert broker("db", "init", "--db", url, BROKER_PANDA_SCHEMA="elsewhere").returncode == 0
    assert broker("db", "load", str(scenario_path), "--db", url).returncode == 0
    counted = broker("db", "psql", "--db", url, "--", "-Atc", "SELECT count(*) FROM elsewhere.site")
    assert counted.stdout == "1\n"
    other = broker("db", "dump", "x.json", "--db", url, BROKER_PANDA_SCHEMA="third")
    assert other.returncode == 3
    assert "installed with the schemas elsewhere" in other.stderr


def test_psql_passes_its_failure_on(broker: Run, database: Database) -> None:
    done = broker("db", "psql", "--db", database.url, "--", "-c", "SELECT nothing")
    assert done.returncode == 1
    assert 'column "nothing" does not exist' in done.stderr


def test_sigterm_lets_go_of_the_embedded_server(broker_home: Path) -> None:
    with connect(None, broker_home):  # makes the database
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
