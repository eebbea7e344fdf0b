"""Upgrade and way back while services, pilots and the page go on: nothing is lost, and nothing happens twice.

The releases are this one, a later one whose step only adds, and one whose step ends something: it names the oldest
release that may still write.
"""

from __future__ import annotations

import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.errors import SchemaTooNew
from broker.store.connection.opening import guarded
from broker.store.service import leases
from tests.fault.history import fenced_commits, violations, watch
from tests.fault.processes import AGENT, PATIENCE_S, load_grid, made_jobs, wait_until
from tests.fault.releases import Release, later_release, this_release
from tests.fault.traffic import Traffic
from tests.operations.postgres_cluster import free_port

pytestmark = pytest.mark.slow

AGENTS = (AGENT, "activation", "completion", "submit_pool_refresh")
SECTION = "{period_s: 0.5, cycle_budget_s: 60}"
FAST = "service: {retry_first_s: 0.2, heartbeat_every_s: 1}\nagents:\n" + "".join(
    f"  {one}: {SECTION}\n" for one in AGENTS
)
ADDS = "-- Made up.\nALTER TABLE broker.agent_runs ADD COLUMN made_up text;\n"
ENDS = "-- Made up.\n-- oldest writer: 98.0.0\nALTER TABLE broker.agent_runs DROP COLUMN made_up;\n"
PAGES = ("/", "/tasks", "/service", "/api/v1/tasks")


class Readers:
    """Whoever looks at the page while releases change; ``statuses``: of the answers."""

    def __init__(self, port: int) -> None:
        self.statuses: Counter[int] = Counter()
        self._port, self._ending = port, threading.Event()

    def answered(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
                return int(answer.status)
        except OSError as error:
            return int(getattr(error, "code", 0))

    @contextmanager
    def looking(self) -> Iterator[None]:
        """They look while the block runs, once the API answers."""
        wait_until(lambda: self.answered("/health/live") == 200, "the API listens")
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _look(self) -> None:
        while not self._ending.wait(0.2):
            for path in PAGES:
                self.statuses[self.answered(path)] += 1


@pytest.fixture
def grid(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    (tmp_path / "agents.yaml").write_text(FAST)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    load_grid(database, datetime.now(UTC).replace(microsecond=0))
    return database


def runs_of(database: Database, process: Popen[str], after: int = 0) -> int:
    """The newest cycle that a process has done, of any agent; 0 without one."""
    query = (
        "SELECT coalesce(max(id), 0) FROM broker.agent_runs"
        " WHERE outcome = 'done' AND id > :after AND holder LIKE '%:' || :pid || ':%'"
    )
    with database.begin() as connection:
        return int(connection.execute(sa.text(query), {"after": after, "pid": process.pid}).scalar_one())


def newest_run(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM broker.agent_runs")).scalar_one())


def held_by(database: Database, process: Popen[str]) -> set[str]:
    with database.begin() as connection:
        return {row.name for row in leases.find_all(connection) if row.is_in_force and f":{process.pid}:" in row.holder}


def goes_on(database: Database, process: Popen[str], traffic: Traffic) -> None:
    """A service makes jobs, and pilots report what they ran, from now on."""
    jobs, reported, last = made_jobs(database), traffic.reported, newest_run(database)
    wait_until(lambda: runs_of(database, process, last) > 0, "the service does cycles")
    wait_until(lambda: traffic.reported > reported, "pilots report jobs")
    wait_until(lambda: made_jobs(database) != jobs or traffic.reported > reported + 20, "jobs are made and taken")


def stop(process: Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_there_and_back_over_a_step_that_adds_under_load(grid: Database, tmp_path: Path) -> None:
    this, later = this_release(), later_release(tmp_path / "later", "97.0.0", step_9001_adds=ADDS)
    url, log, port = grid.url, tmp_path / "log", free_port()
    last, readers = watch(grid), Readers(port)
    with grid.sibling("pilots", 6) as own:
        traffic = Traffic(guarded(own), seed=1)
        with (
            this.running(url, "api", "--port", str(port), log=log),
            readers.looking(),
            traffic.going_on(pilots=3),
            this.running(url, "serve", log=log) as first,
        ):
            goes_on(grid, first, traffic)
            status, said, errors = later.run(url, "db", "upgrade", "--check")
            assert (status, "services that run now go on" in said) == (3, True), errors
            assert later.run(url, "db", "upgrade")[0] == 0
            assert later.run(url, "db", "upgrade", "--check")[:2] == (0, "the schema is current\n")
            goes_on(grid, first, traffic)
            with later.running(url, "serve", log=log) as second:
                stop(first)
                goes_on(grid, second, traffic)
                with this.running(url, "serve", log=log) as back:
                    stop(second)
                    goes_on(grid, back, traffic)
                    stop(back)
    assert traffic.errors == []
    assert violations(grid, last, traffic.given) == []
    assert fenced_commits(grid) > 0
    assert set(readers.statuses) == {200}


def test_over_a_step_that_ends_something_the_older_release_only_reads(grid: Database, tmp_path: Path) -> None:
    this = this_release()
    adding = later_release(tmp_path / "adding", "97.0.0", step_9001_adds=ADDS)
    ending = later_release(tmp_path / "ending", "98.0.0", step_9001_adds=ADDS, step_9002_ends=ENDS)
    url, log, port = grid.url, tmp_path / "log", free_port()
    assert adding.run(url, "db", "upgrade")[0] == 0
    readers = Readers(port)
    with this.running(url, "api", "--port", str(port), log=log), readers.looking():
        with this.running(url, "serve", log=log) as older:
            wait_until(lambda: held_by(grid, older) >= set(AGENTS), "the older service leads")
            wait_until(lambda: runs_of(grid, older) > 0, "it does cycles")
            status, said, errors = ending.run(url, "db", "upgrade", "--check")
            assert (status, "services older than 98.0.0 only read afterwards" in said) == (6, True), errors
            assert ending.run(url, "db", "upgrade")[0] == 0
            last = newest_run(grid)
            wait_until(lambda: not held_by(grid, older), "it leaves each agent to a newer one, also the idle ones")
            assert (older.poll(), newest_run(grid)) == (None, last), "it writes nothing that it does not know"
            with ending.running(url, "serve", log=log) as newer:
                wait_until(lambda: held_by(grid, newer) >= set(AGENTS), "the newer service leads")
                wait_until(lambda: runs_of(grid, newer, last) > 0, "and does cycles")
                stop(older)
                stop(newer)
        _only_reads(this, url)
    assert set(readers.statuses) == {200}
    with (
        guarded(Database(url)) as database,
        pytest.raises(SchemaTooNew, match=r"98\.0\.0"),
        database.begin() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM broker.snapshots")


def _only_reads(older: Release, url: str) -> None:
    """Commands that read answer; those that write, and services, are refused by name."""
    for words in (("tasks",), ("agents",), ("queues",)):
        assert older.run(url, *words)[0] == 0, words
    change = ("config", "set", "NQUEUED_SAT_CAP", "149", "--reason", "tried", "--editor", "me")
    for words in (change, ("run", AGENT), ("serve",), ("db", "upgrade"), ("db", "upgrade", "--check")):
        status, out, errors = older.run(url, *words)
        assert (status, "98.0.0 and newer" in errors) == (3, True), (words, out, errors)
