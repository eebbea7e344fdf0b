"""A real PostgreSQL for every test: one server for the run, a fresh database for each test that asks.

Without ``BROKER_TEST_DATABASE_URL`` the embedded server is used; with it, the server at that address, where the account
must be allowed to create databases.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import importlib
import importlib.util
import logging
import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import pytest_timeout
import sqlalchemy as sa

from broker.compilation import warm_up
from broker.engine.compiled import function_cache, loading
from broker.engine.job import cycle as job_cycle
from broker.store.connection.database import Database
from broker.store.connection.embedded import SUPERUSER, EmbeddedServer
from broker.store.connection.tables import Names, quoted
from broker.store.schema.migrate import upgrade

TESTS = Path(__file__).parent

#: A file system in memory, and the room that must be left in it: databases are made there in a tenth of the time.
IN_MEMORY, ROOM_BYTES = Path("/dev/shm"), 6 * 1024**3


RUN = "BROKER_TEST_RUN"
"""Variable of the environment that all processes of a run have: its servers are known by it."""


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files into memory where there is room, unless ``TMPDIR`` says where they go.

    No test compiles anything on the way: those of the compiled loop say so themselves.
    """
    loading.mode = "never"
    if not hasattr(config, "workerinput"):
        os.environ[RUN] = uuid.uuid4().hex  # its own, also where a test of another run begins it
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK):
        return
    found = os.statvfs(IN_MEMORY)
    if not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop each PostgreSQL that the run has left: an interrupt may end a process before it stops its own."""
    if not hasattr(config, "workerinput"):
        for pid in servers_of_run(os.environ[RUN]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # its fast shutdown: clients are disconnected


def servers_of_run(run: str) -> list[int]:
    """The processes that are the first one of a PostgreSQL, begun by a run; none where there is no ``/proc``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_server = words[0].endswith(b"/postgres") and b"-D" in words
            if is_server and f"{RUN}={run}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def begin_with_a_share(config: pytest.Config) -> None:
    """Begin, in each process of a whole run, with another share of the modules: asserts are rewritten once, not by all.

    What one process has rewritten the others find beside the module. A module that ends with an error is left to the
    collection, which says why.
    """
    own: dict[str, object] = getattr(config, "workerinput", {})
    whole = [str(config.rootpath / one) for one in config.getini("testpaths")]
    if not own or [os.path.abspath(one) for one in config.args] != whole:
        return
    number, count = int(str(own["workerid"]).removeprefix("gw")), int(str(own["workercount"]))
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        name = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        with contextlib.suppress(Exception), warnings.catch_warnings(action="error"):
            importlib.import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage among what lives as long as the run: modules, and ten thousand tests.

    Nor as often as otherwise afterwards, which took up to a twentieth of what tests take: each search finds what the
    others would have found, and what a test has not closed is found all the same.
    """
    gc.disable()
    begin_with_a_share(session.config)
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)


COMPILING_LIMIT_S = 1800
"""The compiler takes 20 s of a processor and more, many times that beside others: no test's own limit is for it."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compile before the first test that needs it, within a limit for that alone."""
    if "compiled_loop" in getattr(item, "fixturenames", ()):
        with time_limit(item, COMPILING_LIMIT_S):
            compile_once()


@contextlib.contextmanager
def time_limit(item: pytest.Item, limit_s: float) -> Iterator[None]:
    """Another limit for some work before a test; the test's own then begins anew."""
    marker = item.get_closest_marker("timeout")
    own_s = float(marker.args[0] if marker and marker.args else item.config.getini("timeout") or 0)
    try:
        _set_timer(item, limit_s)
        yield
    finally:
        _set_timer(item, own_s)


def _set_timer(item: pytest.Item, limit_s: float) -> None:
    item.config.hook.pytest_timeout_cancel_timer(item=item)
    if limit_s > 0:
        settings = pytest_timeout.Settings(limit_s, "signal", False, False)
        item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)


@functools.cache
def compile_once() -> None:
    """The loop, compiled by one of the processes of a run for all.

    Where there is no compiler, cycles are decided without it.
    """
    if importlib.util.find_spec("numba") is None:
        return
    with (function_cache.folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warm_up.compile_all()


@pytest.fixture(scope="session")
def compiled_loop() -> None:
    """The loop is compiled, see :func:`pytest_runtest_setup`."""


SOAK_LIMIT_S = 7200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that run long on purpose their own limit; all others have the one in ``pyproject.toml``."""
    for item in items:
        if item.get_closest_marker("soak") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SOAK_LIMIT_S))


# A machine that is busy with something else must not fail a test. Before a merge the same examples are tried at every
# run, so that a change is judged by what it changed; `make fuzz` and pytest by hand try new ones.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "patient"))


class TestServer:
    """The server of the run: makes and drops databases.

    Args:
        url: address of a database that is there, used to make others.
    """

    __test__ = False

    def __init__(self, url: str) -> None:
        self._admin = Database(url, pool_size=1)
        self._template = ""

    def create(self, *, migrated: bool = True) -> str:
        """The address of a new database, with the schema or empty."""
        if migrated and not self._template:
            self._template = self._new("template1")
            with Database(self.url_of(self._template)) as database:
                upgrade(database)
        return self.url_of(self._new(self._template if migrated else "template1"))

    def copy(self, url: str) -> str:
        """The address of a new database that is as another one."""
        return self.url_of(self._new(str(sa.make_url(url).database)))

    def drop(self, name: str) -> None:
        """Removes a database, whoever is connected."""
        with self._admin.autocommit() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")

    def url_of(self, name: str) -> str:
        """The address of one database."""
        return sa.make_url(self._admin.url).set(database=name).render_as_string(hide_password=False)

    def close(self) -> None:
        """Drops what is shared and disconnects."""
        if self._template:
            self.drop(self._template)
        self._admin.close()

    def _new(self, template: str) -> str:
        name = f"gridbroker_test_{uuid.uuid4().hex}"
        with self._admin.autocommit() as connection:
            # writing all of a template to the log takes longer than copying its files
            connection.exec_driver_sql(f"CREATE DATABASE {quoted(name)} TEMPLATE {quoted(template)} STRATEGY FILE_COPY")
        return name


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The address of the administrative database of the run's server."""
    given = os.environ.get("BROKER_TEST_DATABASE_URL")
    if given:
        yield given
        return
    # The workers of one run share a server: it costs memory and time. Its files are not below those of pytest,
    # which are closed to all other accounts: as root, the server runs as one of these.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
    home = Path(tempfile.gettempdir()) / f"gridbroker-tests-{run}"
    home.mkdir(mode=0o755, exist_ok=True)
    server = EmbeddedServer(home, {"fsync": "off", "full_page_writes": "off"})
    server.start()
    try:
        yield server.url(SUPERUSER)
    finally:
        server.stop()
        if not server.running:
            shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def test_server(server_url: str) -> Iterator[TestServer]:
    """The server of the run."""
    server = TestServer(server_url)
    yield server
    server.close()


@pytest.fixture
def make_database(test_server: TestServer) -> Iterator[Callable[..., Database]]:
    """Makes databases that are dropped after the test: ``make_database(migrated=True, names=None)``."""
    with contextlib.ExitStack() as stack:

        def make(*, migrated: bool = True, names: Names | None = None) -> Database:
            url = test_server.create(migrated=migrated)
            stack.callback(test_server.drop, sa.make_url(url).database or "")
            return stack.enter_context(Database(url, names))

        yield make


@pytest.fixture
def database(make_database: Callable[..., Database]) -> Database:
    """A fresh database with the current schema."""
    return make_database()


@pytest.fixture(scope="module")
def shared(test_server: TestServer) -> Iterator[Database]:
    """One database for all tests of a module, with the current schema; each test fills it anew."""
    url = test_server.create()
    with Database(url) as database:
        yield database
    test_server.drop(sa.make_url(url).database or "")


@pytest.fixture
def empty_database(make_database: Callable[..., Database]) -> Database:
    """A fresh database with nothing in it."""
    return make_database(migrated=False)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What a test sets up for its process is gone before the next: logs of a command, the loop of a benchmark."""
    loggers = [logging.getLogger(name) for name in ("agents", "broker", "apscheduler", "py.warnings")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.level, logger.propagate = handlers, level, propagate
    loading.mode = "never"


@pytest.fixture
def broker_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for commands run inside the test; not made yet, and open to the account of its server."""
    folder = Path(tempfile.mkdtemp(prefix="gridbroker-home-"))
    folder.chmod(0o755)
    monkeypatch.setenv("BROKER_HOME", str(folder / "home"))
    monkeypatch.delenv("BROKER_DATABASE_URL", raising=False)
    yield folder / "home"
    EmbeddedServer(folder / "home").shut_down()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["one block", "blocks of two"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test twice: with all chunks of a cycle judged at once, and two at a time."""
    if request.param == "blocks of two":
        monkeypatch.setattr(job_cycle, "BLOCK_CELLS", 1)
        monkeypatch.setattr(job_cycle, "LEAST_BLOCK", 2)
