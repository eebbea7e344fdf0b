"""A real PostgreSQL for every test: one server for the run, and a fresh database for each test that needs one.

``BROKER_TEST_DATABASE_URL`` selects another server, where the account must be allowed to create databases; without it,
the tests use the embedded server.
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
from typing import Any

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
from broker.store.query_context import QueryContext
from broker.store.schema.migrate import upgrade

TESTS = Path(__file__).parent

#: A file system in memory, and the free space it must have: creating a database there takes a tenth of the time.
IN_MEMORY, ROOM_BYTES = Path("/dev/shm"), 6 * 1024**3


RUN = "BROKER_TEST_RUN"
"""Environment variable of all processes of a run; it identifies the servers that the run started."""


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files into memory if it has enough free space, unless ``TMPDIR`` is set.

    Tests do not compile the loop implicitly: those that need it request the fixture ``compiled_loop``.
    """
    loading.mode = "never"
    if not hasattr(config, "workerinput"):
        os.environ[RUN] = uuid.uuid4().hex  # a new value even if a test of another run starts this run
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK):
        return
    file_system = os.statvfs(IN_MEMORY)
    if not file_system.f_flag & os.ST_NOEXEC and file_system.f_bavail * file_system.f_frsize >= ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop every PostgreSQL that the run left behind: an interrupt may end a process before it stops its server."""
    if not hasattr(config, "workerinput"):
        for pid in servers_of_run(os.environ[RUN]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # fast shutdown: clients are disconnected


def servers_of_run(run: str) -> list[int]:
    """Return the main processes of the PostgreSQL servers that the run started; none without ``/proc``."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_server = words[0].endswith(b"/postgres") and b"-D" in words
            if is_server and f"{RUN}={run}".encode() in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return pids


def import_own_share_of_modules(config: pytest.Config) -> None:
    """Import a separate share of the modules in each process of a whole run, so that asserts are rewritten only once.

    The other processes find the rewritten module in the cache. A module that fails to import is left to the collection,
    which reports the error.
    """
    worker: dict[str, object] = getattr(config, "workerinput", {})
    whole_run = [str(config.rootpath / folder) for folder in config.getini("testpaths")]
    if not worker or [os.path.abspath(argument) for argument in config.args] != whole_run:
        return
    number, count = int(str(worker["workerid"]).removeprefix("gw")), int(str(worker["workercount"]))
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        name = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        with contextlib.suppress(Exception), warnings.catch_warnings(action="error"):
            importlib.import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Exclude what lives as long as the run, modules and ten thousand tests, from garbage collection.

    Afterwards collect less often than by default, which took up to a twentieth of the test time. Objects that a test
    has not closed are still found.
    """
    gc.disable()
    import_own_share_of_modules(session.config)
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)


COMPILING_LIMIT_S = 1800
"""Limit for compiling, separate from the limits of tests: it takes 20 s of CPU time, and longer on a busy machine."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compile the loop before the first test that needs it, with a separate time limit."""
    if "compiled_loop" in getattr(item, "fixturenames", ()):
        with time_limit(item, COMPILING_LIMIT_S):
            compile_once()


@contextlib.contextmanager
def time_limit(item: pytest.Item, limit_s: float) -> Iterator[None]:
    """Apply a different time limit to work before a test; the limit of the test starts anew afterwards."""
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
    """Compile the loop; one process of a run compiles it for all.

    Without a compiler, cycles are decided without the compiled loop.
    """
    if importlib.util.find_spec("numba") is None:
        return
    with (function_cache.folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warm_up.compile_all()


@pytest.fixture(scope="session")
def compiled_loop() -> None:
    """Require the compiled loop, see :func:`pytest_runtest_setup`."""


SOAK_LIMIT_S = 7200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give soak tests their own time limit; all others have the one of ``pyproject.toml``."""
    for item in items:
        if item.get_closest_marker("soak") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SOAK_LIMIT_S))


# There is no deadline, because a busy machine must not fail a test. Before a merge every run tries the same examples,
# so that a failure comes from the change; `make fuzz` and pytest run by hand try new examples.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "patient"))


class TestServer:
    """The server of the run: creates and drops databases.

    Args:
        url: address of an existing database, used to create others.
    """

    __test__ = False

    def __init__(self, url: str) -> None:
        self._admin = Database(url, pool_size=1)
        self._template = ""

    def create(self, *, migrated: bool = True) -> str:
        """Create a database, with the schema or empty, and return its address."""
        if migrated and not self._template:
            self._template = self._new("template1")
            with Database(self.url_of(self._template)) as database:
                upgrade(database)
        return self.url_of(self._new(self._template if migrated else "template1"))

    def copy(self, url: str) -> str:
        """Create a copy of a database and return its address."""
        return self.url_of(self._new(str(sa.make_url(url).database)))

    @contextlib.contextmanager
    def opened(self, url: str) -> Iterator[Database]:
        """Open a database of this server, and drop it in the end."""
        try:
            with Database(url) as database:
                yield database
        finally:
            self.drop(sa.make_url(url).database or "")

    def drop(self, name: str) -> None:
        """Drop a database even if clients are connected."""
        with self._admin.autocommit() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")

    def url_of(self, name: str) -> str:
        """Return the address of a database by its name."""
        return sa.make_url(self._admin.url).set(database=name).render_as_string(hide_password=False)

    def close(self) -> None:
        """Drop the template database and disconnect."""
        if self._template:
            self.drop(self._template)
        self._admin.close()

    def _new(self, template: str) -> str:
        name = f"gridbroker_test_{uuid.uuid4().hex}"
        with self._admin.autocommit() as connection:
            # copying the files of a template is faster than writing it to the WAL
            connection.exec_driver_sql(f"CREATE DATABASE {quoted(name)} TEMPLATE {quoted(template)} STRATEGY FILE_COPY")
        return name


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The address of the administrative database of the run's server."""
    configured_url = os.environ.get("BROKER_TEST_DATABASE_URL")
    if configured_url:
        yield configured_url
        return
    # The workers of a run share one server to save memory and time. Its files are not below pytest's folder, which
    # other accounts cannot read: started by root, the server runs under another account.
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
    """A function that creates databases, dropped after the test: ``make_database(migrated=True, names=None)``."""
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
def shared_database(test_server: TestServer) -> Iterator[Database]:
    """One database for all tests of a module, with the current schema; each test fills it anew."""
    with test_server.opened(test_server.create()) as database:
        yield database


@pytest.fixture(scope="session")
def demo(test_server: TestServer) -> Iterator[Database]:
    """The example grid, brokered once, for all tests of answers."""
    from tests.brokered_demo import broker_the_demo  # imports the demo and the agents, which few tests need

    with test_server.opened(test_server.create()) as database:
        broker_the_demo(database)
        yield database


@pytest.fixture
def query_demo(demo: Database) -> Callable[..., Any]:
    """``query_demo(function, ...)``: calls the function with a snapshot of the example grid at noon."""
    from tests.brokered_demo import NOON

    def answer(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        with demo.read_snapshot() as connection:
            return function(QueryContext(connection, demo.names, NOON), *arguments, **keywords)

    return answer


@pytest.fixture
def empty_database(make_database: Callable[..., Database]) -> Database:
    """A fresh database without the schema."""
    return make_database(migrated=False)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """Restore process-wide state after each test: the loggers that commands set up, the loop that benchmarks load."""
    loggers = [logging.getLogger(name) for name in ("agents", "broker", "apscheduler", "py.warnings")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.level, logger.propagate = handlers, level, propagate
    loading.mode = "never"


@pytest.fixture
def broker_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A separate home for commands run in the test: not created yet, and accessible to the account of its server."""
    folder = Path(tempfile.mkdtemp(prefix="gridbroker-home-"))
    folder.chmod(0o755)
    monkeypatch.setenv("BROKER_HOME", str(folder / "home"))
    monkeypatch.delenv("BROKER_DATABASE_URL", raising=False)
    yield folder / "home"
    EmbeddedServer(folder / "home").shut_down()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["one block", "blocks of two"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: with all chunks of a cycle judged at once, and two at a time."""
    if request.param == "blocks of two":
        monkeypatch.setattr(job_cycle, "BLOCK_CELLS", 1)
        monkeypatch.setattr(job_cycle, "LEAST_BLOCK", 2)
