"""The account that runs the embedded server, and the error messages of failed starts."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.store.connection import embedded_binaries
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.embedded_binaries import server_account
from broker.store.connection.errors import EmbeddedServerError

pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path that an ordinary account can reach, unlike pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="gb-"))
    folder.chmod(0o755)
    yield folder / "home"
    EmbeddedServer(folder / "home").shut_down()
    shutil.rmtree(folder)


@pytest.fixture
def later_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As root: a server account that appears only after ``nobody`` created the data."""
    accounts = embedded_binaries._ACCOUNTS
    monkeypatch.setattr(embedded_binaries, "_ACCOUNTS", ("nobody",))
    yield
    monkeypatch.setattr(embedded_binaries, "_ACCOUNTS", accounts)


def add_account(monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    """Add an account with the preferred name: any account but the owner's."""
    account = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid not in (0, owner))
    monkeypatch.setattr(embedded_binaries, "_ACCOUNTS", (account,))


def test_data_are_still_served_by_their_owner_when_another_account_appears(
    home: Path, later_account: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedServer(home)
    server.start()
    server.stop()
    owner = server.pgdata.stat().st_uid
    add_account(monkeypatch, owner)
    server.start()
    running_as = (server.pgdata / "postmaster.pid").stat().st_uid
    server.stop()
    assert running_as == owner != 0
    assert not server.running


def test_a_running_server_is_stopped_by_the_owner_of_its_data(
    home: Path, later_account: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedServer(home)
    server.start()
    add_account(monkeypatch, server.pgdata.stat().st_uid)
    server.stop()
    assert not server.running


def test_data_of_another_account_are_rejected_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    name = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(EmbeddedServerError, match=f"the data folder belongs to {name}.*BROKER_HOME"):
        server_account(tmp_path)


def test_a_failed_start_shows_the_output_of_pg_ctl_and_only_new_log_lines(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    server.stop()
    with (server.pgdata / "server.log").open("a", encoding="utf-8") as log:
        log.write("FATAL:  an old fault\nHINT:  an old hint\n")
    with pytest.raises(EmbeddedServerError) as caught:
        EmbeddedServer(home, {"shared_buffers": "many"}).start()
    assert "pg_ctl failed with status 1: pg_ctl: could not start server" in caught.value.what
    assert 'invalid value for parameter "shared_buffers": "many"' in caught.value.what
    assert "old" not in caught.value.what


def test_a_failed_start_without_new_log_lines_shows_no_old_ones(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    server.stop()
    with (server.pgdata / "server.log").open("a", encoding="utf-8") as log:
        log.write('FATAL:  lock file "postmaster.pid" already exists: is another postmaster running?\n')
    version = server.pgdata / "PG_VERSION"
    version.write_text("11\n")
    with pytest.raises(EmbeddedServerError, match="pg_ctl failed") as caught:
        server.start()
    version.write_text("18\n")
    assert "postmaster" not in caught.value.what
