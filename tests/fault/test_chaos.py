"""Two services run for a long time under faults of every kind, one after another, while their clocks jump.

``CHAOS_S`` sets the duration in seconds; the figures are printed (``pytest -s``).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from typing import TypeVar

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.embedded import SUPERUSER, EmbeddedServer
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.schema.migrate import upgrade
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.fault.auditor import Baseline, audit, baseline
from tests.fault.processes import AGENT, SEED, broker, load_grid, made_jobs, on_clock, wait_until

PERIOD_S = 10.0
RECOVERS_WITHIN_S = 2 * PERIOD_S
UNAFFECTED_AGENTS = (AGENT, "activation")
REMOVING_AGENT = "timeouts"
SECTION = f"{{period_s: {PERIOD_S:g}, cycle_budget_s: 60}}"
CONFIG = f"""
leases: {{length_s: 6, renew_every_s: 2, distrust_before_s: 1}}
service: {{retry_first_s: 0.2, heartbeat_every_s: 1, clocks_agree_for_s: 3}}
agents:
  {AGENT}: {SECTION}
  activation: {SECTION}
  {REMOVING_AGENT}: {SECTION}
"""
OFFSETS = ("-1h", "+0", "+1d", "-30d", "+0", "+1h", "-1d")
"""Of the hosts' clock, one after another: each change is a jump, forward or back."""
IN_WRITE = ("before_write", "after_write_before_commit", "after_commit")

_KEEP_FILES = """
CREATE TABLE public.fresh_files AS
SELECT * FROM doma_panda.jedi_dataset_contents WHERE status = 'ready' AND pandaid IS NULL"""
_ADD_FILES = """
WITH added AS (
    INSERT INTO doma_panda.jedi_dataset_contents
    SELECT (jsonb_populate_record(file, jsonb_build_object('fileid', file.fileid + :first))).*
    FROM public.fresh_files AS file RETURNING jeditaskid, datasetid)
UPDATE doma_panda.jedi_datasets AS dataset
SET nfiles = coalesce(nfiles, 0) + n, nfilestobeused = coalesce(nfilestobeused, 0) + n
FROM (SELECT jeditaskid, datasetid, count(*) AS n FROM added GROUP BY 1, 2) AS more
WHERE dataset.jeditaskid = more.jeditaskid AND dataset.datasetid = more.datasetid"""
_START_JOBS = "UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE jobstatus = 'activated'"
_CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database()"""


@dataclass
class Chaos:
    """The services of a run, the faults injected into them, and the violations detected."""

    database: Database
    server: EmbeddedServer
    folder: Path
    before: Baseline
    random: random.Random
    unaffected_agents: tuple[str, ...] = UNAFFECTED_AGENTS
    services: list[Popen[str]] = field(default_factory=list)
    offset: int = 1
    refused_since: int | None = None
    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    recoveries_s: list[tuple[float, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _processes: list[AbstractContextManager[Popen[str]]] = field(default_factory=list)

    def start(self, fault: str = "") -> Popen[str]:
        """Start one more service on the jumping clock."""
        process = broker(
            self.database.url,
            "serve",
            fault=fault,
            markers=self.folder,
            variables={"BROKER_CONFIG": str(self.folder), **on_clock(self.folder / "clock")},
            log=self.folder / "log",
        )
        self._processes.append(process)
        self.services.append(process.__enter__())
        heartbeats = f"SELECT count(*) FROM broker.services WHERE holder LIKE '%:{self.services[-1].pid}:%'"
        wait_until(lambda: self.number(heartbeats) > 0, "a service that was started writes its heartbeat")
        return self.services[-1]

    def end(self) -> None:
        """Stop all services."""
        for process in self._processes:
            process.__exit__(None, None, None)

    def number(self, statement: str, **values: object) -> int:
        """Return one number from the database, or -1 while it does not answer."""
        try:
            with self.database.begin() as connection:
                return int(connection.execute(sa.text(statement), values).scalar_one())
        except TRANSIENT_ERRORS:
            return -1

    def execute(self, statement: str, **values: object) -> None:
        with self.database.begin() as connection:
            connection.execute(sa.text(statement), values)

    def last_run(self, agent: str, outcome: str) -> int:
        """Return the newest run of an agent with this outcome."""
        statement = "SELECT coalesce(max(id), 0) FROM broker.agent_runs WHERE agent = :agent AND outcome = :outcome"
        return self.number(statement, agent=agent, outcome=outcome)

    def leader(self) -> Popen[str]:
        """Return the service that holds the brokerage lease."""
        leaders: list[Popen[str]] = []

        def look() -> bool:
            with self.database.begin() as connection:
                row = leases.find(connection, AGENT)
            holder = row.holder if row is not None and row.is_in_force else ""
            leaders[:] = [service for service in self.services if f":{service.pid}:" in holder]
            return bool(leaders)

        wait_until(look, "a service leads")
        return leaders[0]

    def add_work(self) -> None:
        """Add the initial files again as ready files; start waiting jobs so that queues accept more."""
        self.rounds += 1
        self.execute(_ADD_FILES, first=self.rounds * 10**9)
        self.execute(_START_JOBS)

    def recover(self, fault: str) -> None:
        """Measure how long each unaffected agent takes to complete a cycle started after the fault."""
        newest = self.number("SELECT coalesce(max(id), 0) FROM broker.agent_runs")
        started_s = time.monotonic()
        for agent in self.unaffected_agents:
            wait_until(lambda: self.last_run(agent, "done") > newest, f"{agent} goes on after {fault}")  # noqa: B023
            self.recoveries_s.append((time.monotonic() - started_s, f"{agent} after {fault}"))

    def judge(self, fault: str) -> None:
        """Audit the whole history; removals must stop while the clocks disagree."""
        findings = audit(self.database, self.before)
        if self.refused_since is not None and self.last_run(REMOVING_AGENT, "done") > self.refused_since:
            findings.append(f"{REMOVING_AGENT} went on while the clocks contradict one another")
        self.violations += [f"round {self.rounds}, {fault}: {line}" for line in findings]


def set_clock(chaos: Chaos) -> None:
    offset = OFFSETS[chaos.offset % len(OFFSETS)]
    (chaos.folder / "clock").write_text(f"{offset}\n")
    chaos.offset += 1


def check_clock(chaos: Chaos, before: tuple[int, int]) -> None:
    """The removing agent stops or resumes, which proves that the clock was set."""
    is_right = OFFSETS[(chaos.offset - 1) % len(OFFSETS)] == "+0"
    outcome, last = ("done", before[0]) if is_right else ("refused", before[1])
    wait_until(lambda: chaos.last_run(REMOVING_AGENT, outcome) > last, f"{REMOVING_AGENT} is {outcome}")
    chaos.refused_since = None if is_right else chaos.last_run(REMOVING_AGENT, "refused")


def kill(chaos: Chaos) -> None:
    leader = chaos.leader()
    leader.kill()
    assert leader.wait(30) == -signal.SIGKILL
    chaos.services.remove(leader)


def kill_in_write(chaos: Chaos) -> None:
    """A service dies at a named point of its first write, after the other services have handed over to it."""
    point = chaos.random.choice(IN_WRITE)
    (chaos.folder / point).unlink(missing_ok=True)
    others = list(chaos.services)
    victim = chaos.start(f"{point}:kill")
    for service in others:
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) in (0, 1)
        chaos.services.remove(service)
    chaos.services.remove(victim)
    chaos.start()
    chaos.add_work()
    wait_until((chaos.folder / point).exists, f"{point} was reached")
    assert victim.wait(30) == -signal.SIGKILL


def stop_past_lease(chaos: Chaos) -> None:
    leader = chaos.leader()
    leader.send_signal(signal.SIGSTOP)
    in_force = "SELECT count(*) FROM broker.leases WHERE holder LIKE :holder AND expires_at > clock_timestamp()"
    wait_until(lambda: chaos.number(in_force, holder=f"%:{leader.pid}:%") == 0, "the leases of a stopped service end")
    leader.send_signal(signal.SIGCONT)


def cut_connections(chaos: Chaos) -> None:
    assert chaos.number(_CUT) > 0


def crash_database(chaos: Chaos) -> None:
    postmaster = int((chaos.server.pgdata / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    wait_until(lambda: chaos.number("SELECT 1") == -1, "the database is gone")
    chaos.server.start()
    wait_until(lambda: chaos.number("SELECT 1") == 1, "the database answers again")


def lock_tables(chaos: Chaos) -> None:
    """Lock the job table until a brokerage cycle fails on it."""
    last_failed_run = chaos.last_run(AGENT, "failed_transient")
    with chaos.database.begin() as connection:
        connection.execute(sa.text("LOCK TABLE doma_panda.jobsdefined4 IN EXCLUSIVE MODE"))
        wait_until(lambda: chaos.last_run(AGENT, "failed_transient") > last_failed_run, "a cycle fails")


def steal_lease(chaos: Chaos) -> None:
    """Another holder takes the lease for a moment while the previous holder still trusts it."""
    with chaos.database.begin() as connection:
        connection.execute(
            sa.text("UPDATE broker.leases SET expires_at = clock_timestamp() WHERE name = :name"), {"name": AGENT}
        )
        stolen_lease = leases.acquire(connection, AGENT, "thief", LeaseTerms()).lease
    assert stolen_lease is not None
    with chaos.database.begin() as connection:
        leases.release(connection, stolen_lease)


FAULTS: Mapping[str, Callable[[Chaos], None]] = {
    "clock": set_clock,
    "kill": kill,
    "kill_in_write": kill_in_write,
    "stop_past_lease": stop_past_lease,
    "cut_connections": cut_connections,
    "crash_database": crash_database,
    "lock_tables": lock_tables,
    "steal_lease": steal_lease,
}


ChaosT = TypeVar("ChaosT", bound=Chaos)


@contextmanager
def prepare(kind: type[ChaosT], server: EmbeddedServer, folder: Path, config: str = CONFIG) -> Iterator[ChaosT]:
    """Prepare a grid and a configuration; services start later and stop with the block."""
    (folder / "agents.yaml").write_text(config)
    (folder / "clock").write_text("+0\n")
    with Database(server.url(SUPERUSER)) as database:
        upgrade(database)
        load_grid(database, datetime.now(UTC).replace(microsecond=0))
        run = kind(database, server, folder, baseline(database), random.Random(SEED))
        run.execute(_KEEP_FILES)
        try:
            yield run
        finally:
            run.end()


@pytest.fixture
def chaos(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[Chaos]:
    with prepare(Chaos, own_server, tmp_path) as run:
        yield run


def run_round(chaos: Chaos, name: str) -> None:
    """Inject one fault, wait for the recovery, and audit."""
    before = chaos.last_run(REMOVING_AGENT, "done"), chaos.last_run(REMOVING_AGENT, "refused")
    fault = f"{name} {OFFSETS[chaos.offset % len(OFFSETS)]}" if name == "clock" else name
    chaos.add_work()
    FAULTS[name](chaos)
    chaos.faults[fault] += 1
    chaos.recover(fault)
    if name == "clock":
        check_clock(chaos, before)
    while len(chaos.services) < 2:
        chaos.start()
    chaos.judge(fault)


def figures(chaos: Chaos) -> dict[str, object]:
    """Return the figures of a run."""
    slow = sorted(chaos.recoveries_s, reverse=True)
    with chaos.database.begin() as connection:
        runs = connection.execute(sa.text("SELECT outcome, count(*) FROM broker.agent_runs GROUP BY 1 ORDER BY 1"))
        outcomes = {str(outcome): int(count) for outcome, count in runs}
    return {
        "cycles": outcomes,
        "jobs": made_jobs(chaos.database),
        "faults": dict(chaos.faults),
        "violations": chaos.violations,
        "recovery_s": {"median": slow[len(slow) // 2][0], "longest": slow[:3]},
    }


def suffer(chaos: Chaos) -> None:
    """Inject faults for ``CHAOS_S`` seconds: no violation, and each agent recovers in time."""
    until_s = time.monotonic() + float(os.environ.get("CHAOS_S", "1200"))
    chaos.start()
    chaos.start()
    chaos.recover("the start")
    chaos.recoveries_s.clear()
    while time.monotonic() < until_s:
        names = [name for name in FAULTS if name != "clock"]
        chaos.random.shuffle(names)
        for name in names:
            run_round(chaos, "clock")
            run_round(chaos, name)
            if time.monotonic() >= until_s:
                break
    print(json.dumps(figures(chaos), indent=1))
    assert chaos.violations == []
    assert [recovery for recovery in chaos.recoveries_s if recovery[0] > RECOVERS_WITHIN_S] == []


@pytest.mark.soak
def test_faults_and_clock_jumps_violate_no_invariant(chaos: Chaos) -> None:
    suffer(chaos)
    assert made_jobs(chaos.database) > 0
