"""Upgrade and downgrade while services, pilots and page readers run: no work is lost or duplicated.

The releases are this one, a later one whose step only adds, and one whose step removes: that step names the oldest
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
from tests.fault.history import JOBS, fenced_commits, violations, watch
from tests.fault.processes import AGENT, PATIENCE_S, load_grid, wait_until
from tests.fault.releases import Release, later_release, this_release
from tests.fault.traffic import Traffic
from tests.operations.postgres_cluster import free_port

pytestmark = pytest.mark.slow

AGENTS = (AGENT, "activation", "completion", "submit_pool_refresh")
SECTION = "{period_s: 0.5, cycle_budget_s: 60}"
FAST = "service: {retry_first_s: 0.2, heartbeat_every_s: 1}\nagents:\n" + "".join(
    f"  {agent_name}: {SECTION}\n" for agent_name in AGENTS
)
ADDING_STEP = "-- Made up.\nALTER TABLE broker.agent_runs ADD COLUMN made_up text;\n"
REMOVING_STEP = "-- Made up.\n-- oldest writer: 98.0.0\nALTER TABLE broker.agent_runs DROP COLUMN made_up;\n"
PAGES = ("/", "/tasks", "/service", "/api/v1/tasks")


class Readers:
    """Clients that read the page while releases change; ``statuses`` counts the response statuses."""

    def __init__(self, port: int) -> None:
        self.statuses: Counter[int] = Counter()
        self._port, self._ending = port, threading.Event()

    def status_of(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as response:
                return int(response.status)
        except OSError as error:
            return int(getattr(error, "code", 0))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read the pages from the moment the API responds until the block ends."""
        wait_until(lambda: self.status_of("/health/live") == 200, "the API listens")
        thread = threading.Thread(target=self._read_pages)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _read_pages(self) -> None:
        while not self._ending.wait(0.2):
            for path in PAGES:
                self.statuses[self.status_of(path)] += 1


@pytest.fixture
def grid(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    (tmp_path / "agents.yaml").write_text(FAST)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    load_grid(database, datetime.now(UTC).replace(microsecond=0))
    return database


def newest_run_of(database: Database, process: Popen[str], after: int = 0) -> int:
    """Return the newest completed cycle of a process, of any agent, or 0."""
    query = (
        "SELECT coalesce(max(id), 0) FROM broker.agent_runs"
        " WHERE outcome = 'done' AND id > :after AND holder LIKE '%:' || :pid || ':%'"
    )
    with database.begin() as connection:
        return int(connection.execute(sa.text(query), {"after": after, "pid": process.pid}).scalar_one())


def newest_run(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT coalesce(max(id), 0) FROM broker.agent_runs")).scalar_one())


def newest_job(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text(f"SELECT max(pandaid) FROM {JOBS} AS job")).scalar_one())


def leases_held_by(database: Database, process: Popen[str]) -> set[str]:
    with database.begin() as connection:
        return {row.name for row in leases.find_all(connection) if row.is_in_force and f":{process.pid}:" in row.holder}


def wait_for_progress(database: Database, process: Popen[str], traffic: Traffic) -> None:
    """Wait until the service completes cycles and creates jobs, and pilots take jobs and report final ones."""
    job, taken, reports = newest_job(database), len(traffic.assigned_jobs), traffic.final_reports
    last = newest_run(database)
    wait_until(lambda: newest_run_of(database, process, last) > 0, "the service does cycles")
    wait_until(lambda: newest_job(database) > job, "jobs are made")
    wait_until(lambda: len(traffic.assigned_jobs) > taken, "pilots take jobs")
    wait_until(lambda: traffic.final_reports > reports, "pilots report jobs")


def stop(process: Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_upgrade_and_downgrade_over_an_adding_step_under_load(grid: Database, tmp_path: Path) -> None:
    this_version, later_version = (
        this_release(),
        later_release(tmp_path / "later", "97.0.0", step_9001_adds=ADDING_STEP),
    )
    url, log, port = grid.url, tmp_path / "log", free_port()
    last, readers = watch(grid), Readers(port)
    with grid.sibling("pilots", 6) as pilot_database:
        traffic = Traffic(guarded(pilot_database), seed=1)
        with (
            this_version.running(url, "api", "--port", str(port), log=log),
            readers.running(),
            traffic.running(pilots=3),
            this_version.running(url, "serve", log=log) as first,
        ):
            wait_for_progress(grid, first, traffic)
            status, output, errors = later_version.run(url, "db", "upgrade", "--check")
            assert (status, "services that run now go on" in output) == (3, True), errors
            assert later_version.run(url, "db", "upgrade")[0] == 0
            assert later_version.run(url, "db", "upgrade", "--check")[:2] == (0, "the schema is current\n")
            wait_for_progress(grid, first, traffic)
            with later_version.running(url, "serve", log=log) as second:
                stop(first)
                wait_for_progress(grid, second, traffic)
                with this_version.running(url, "serve", log=log) as third:
                    stop(second)
                    wait_for_progress(grid, third, traffic)
                    stop(third)
    assert traffic.errors == []
    assert violations(grid, last, traffic.assigned_jobs) == []
    assert fenced_commits(grid) > 0
    assert set(readers.statuses) == {200}


def test_the_older_release_only_reads_after_a_removing_step(grid: Database, tmp_path: Path) -> None:
    this_version = this_release()
    adding_release = later_release(tmp_path / "adding", "97.0.0", step_9001_adds=ADDING_STEP)
    removing_release = later_release(
        tmp_path / "ending", "98.0.0", step_9001_adds=ADDING_STEP, step_9002_ends=REMOVING_STEP
    )
    url, log, port = grid.url, tmp_path / "log", free_port()
    assert adding_release.run(url, "db", "upgrade")[0] == 0
    readers = Readers(port)
    with this_version.running(url, "api", "--port", str(port), log=log), readers.running():
        with this_version.running(url, "serve", log=log) as older_service:
            wait_until(lambda: leases_held_by(grid, older_service) >= set(AGENTS), "the older service leads")
            wait_until(lambda: newest_run_of(grid, older_service) > 0, "it does cycles")
            status, output, errors = removing_release.run(url, "db", "upgrade", "--check")
            assert (status, "services older than 98.0.0 only read afterwards" in output) == (6, True), errors
            assert removing_release.run(url, "db", "upgrade")[0] == 0
            last = newest_run(grid)
            wait_until(
                lambda: not leases_held_by(grid, older_service),
                "it leaves each agent to a newer one, also the idle ones",
            )
            assert (older_service.poll(), newest_run(grid)) == (None, last), "it writes nothing that it does not know"
            with removing_release.running(url, "serve", log=log) as newer_service:
                wait_until(lambda: leases_held_by(grid, newer_service) >= set(AGENTS), "the newer service leads")
                wait_until(lambda: newest_run_of(grid, newer_service, last) > 0, "and does cycles")
                stop(older_service)
                stop(newer_service)
        _check_that_it_only_reads(this_version, url)
    assert set(readers.statuses) == {200}
    with (
        guarded(Database(url)) as database,
        pytest.raises(SchemaTooNew, match=r"98\.0\.0"),
        database.begin() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM broker.snapshots")


def _check_that_it_only_reads(older: Release, url: str) -> None:
    """Reading commands succeed; writing commands and services are rejected by version."""
    for words in (("tasks",), ("agents",), ("queues",)):
        assert older.run(url, *words)[0] == 0, words
    change = ("config", "set", "NQUEUED_SAT_CAP", "149", "--reason", "tried", "--editor", "me")
    for words in (change, ("run", AGENT), ("serve",), ("db", "upgrade"), ("db", "upgrade", "--check")):
        status, out, errors = older.run(url, *words)
        assert (status, "98.0.0 and newer" in errors) == (3, True), (words, out, errors)
