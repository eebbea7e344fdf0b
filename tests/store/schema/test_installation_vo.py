"""The VO of an installation: where it is stored, and which keys are read for it."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.gdpconfig.catalogue import ValueRefusedError, shipped_catalogue
from broker.store.connection.database import Database
from broker.store.connection.opening import open_database
from broker.store.connection.tables import Names
from broker.store.gdpconfig_rows import TuningStore
from broker.store.schema import migrate
from tests.cli.commands import runner

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "DISK_THRESHOLD"


@pytest.fixture
def vo_database(database: Database, tmp_path: Path) -> Database:
    with database.begin() as connection:
        migrate.write(connection, "other", "somebody", NOW)
        migrate.write(connection, "myexp", "operator", NOW)
    with open_database(database.url, tmp_path) as opened:
        database.names = opened.names
    return database


def test_the_default_vo_is_pandas(database: Database, tmp_path: Path) -> None:
    with open_database(database.url, tmp_path) as opened:
        assert opened.names == Names(vo="atlas")


def test_keys_that_panda_reads_for_atlas_only_are_read_for_the_vo_of_the_installation(vo_database: Database) -> None:
    assert vo_database.names.vo == "myexp"
    store = TuningStore(vo_database.names)
    with vo_database.begin() as connection:
        store.set_value(connection, KEY, 1, editor="a", reason="b", vo="myexp")
        with pytest.raises(ValueRefusedError, match="for VO myexp only, not for 'atlas'"):
            store.set_value(connection, KEY, 2, editor="a", reason="b", vo="atlas")
        current = store.read_current(connection)
    assert [(row.key, row.vo) for row in current.rows] == [(KEY, "myexp")]
    assert current.tuning("myexp").number(KEY) == 1
    assert pickle.loads(pickle.dumps(current.catalogue)) == current.catalogue != shipped_catalogue()  # noqa: S301


def test_commands_default_to_the_vo_of_the_installation(
    vo_database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = runner(capsys, "--db", vo_database.url)
    assert broker("config", "set", KEY, "3", "--reason", "small", "--vo", "myexp").status == 0
    assert broker("config", "set", "MIN_WEIGHT_managed", "0.5", "--reason", "x").status == 0
    rows = [json.loads(line) for line in broker("config", "list", "--set", "--json").out.splitlines()]
    assert {row["key"]: (row["value"], row["vo"]) for row in rows} == {
        KEY: (3, "myexp"),
        "MIN_WEIGHT_managed": (0.5, "myexp"),
    }
    rejection = broker("config", "set", KEY, "3", "--reason", "small", "--vo", "atlas")
    assert (rejection.status, "is read for VO myexp only" in rejection.err) == (3, True)
    assert broker("config", "set", KEY, "4", "--reason", "small", "--dry-run").status in (0, 4)
