from __future__ import annotations

from pathlib import Path

import pytest

from broker.settings import read_settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "HOME", "PANDA_SCHEMA", "META_SCHEMA"):
        monkeypatch.delenv(f"BROKER_{name}", raising=False)


def test_without_variables_there_is_a_default_home_and_no_address() -> None:
    settings = read_settings()
    assert settings.database_url is None
    assert settings.home.is_absolute()
    assert settings.home.name == "gridbroker"
    assert (settings.panda_schema, settings.meta_schema) == (None, None)


def test_variables_are_read_and_empty_ones_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_DATABASE_URL", "postgresql://h/d")
    monkeypatch.setenv("BROKER_HOME", "/some/where")
    monkeypatch.setenv("BROKER_PANDA_SCHEMA", "")
    settings = read_settings()
    assert settings.database_url == "postgresql://h/d"
    assert settings.home == Path("/some/where")
    assert settings.panda_schema is None


def test_the_option_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_DATABASE_URL", "postgresql://h/d")
    assert read_settings("postgresql://h/e").database_url == "postgresql://h/e"
    assert read_settings(None).database_url == "postgresql://h/d"
