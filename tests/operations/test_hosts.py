"""Two brokers with their APIs on two hosts, the database on a third; for a while nothing passes between two of them."""

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
from tests.fault.test_parts import SHARES, decided_elsewhere
from tests.fault.traffic import Traffic
from tests.operations.hosts import Hosts
from tests.operations.postgres_cluster import PostgresCluster, open_folder

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

TAKEN_OVER_WITHIN_S = 20.0
PORT = 8010
OTHERS = ("activation", "completion")
CONFIG = f"""
service: {{retry_first_s: 0.2, heartbeat_every_s: 1}}
agents:
  {AGENT}: {{period_s: 0.5, cycle_budget_s: 5, parts: 2}}
  activation: {{period_s: 0.5, cycle_budget_s: 5}}
  completion: {{period_s: 0.5, cycle_budget_s: 5}}
"""
PARTS = set(division_of(f"{AGENT}#1/2"))
LEASES = PARTS | set(OTHERS)


@dataclass
class Installation:
    """Hosts with what runs on them.

    Attributes:
        hosts: ``left`` and ``right`` with a service and an API each, and ``base`` with the database.
        database: seen from the host of the database.
        services: by host.
        figures: what was measured, for the page on scale.
    """

    hosts: Hosts
    database: Database
    services: dict[str, Popen[str]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    def held(self, host: str) -> set[str]:
        """The leases in force of the service of a host."""
        with self.database.begin() as connection:
            rows = [row for row in leases.find_all(connection) if row.is_in_force]
        return {row.name for row in rows if f":{self.services[host].pid}:" in row.holder}

    def runs(self, host: str) -> int:
        """Cycles that the service of a host has begun."""
        query = "SELECT count(*) FROM broker.agent_runs WHERE holder LIKE '%:' || :pid || ':%'"
        with self.database.begin() as connection:
            return int(connection.execute(sa.text(query), {"pid": self.services[host].pid}).scalar_one())

    def ready(self, host: str) -> int:
        """What the API of a host answers to the probe of readiness; 0: nothing."""
        with self.hosts.inside(host):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health/ready", timeout=20) as answer:
                    return int(answer.status)
            except OSError as error:
                return int(getattr(error, "code", 0))

    def both_lead(self) -> bool:
        """Whether each service leads a part, and all leases are held."""
        left, right = self.held("left"), self.held("right")
        return bool(left & PARTS) and bool(right & PARTS) and left | right == LEASES


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts("left", "right", "base")
    try:
        made.make()
        yield made
    finally:
        made.remove()


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
    here = f"@/{{}}?host={server.folder}&port={server.port}"
    with psycopg.connect("postgresql://postgres:secret" + here.format("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE broker")
    with Database("postgresql://postgres:secret" + here.format("broker")) as database, ExitStack() as stack:
        upgrade(database)
        load_grid(database, datetime.now(UTC).replace(microsecond=0))
        _spread_shares(database)
        made = Installation(hosts, database)
        for host in ("left", "right"):
            url = f"postgresql://postgres:secret@{hosts.address('base', host)}:{server.port}/broker"
            variables = {"BROKER_HOME": str(tmp_path / host)}
            log = tmp_path / f"{host}.log"
            with hosts.inside(host):
                made.services[host] = stack.enter_context(broker(url, "serve", variables=variables, log=log))
                stack.enter_context(broker(url, "api", "--port", str(PORT), variables=variables, log=log))
        yield made


def _spread_shares(database: Database) -> None:
    """Tasks of both parts, so that each broker has something to do."""
    with database.begin() as connection:
        tasks = list(connection.execute(sa.text("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1")).scalars())
        for at, task in enumerate(tasks):
            change = "UPDATE doma_panda.jedi_tasks SET gshare = :share, workqueue_id = NULL WHERE jeditaskid = :task"
            connection.execute(sa.text(change), {"share": SHARES[at % 4], "task": task})


def lose(installation: Installation, host: str, other: str) -> None:
    """Cut a host off the database: the other one takes all of its leases, and it writes nothing until it is back."""
    hosts = installation.hosts
    with hosts.cut(host, "base"):
        began = time.monotonic()
        wait_until(lambda: installation.held(other) == LEASES, f"{other} leads all", TAKEN_OVER_WITHIN_S)
        installation.figures[f"{host} cut off, taken over after s"] = round(time.monotonic() - began, 1)
        begun, there = installation.runs(host), installation.runs(other)
        wait_until(lambda: installation.ready(host) == 503, f"the API of {host} says that it is not ready")
        wait_until(lambda: installation.runs(other) > there + 5, f"{other} does the work")
        assert installation.ready(other) == 200
        assert installation.services[host].poll() is None
        assert (installation.runs(host), installation.held(other)) == (begun, LEASES)
    began = time.monotonic()
    wait_until(installation.both_lead, "both lead again")
    installation.figures[f"{host} back, leads again after s"] = round(time.monotonic() - began, 1)
    wait_until(lambda: installation.runs(host) > begun, f"{host} works again")


def leave_alone(installation: Installation) -> None:
    """Brokers do not speak to one another: that nothing passes between them is no matter."""
    with installation.hosts.cut("left", "right"):
        held = {host: installation.held(host) for host in ("left", "right")}
        runs = {host: installation.runs(host) for host in held}
        for host in held:
            wait_until(lambda: installation.runs(host) > runs[host] + 10, f"{host} goes on")  # noqa: B023
        assert {host: installation.held(host) for host in held} == held


def test_no_partition_of_two_hosts_breaks_a_promise(installation: Installation) -> None:
    assert os.geteuid() == 0
    database = installation.database
    last, jobs = watch(database), made_jobs(database)
    with database.sibling("pilots", 6) as own:
        traffic = Traffic(own, seed=1)
        with traffic.going_on(pilots=3):
            wait_until(installation.both_lead, "each service leads a part")
            wait_until(lambda: installation.ready("left") == installation.ready("right") == 200, "both APIs are ready")
            lose(installation, "left", "right")
            lose(installation, "right", "left")
            leave_alone(installation)
        for service in installation.services.values():
            service.send_signal(signal.SIGTERM)
            assert service.wait(PATIENCE_S) == 0
    with database.begin() as connection:
        query = "SELECT count(*) FROM broker.agent_runs WHERE outcome = 'done'"
        cycles = connection.exec_driver_sql(query).scalar_one()
    figures = installation.figures | {"cycles": cycles, "given": len(traffic.given), "ended": traffic.reported}
    print(json.dumps(figures | {"fenced commits": fenced_commits(database)}))
    assert traffic.errors == []
    assert violations(database, last, traffic.given) == []
    assert decided_elsewhere(database) == []
    assert fenced_commits(database) > 0
    assert made_jobs(database) > jobs or traffic.reported > 0
