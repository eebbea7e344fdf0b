"""Two brokers and their APIs run on two hosts, the database on a third; one link between hosts is cut for a while."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen

import psycopg
import pytest
import sqlalchemy as sa

from broker.domain.parts import division_of
from broker.store.connection.database import Database
from broker.store.schema.migrate import upgrade
from broker.store.service import leases
from tests.fault.history import fenced_commits, violations, watch
from tests.fault.processes import AGENT, PATIENCE_S, broker, load_grid, made_jobs, wait_until
from tests.fault.test_parts import SHARES, decisions_outside_their_part
from tests.fault.traffic import Traffic
from tests.operations.hosts import Hosts
from tests.operations.postgres_cluster import PostgresCluster, open_folder

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

TAKEOVER_WITHIN_S = 20.0
PORT = 8010
OTHER_AGENTS = ("activation", "completion")
CONFIG = f"""
service: {{retry_first_s: 0.2, heartbeat_every_s: 1}}
agents:
  {AGENT}: {{period_s: 0.5, cycle_budget_s: 5, parts: 2}}
  activation: {{period_s: 0.5, cycle_budget_s: 5}}
  completion: {{period_s: 0.5, cycle_budget_s: 5}}
"""
PARTS = set(division_of(f"{AGENT}#1/2"))
LEASES = PARTS | set(OTHER_AGENTS)


@dataclass
class Installation:
    """Hosts and the processes on them.

    Attributes:
        hosts: ``left`` and ``right`` with a service and an API each, and ``base`` with the database.
        database: the database as seen from its own host.
        services: the service of each host.
        figures: measurements for the page on scale.
    """

    hosts: Hosts
    database: Database
    services: dict[str, Popen[str]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def leases_of(self, host: str) -> set[str]:
        """Return the leases in force that a host's service holds."""
        with self.database.begin() as connection:
            rows = [row for row in leases.find_all(connection) if row.is_in_force]
        return {row.name for row in rows if f":{self.services[host].pid}:" in row.holder}

    def runs(self, host: str) -> int:
        """Return the number of cycles that a host's service started."""
        query = "SELECT count(*) FROM broker.agent_runs WHERE holder LIKE '%:' || :pid || ':%'"
        with self.database.begin() as connection:
            return int(connection.execute(sa.text(query), {"pid": self.services[host].pid}).scalar_one())

    def readiness(self, host: str) -> int:
        """Return the status of the API's readiness probe, or 0 without a response."""
        with self.hosts.inside(host):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health/ready", timeout=20) as response:
                    return int(response.status)
            except OSError as error:
                return int(getattr(error, "code", 0))

    def both_lead(self) -> bool:
        """Return whether each service leads a part and all leases are held."""
        left, right = self.leases_of("left"), self.leases_of("right")
        return bool(left & PARTS) and bool(right & PARTS) and left | right == LEASES


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    network = Hosts("left", "right", "base")
    try:
        network.make()
        yield network
    finally:
        network.remove()


@pytest.fixture
def server(hosts: Hosts) -> Iterator[PostgresCluster]:
    """A PostgreSQL on the host ``base``."""
    cluster = PostgresCluster(open_folder("base"), "secret")
    cluster.make()
    with (cluster.data / "pg_hba.conf").open("a", encoding="utf-8") as hba:
        hba.write("host all all 10.77.0.0/16 scram-sha-256\n")
    try:
        with hosts.inside("base"):
            cluster.start({"listen_addresses": "*"})
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def installation(
    hosts: Hosts, server: PostgresCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    (tmp_path / "agents.yaml").write_text(CONFIG)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    address_template = f"@/{{}}?host={server.folder}&port={server.port}"
    with psycopg.connect(
        "postgresql://postgres:secret" + address_template.format("postgres"), autocommit=True
    ) as connection:
        connection.execute("CREATE DATABASE broker")
    with Database("postgresql://postgres:secret" + address_template.format("broker")) as database, ExitStack() as stack:
        upgrade(database)
        load_grid(database, datetime.now(UTC).replace(microsecond=0))
        _spread_shares(database)
        deployment = Installation(hosts, database)
        for host in ("left", "right"):
            url = f"postgresql://postgres:secret@{hosts.address('base', host)}:{server.port}/broker"
            variables = {"BROKER_HOME": str(tmp_path / host)}
            log = tmp_path / f"{host}.log"
            with hosts.inside(host):
                deployment.services[host] = stack.enter_context(broker(url, "serve", variables=variables, log=log))
                stack.enter_context(broker(url, "api", "--port", str(PORT), variables=variables, log=log))
        yield deployment


def _spread_shares(database: Database) -> None:
    """Spread the tasks over both parts, so that each broker has work."""
    with database.begin() as connection:
        tasks = list(connection.execute(sa.text("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1")).scalars())
        for number, task in enumerate(tasks):
            change = "UPDATE doma_panda.jedi_tasks SET gshare = :share, workqueue_id = NULL WHERE jeditaskid = :task"
            connection.execute(sa.text(change), {"share": SHARES[number % 4], "task": task})


def cut_off_database(installation: Installation, host: str, peer: str) -> None:
    """Cut a host off the database: the other host takes all its leases, and it writes nothing until it reconnects."""
    hosts = installation.hosts
    with hosts.cut(host, "base"):
        started_s = time.monotonic()
        wait_until(lambda: installation.leases_of(peer) == LEASES, f"{peer} leads all", TAKEOVER_WITHIN_S)
        installation.figures[f"{host} cut off, taken over after s"] = round(time.monotonic() - started_s, 1)
        runs_at_cut, other_runs = installation.runs(host), installation.runs(peer)
        wait_until(lambda: installation.readiness(host) == 503, f"the API of {host} says that it is not ready")
        wait_until(lambda: installation.runs(peer) > other_runs + 5, f"{peer} does the work")
        assert installation.readiness(peer) == 200
        assert installation.services[host].poll() is None
        assert (installation.runs(host), installation.leases_of(peer)) == (runs_at_cut, LEASES)
    started_s = time.monotonic()
    wait_until(installation.both_lead, "both lead again")
    installation.figures[f"{host} back, leads again after s"] = round(time.monotonic() - started_s, 1)
    wait_until(lambda: installation.runs(host) > runs_at_cut, f"{host} works again")


def cut_off_brokers(installation: Installation) -> None:
    """Cut the link between the brokers: they do not communicate, so nothing changes."""
    with installation.hosts.cut("left", "right"):
        leases_before = {host: installation.leases_of(host) for host in ("left", "right")}
        runs_before = {host: installation.runs(host) for host in leases_before}
        for host in leases_before:
            wait_until(lambda: installation.runs(host) > runs_before[host] + 10, f"{host} goes on")  # noqa: B023
        assert {host: installation.leases_of(host) for host in leases_before} == leases_before


def test_a_partition_between_two_hosts_violates_no_invariant(installation: Installation) -> None:
    assert os.geteuid() == 0
    database = installation.database
    last, jobs = watch(database), made_jobs(database)
    with database.sibling("pilots", 6) as pilot_database:
        traffic = Traffic(pilot_database, seed=1)
        with traffic.running(pilots=3):
            wait_until(installation.both_lead, "each service leads a part")
            wait_until(
                lambda: installation.readiness("left") == installation.readiness("right") == 200, "both APIs are ready"
            )
            cut_off_database(installation, "left", "right")
            cut_off_database(installation, "right", "left")
            cut_off_brokers(installation)
        for service in installation.services.values():
            service.send_signal(signal.SIGTERM)
            assert service.wait(PATIENCE_S) == 0
    with database.begin() as connection:
        query = "SELECT count(*) FROM broker.agent_runs WHERE outcome = 'done'"
        cycles = connection.exec_driver_sql(query).scalar_one()
    figures = installation.figures | {
        "cycles": cycles,
        "given": len(traffic.assigned_jobs),
        "ended": traffic.final_reports,
    }
    print(json.dumps(figures | {"fenced commits": fenced_commits(database)}))
    assert traffic.errors == []
    assert violations(database, last, traffic.assigned_jobs) == []
    assert decisions_outside_their_part(database) == []
    assert fenced_commits(database) > 0
    assert made_jobs(database) > jobs or traffic.final_reports > 0
