"""The address of the database, with its password read from a file, as containers receive secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import Refused
from broker.settings import read_settings
from broker.store.connection.address import parse_url

URL = "postgresql://broker@database:5432/broker"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set an address without a password, and a separate home."""
    monkeypatch.setenv("BROKER_HOME", str(tmp_path))
    monkeypatch.setenv("BROKER_DATABASE_URL", URL)
    monkeypatch.delenv("BROKER_DATABASE_PASSWORD_FILE", raising=False)


def password_file(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "password").write_bytes(content)
    monkeypatch.setenv("BROKER_DATABASE_PASSWORD_FILE", str(folder / "password"))


@pytest.mark.parametrize(
    ("content", "password"),
    [(b"s3cret\n", "s3cret"), (b"s3cret", "s3cret"), (b"p@ss/w:rd?#%\r\n", "p@ss/w:rd?#%"), ("ü ñ\n".encode(), "ü ñ")],
)
def test_the_password_is_the_first_line_of_the_file(
    content: bytes, password: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    password_file(tmp_path, content, monkeypatch)
    address = parse_url(read_settings().database_url or "")
    assert (address.password, address.username, address.host, address.port, address.database) == (
        password,
        "broker",
        "database",
        5432,
        "broker",
    )


def test_the_password_is_added_to_the_address_of_an_option_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    password_file(tmp_path, b"s3cret\n", monkeypatch)
    address = parse_url(read_settings("postgresql://other@elsewhere/broker").database_url or "")
    assert (address.password, address.username, address.host) == ("s3cret", "other", "elsewhere")


def test_without_the_file_the_address_is_unchanged() -> None:
    assert read_settings().database_url == URL


def test_without_an_address_the_embedded_database_needs_no_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BROKER_DATABASE_URL")
    password_file(tmp_path, b"s3cret\n", monkeypatch)
    assert read_settings().database_url is None


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_password_is_refused_by_name(
    content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    password_file(tmp_path, content, monkeypatch)
    with pytest.raises(Refused, match=r"BROKER_DATABASE_PASSWORD_FILE=.*password"):
        read_settings()


def test_a_missing_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BROKER_DATABASE_PASSWORD_FILE", str(tmp_path / "none"))
    with pytest.raises(Refused, match="cannot read the password"):
        read_settings()


def test_a_second_password_in_the_address_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    password_file(tmp_path, b"s3cret\n", monkeypatch)
    with pytest.raises(Refused, match="has a password") as refusal:
        read_settings("postgresql://broker:hunter2@database/broker")
    assert "hunter2" not in str(refusal.value) and "s3cret" not in str(refusal.value)
