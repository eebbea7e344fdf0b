from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.errors import SchemaMissing, SchemaOutdated
from broker.store.connection.opening import connect, open_database
from broker.store.connection.tables import OWN, Names, read_migrations
from broker.store.schema import migrate

pytestmark = pytest.mark.slow


def test_the_embedded_database_is_installed_on_opening_and_stopped_on_closing(broker_home: Path) -> None:
    with open_database(None, broker_home) as database:
        assert migrate.check(database) == migrate.STANDALONE
        assert EmbeddedServer(broker_home).running
    assert not EmbeddedServer(broker_home).running


def test_the_embedded_database_is_upgraded_on_opening(broker_home: Path) -> None:
    with connect(None, broker_home) as database:
        migrate.upgrade(database, own=read_migrations(OWN)[:1])
    with open_database(None, broker_home) as database:
        assert migrate.check(database) == migrate.STANDALONE


def test_an_external_database_is_left_to_the_operator_to_install_and_upgrade(
    empty_database: Database, tmp_path: Path
) -> None:
    with pytest.raises(SchemaMissing, match="broker db init"):
        open_database(empty_database.url, tmp_path)
    migrate.upgrade(empty_database, own=read_migrations(OWN)[:1])
    with pytest.raises(SchemaOutdated, match="broker db upgrade"):
        open_database(empty_database.url, tmp_path)
    migrate.upgrade(empty_database)
    with open_database(empty_database.url, tmp_path) as database, database.begin() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM doma_panda.jedi_tasks")) == 0


def test_the_names_of_the_installation_are_used(empty_database: Database, tmp_path: Path) -> None:
    empty_database.names = Names("one", "two")
    migrate.upgrade(empty_database)
    with open_database(empty_database.url, tmp_path) as database:
        assert database.names == Names("one", "two")
    with open_database(empty_database.url, tmp_path, panda_schema="one") as database:
        assert database.names == Names("one", "two")
    with pytest.raises(Refused, match="installed with the schemas one and two"):
        open_database(empty_database.url, tmp_path, meta_schema="three")


def test_names_can_be_chosen_before_the_installation(empty_database: Database, tmp_path: Path) -> None:
    with connect(empty_database.url, tmp_path, panda_schema="mine") as database:
        assert database.names == Names("mine", "doma_pandameta")
