"""The embedded PostgreSQL: started on demand, shared by all broker processes of one home, stopped by the last.

Each process that uses the server holds a *handle*: a file of its own with a kernel lock on it. The kernel releases
the lock with the process, however that ends, so a handle never outlives its owner and no list of process ids can go
stale. Starting and stopping take another lock, so two processes that begin at once start one server.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg

from broker.store.connection.embedded_binaries import (
    Account,
    open_programs_to,
    open_to,
    package_folder,
    run,
    server_account,
)
from broker.store.connection.errors import EmbeddedServerError

SUPERUSER = "postgres"
DATABASE = "broker"

_SETTINGS = {
    "max_connections": "100",
    "jit": "off",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "work_mem": "32MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "2GB",
    "min_wal_size": "512MB",
    "wal_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "random_page_cost": "1.1",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
}
_LONGEST_SOCKET = 100
_LOCK_WAIT_S = 120.0
_START_WAIT_S = 60.0
_POLL_S = 0.05
_LARGEST_LOG_BYTES = 10_000_000
_LEAVING_S = 1.0
"""How long a client that has closed its connection may still appear as connected."""


class EmbeddedServer:
    """The PostgreSQL server in ``home``/pgdata.

    Args:
        home: the folder of the broker's own data (``BROKER_HOME``); created if missing.
        settings: server settings to add or change when this object starts the server.
    """

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {**_SETTINGS, **(settings or {}), "listen_addresses": ""}
        self.home = home.expanduser().resolve()
        self.pgdata = self.home / "pgdata"
        self._handles = self.home / "handles"
        self._pin = self._handles / "kept"
        self._handle: int | None = None
        self._handle_path: Path | None = None
        self._owner_pid = 0

    def start(self) -> str:
        """Ensure that the server runs, take a handle on it, and return the address of the database.

        Raises:
            EmbeddedServerError: the extra is not installed, or the server does not start.
        """
        package_folder()
        self._make_home()
        with self._lock():
            if self._handle is None:
                self._take_handle()
            try:
                self._ensure_running()
                self._ensure_database()
            except BaseException:
                self._drop_handle()
                raise
        atexit.register(self.stop)
        return self.url()

    def stop(self) -> None:
        """Release the handle; stop the server if no process holds one and no other client is connected."""
        atexit.unregister(self.stop)
        if self._handle is None or os.getpid() != self._owner_pid:
            return
        with self._lock():
            self._drop_handle()
            if not self._others() and not self._is_pinned() and not self._clients_stay():
                self._stop_server()

    def keep(self) -> None:
        """Keep the server running after the last handle is released, until :meth:`shut_down`."""
        with self._lock():
            self._pin.write_text(self._identity(), encoding="utf-8")

    def shut_down(self) -> bool:
        """Undo :meth:`keep`. Returns whether the server is stopped now (another broker process may still use it)."""
        if not self.pgdata.is_dir():
            return True
        with self._lock():
            self._pin.unlink(missing_ok=True)
            if self._others():
                return False
            self._stop_server()
            return True

    @property
    def is_initialised(self) -> bool:
        """Whether the data folder is initialised."""
        return (self.pgdata / "PG_VERSION").exists()

    @property
    def running(self) -> bool:
        """Whether the server accepts connections."""
        return self._probe() == "ready"

    def url(self, database: str = DATABASE) -> str:
        """The address of one database of this server."""
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={quote(str(self._socket_folder()), safe='/')}"

    def _make_home(self) -> None:
        try:
            self._handles.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot create the broker's home: {error.strerror}", str(self.home), "name another with BROKER_HOME"
            ) from error

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        path = self.home / "server.lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot lock the broker's home: {error.strerror}",
                str(path),
                "use the account that made it, or name another home with BROKER_HOME",
            ) from error
        try:
            deadline = time.monotonic() + _LOCK_WAIT_S
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise EmbeddedServerError(
                        f"another process has held the lock for {_LOCK_WAIT_S:.0f} s", str(path), "end that process"
                    )
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def _take_handle(self) -> None:
        path = self._handles / f"{os.getpid()}-{uuid.uuid4().hex}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._handle, self._handle_path, self._owner_pid = descriptor, path, os.getpid()

    def _drop_handle(self) -> None:
        if self._handle is not None and self._handle_path is not None:
            self._handle_path.unlink(missing_ok=True)
            os.close(self._handle)
        self._handle = self._handle_path = None

    def _others(self) -> int:
        """Count the living processes that hold a handle; remove the handles of dead ones."""
        living = 0
        for path in self._handles.iterdir():
            if path in (self._pin, self._handle_path):
                continue
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                if _try_lock(descriptor):
                    path.unlink(missing_ok=True)
                else:
                    living += 1
                os.close(descriptor)
        return living

    def _identity(self) -> str:
        """Process id and start time of the running server, so that a pin does not outlive a reboot."""
        try:
            lines = (self.pgdata / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join((lines[0], lines[2])) if len(lines) > 2 else ""

    def _is_pinned(self) -> bool:
        if not self._pin.exists():
            return False
        return self._pin.read_text(encoding="utf-8") == self._identity()

    def _clients_stay(self) -> bool:
        """Whether other clients stay connected: the backend of a client that has left ends a moment later."""
        deadline = time.monotonic() + _LEAVING_S
        while self._clients():
            if time.monotonic() > deadline:
                return True
            time.sleep(0.02)
        return False

    def _clients(self) -> int:
        """Number of connections of other clients, such as a psql session."""
        try:
            with self._connect(SUPERUSER) as connection:
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                    " AND pid <> pg_backend_pid() AND application_name NOT LIKE 'gridbroker%'"
                ).fetchone()
        except psycopg.Error:
            return 0
        return row[0] if row else 0

    def _ensure_running(self) -> None:
        if self._probe() == "ready":
            return
        account = server_account(self.pgdata)
        open_programs_to(account)
        open_to(account, self.home)
        self._ensure_initialised(account)
        deadline = time.monotonic() + _START_WAIT_S
        while (state := self._probe()) != "ready":
            if time.monotonic() > deadline:
                raise EmbeddedServerError("the server does not come up", str(self._log), "read the end of that log")
            if state == "down":
                self._try_start(account, deadline)
            else:
                time.sleep(_POLL_S)

    def _ensure_initialised(self, account: Account) -> None:
        """Create the data folder under a temporary name first, so that an interrupted run leaves no partial one."""
        if self.is_initialised:
            return
        for leftover in self.home.glob("pgdata.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix="pgdata.new-", dir=self.home))
        if account.switch:
            os.chown(fresh, account.uid, account.gid)
        locale = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        options = ("--encoding=UTF8", "--auth=trust", f"--username={SUPERUSER}", *locale)
        run("initdb", (f"--pgdata={fresh}", *options), account, 120)
        if self.pgdata.exists():
            self.pgdata.rmdir()
        fresh.rename(self.pgdata)

    def _try_start(self, account: Account, deadline: float) -> None:
        """Try once to start the server; it fails while a crashed server is still going down, and the caller retries."""
        self._drop_stale_pid_files()
        self._shorten_log()
        options = {**self._settings, "unix_socket_directories": str(self._make_socket_folder(account))}
        text = " ".join(f"-c {name}={shlex.quote(value)}" for name, value in options.items())
        log_length = self._log_length()
        arguments = ("start", "-w", "-t", "60", "-s", "-D", str(self.pgdata), "-l", str(self._log), "-o", text)
        try:
            run("pg_ctl", arguments, account, 90)
        except EmbeddedServerError as error:
            log_lines = self._log_lines(log_length)
            if time.monotonic() > deadline or not _may_pass(log_lines):
                details = " | ".join((error.what, *log_lines[-2:]))
                raise EmbeddedServerError(
                    f"the server does not start: {details}", str(self._log), "read the end of that log"
                ) from error
            time.sleep(_POLL_S)

    @property
    def _log(self) -> Path:
        return self.pgdata / "server.log"

    def _log_length(self) -> int:
        """Size of the server's log in bytes, to identify newer lines later."""
        try:
            return self._log.stat().st_size
        except OSError:
            return 0

    def _log_lines(self, after: int) -> list[str]:
        """The lines of the log after its first ``after`` bytes."""
        try:
            with self._log.open("rb") as log:
                log.seek(after)
                return log.read().decode(errors="replace").splitlines()
        except OSError:
            return []

    def _shorten_log(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._log.stat().st_size > _LARGEST_LOG_BYTES:
                self._log.rename(self._log.with_suffix(".log.old"))

    def _drop_stale_pid_files(self) -> None:
        """Remove the pid files of a server whose process id now belongs to something other than PostgreSQL.

        PostgreSQL checks only that the id is alive, which it often is after a reboot; a dead process that its parent
        has not reaped looks alive, too.
        """
        if not Path("/proc/self").exists():
            return
        for path in (self.pgdata / "postmaster.pid", self._socket_folder() / ".s.PGSQL.5432.lock"):
            with contextlib.suppress(OSError, IndexError):
                pid = path.read_text(encoding="utf-8").split()[0]
                if not _is_postgres(pid):
                    path.unlink(missing_ok=True)

    def _stop_server(self) -> None:
        if self._probe() == "down" and not self._identity():
            return
        arguments = ("stop", "-w", "-t", "60", "-s", "-m", "fast", "-D", str(self.pgdata))
        run("pg_ctl", arguments, server_account(self.pgdata), 90)
        self._pin.unlink(missing_ok=True)

    def _ensure_database(self) -> None:
        with self._connect(SUPERUSER, autocommit=True) as connection:
            row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if row is None:
                connection.execute(f'CREATE DATABASE "{DATABASE}"'.encode())

    def _connect(self, database: str, *, autocommit: bool = False) -> psycopg.Connection[tuple[int, ...]]:
        return psycopg.connect(
            self.url(database), autocommit=autocommit, connect_timeout=10, application_name="gridbroker"
        )

    def _probe(self) -> str:
        """``ready``, ``busy`` (starting, stopping or recovering) or ``down``."""
        try:
            self._connect(SUPERUSER).close()
        except psycopg.OperationalError as error:
            # A server that answers with an error is running; one that refuses the connection is not.
            return "busy" if error.sqlstate is not None or "the database system is" in str(error) else "down"
        return "ready"

    def _socket_folder(self) -> Path:
        """The folder of the socket: the data folder, or a short one of our own if that path is too long."""
        if len(os.fsencode(self.pgdata)) <= _LONGEST_SOCKET - len("/.s.PGSQL.5432.lock"):
            return self.pgdata
        digest = hashlib.sha256(os.fsencode(self.pgdata)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"gridbroker-{digest}"

    def _make_socket_folder(self, account: Account) -> Path:
        folder = self._socket_folder()
        if folder == self.pgdata:
            return folder
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if account.switch:
                os.chown(folder, account.uid, account.gid)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != account.uid or status.st_mode & 0o077:
            raise EmbeddedServerError(
                "the folder for the socket belongs to somebody else",
                str(folder),
                "remove it, or use a shorter BROKER_HOME",
            )
        return folder


def _may_pass(log_lines: list[str]) -> bool:
    """Whether a start failed for a reason that passes: processes of a killed server are still going down."""
    words = " ".join(log_lines[-5:])
    return "pre-existing shared memory block" in words or "is another postmaster" in words


def _is_postgres(pid: str) -> bool:
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
