"""PostgreSQL as operators run it: over TCP with a password, with an archived log and standbys."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from broker.store.connection.embedded_binaries import Account, run, server_account

START_WITHIN_S = 120
_QUICK = {"fsync": "off", "full_page_writes": "on", "max_wal_senders": "4", "wal_level": "replica"}


def free_port() -> int:
    """Return an unused loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def open_folder(name: str) -> Path:
    """Return a new folder that the server's account can reach, unlike pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix=f"gridbroker-{name}-"))
    folder.chmod(0o755)
    return folder


class PostgresCluster:
    """One server in its own folder.

    Args:
        folder: the folder for data, log and socket; created if missing.
        password: the password of the superuser ``postgres``.
    """

    def __init__(self, folder: Path, password: str) -> None:
        self.folder, self.password, self.port = folder, password, free_port()
        self.data = folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        self._account = server_account()
        self.give(folder)

    def give(self, folder: Path) -> None:
        """Give a folder and its contents to the server's account."""
        if self._account.switch:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)

    def make(self) -> None:
        """Initialise the data folder; every client needs the password."""
        file = self.folder / "password"
        file.write_text(self.password, encoding="utf-8")
        self.give(file)
        words = ("--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=scram-sha-256", f"--pwfile={file}")
        self._run("initdb", f"--pgdata={self.data}", *words)
        with (self.data / "pg_hba.conf").open("a", encoding="utf-8") as hba:
            hba.write("host replication all 127.0.0.1/32 scram-sha-256\n")

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server and wait until it accepts connections."""
        all_settings = {
            **_QUICK,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            **(settings or {}),
        }
        options = " ".join(f"-c {name}={shlex.quote(value)}" for name, value in all_settings.items())
        log = str(self.folder / "log")
        self._run(
            "pg_ctl", "start", "-w", "-t", str(START_WITHIN_S), "-s", "-D", str(self.data), "-l", log, "-o", options
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; ``immediate`` simulates a crash."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-w", "-t", str(START_WITHIN_S), "-s", "-m", mode, "-D", str(self.data))

    def back_up(self, target: Path, *, standby: bool = False) -> None:
        """Copy the running server into ``target`` with ``pg_basebackup``; a standby also gets its recovery settings."""
        extra = ("--write-recovery-conf",) if standby else ()
        self._run(
            "pg_basebackup", f"--pgdata={target}", f"--dbname={self.url('postgres')}", "--checkpoint=fast", *extra
        )

    def url(self, database: str) -> str:
        """Return the address of a database, with the password."""
        return f"postgresql://postgres:{quote(self.password, safe='')}@127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        """Stop the server and remove its files."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> str:
        return run(program, arguments, self._account, START_WITHIN_S + 10)

    @property
    def account(self) -> Account:
        """The account that the server runs as."""
        return self._account
