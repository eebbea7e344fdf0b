"""The feeds from Rucio against a real server: datasets, containers, tape, quotas, space, and server failures."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from agents.feeds.importing import FeedAlarm
from agents.feeds.rucio_connection import RucioOptions, connect
from agents.feeds.rucio_replicas import ReplicaOptions, RucioReplicasAgent
from agents.feeds.rucio_usage import QuotaOptions, RucioQuotaAgent, RucioSpaceAgent, SpaceOptions
from broker.feeds.model.rucio.questions import Rucio
from tests.agents.feeds.running import PROCESS, Feeding
from tests.agents.feeds.wanting import insert, want
from tests.rucio.conftest import PLACEMENT, RucioServer


def replicas_agent(rucio: RucioServer, connecting: Any = connect, **options: Any) -> RucioReplicasAgent:
    settings = {"rucio_config": rucio.configuration, "requests_per_s": 1000, "time_limit_s": 20, **options}
    return RucioReplicasAgent(ReplicaOptions(**settings), PROCESS, connecting)


def outcomes(feeding: Feeding) -> dict[str, str | None]:
    return dict(feeding.rows("SELECT name, outcome FROM {broker}.replica_requests"))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def places(rucio: RucioServer) -> tuple[str, str]:
    rucio.add_endpoint("ONE_DATADISK")
    rucio.add_endpoint("ONE_DATATAPE", tape=True)
    return "ONE_DATADISK", "ONE_DATATAPE"


def test_replicas_of_datasets_on_disk_and_tape(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    disk, tape = places
    rucio.add_dataset("mc23.whole", 5, {disk: 5, tape: 5})
    rucio.add_dataset("mc23.part", 5, {disk: 2, tape: 5})
    for task, name in enumerate(("mc23.whole", "mc23.part", "mc23.nowhere"), 1):
        want(feeding.database, task, f"mc23:{name}")
    report = feeding.run(replicas_agent(rucio), now)
    assert (report.counts["found"], report.counts["not_found"]) == (2, 1)
    assert feeding.rows(
        "SELECT name, rse, is_tape, available_files, total_files, available_bytes, total_bytes, state "
        "FROM {broker}.dataset_replicas ORDER BY 1, 2"
    ) == [
        ("mc23.part", disk, False, 2, 5, 200, 500, "UNAVAILABLE"),
        ("mc23.part", tape, True, 5, 5, 500, 500, "AVAILABLE"),
        ("mc23.whole", disk, False, 5, 5, 500, 500, "AVAILABLE"),
        ("mc23.whole", tape, True, 5, 5, 500, 500, "AVAILABLE"),
    ]
    on_disk = f"SELECT name FROM {{broker}}.file_replicas WHERE rse = '{disk}' ORDER BY 1"
    assert feeding.rows(on_disk) == [("mc23.part.0",), ("mc23.part.1",)], "files matter where only tape has all"
    assert outcomes(feeding) == {"mc23.whole": "found", "mc23.part": "found", "mc23.nowhere": "not_found"}


def test_only_remotely_readable_datasets_get_virtual_placements(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    disk, tape = places
    rucio.add_dataset("mc23.placed", 3, {disk: 3})
    rucio.add_dataset("mc23.taped", 3, {tape: 3})
    for task, name in enumerate(("mc23.placed", "mc23.taped"), 1):
        want(feeding.database, task, f"mc23:{name}")
    query = "SELECT name, rse, total_files FROM {broker}.dataset_replicas WHERE state = 'VP'"
    for _ in range(3):  # the server waits only one second for the placement service
        feeding.run(replicas_agent(rucio, virtual_placement=True), now)
        if feeding.rows(query):
            break
        now += timedelta(hours=1)
    assert feeding.rows(query) == [("mc23.placed", f"{PLACEMENT}_VP_DISK", 3)]


def test_containers_are_resolved_to_their_datasets(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    for number in (1, 2):
        rucio.add_dataset(f"mc23.in{number}", 3, {places[0]: 3})
    client = rucio.client()
    client.add_container("mc23", "mc23.box")
    client.attach_dids("mc23", "mc23.box", [{"scope": "mc23", "name": f"mc23.in{number}"} for number in (1, 2)])
    want(feeding.database, 1, "mc23:mc23.box/")
    feeding.run(replicas_agent(rucio), now)
    assert feeding.rows("SELECT name, child_name FROM {broker}.container_contents ORDER BY 2") == [
        ("mc23.box", "mc23.in1"),
        ("mc23.box", "mc23.in2"),
    ]
    assert feeding.rows("SELECT sum(available_files) FROM {broker}.dataset_replicas") == [(6,)]
    assert outcomes(feeding) == {"mc23.box": "found", "mc23.in1": "found", "mc23.in2": "found"}


def test_changed_datasets_are_polled_again_sooner(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    rucio.add_dataset("mc23.moves", 4, {places[1]: 4})
    want(feeding.database, 1, "mc23:mc23.moves")
    agent = replicas_agent(rucio)
    intervals = []
    for cycle in range(4):
        if cycle == 3:
            rucio.client().add_replicas(
                places[0],
                [{"scope": "mc23", "name": f"mc23.moves.{n}", "bytes": 100, "adler32": "0cc737eb"} for n in range(4)],
            )
        now += timedelta(hours=1)
        feeding.run(agent, now)
        intervals += feeding.rows("SELECT interval_s FROM {broker}.replica_requests")
    assert intervals == [(300,), (600,), (1200,), (300,)]
    assert feeding.rows("SELECT rse FROM {broker}.dataset_replicas ORDER BY 1") == [(places[0],), (places[1],)]


def test_quotas(rucio: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime) -> None:
    client = rucio.client()
    client.add_account("alice", "USER", "alice@example.org")
    client.set_local_account_limit("alice", places[0], 1000)
    client.set_global_account_limit("alice", places[0], 2000)
    user = {"status": "ready", "prodsourcelabel": "user", "vo": "atlas"}
    insert(
        feeding.database,
        "jedi_tasks",
        [{**user, "jeditaskid": 1, "username": "alice"}, {**user, "jeditaskid": 2, "username": "bob"}],
    )
    report = feeding.run(RucioQuotaAgent(QuotaOptions(rucio_config=rucio.configuration), PROCESS), now)
    assert report.counts["added"] == 2
    assert feeding.rows("SELECT * FROM {broker}.rucio_local_usage") == [("alice", places[0], 0, 1000)]
    assert feeding.rows("SELECT * FROM {broker}.rucio_account_usage") == [("alice", places[0], 0, 2000)]


def test_space(rucio: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime) -> None:
    endpoints = [
        {"ddm_endpoint_name": places[0], "site_name": "ONE"},
        {"ddm_endpoint_name": "NOT_AT_RUCIO", "site_name": "ONE"},
    ]
    insert(feeding.database, "ddm_endpoint", endpoints)
    feeding.run(RucioSpaceAgent(SpaceOptions(rucio_config=rucio.configuration), PROCESS), now)
    assert feeding.rows("SELECT ddm_endpoint_name, space_used, space_free FROM {panda}.ddm_endpoint ORDER BY 1") == [
        ("NOT_AT_RUCIO", None, None),
        (places[0], 10**14 // 2**30, 10**15 // 2**30),
    ]


class InterruptingRucio:
    """A Rucio client that calls a function, such as killing the server, before one of its requests."""

    def __init__(self, rucio: Rucio, after: int, act: Any) -> None:
        self._rucio, self._left, self._act = rucio, after, act
        self.fired = False

    def __getattr__(self, name: str) -> Any:
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self._act()
        return getattr(self._rucio, name)


@pytest.fixture
def restarted_server(rucio: RucioServer) -> Iterator[RucioServer]:
    """The server, restarted after the test whatever the test did to it."""
    yield rucio
    rucio.kill()
    rucio.start()


def test_a_server_that_dies_during_a_cycle(
    restarted_server: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    for number in range(6):
        restarted_server.add_dataset(f"mc23.dies{number}", 2, {places[0]: 2})
        want(feeding.database, 1 + number, f"mc23:mc23.dies{number}", currentpriority=900 - number)
    connections: list[InterruptingRucio] = []

    def connecting(options: RucioOptions) -> Any:
        connections.append(InterruptingRucio(connect(options), 10, restarted_server.kill))
        return connections[-1]

    agent = replicas_agent(restarted_server, connecting, requests_in_flight=1, time_limit_s=5)
    report = feeding.run(agent, now)
    assert connections[0].fired, "the server died"
    assert 0 < report.counts["found"] < 6 and report.counts["no_answer"] == 6 - report.counts["found"]
    answered_names = [name for name, outcome in outcomes(feeding).items() if outcome == "found"]
    assert len(answered_names) == report.counts["found"]
    assert feeding.rows("SELECT count(DISTINCT name) FROM {broker}.dataset_replicas") == [(len(answered_names),)]
    with pytest.raises(FeedAlarm, match="unreachable"):
        feeding.run(replicas_agent(restarted_server, time_limit_s=5), now + timedelta(minutes=10))
    restarted_server.start()
    feeding.run(replicas_agent(restarted_server), now + timedelta(hours=1))
    assert set(outcomes(feeding).values()) == {"found"}


def test_a_hanging_server_does_not_block_the_agent(
    restarted_server: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    restarted_server.add_dataset("mc23.slow", 2, {places[0]: 2})
    want(feeding.database, 1, "mc23:mc23.slow")
    connections: list[InterruptingRucio] = []

    def connecting(options: RucioOptions) -> Any:
        # the first request gets the token and the endpoints; the server stops before the second
        connections.append(InterruptingRucio(connect(options), 2, lambda: restarted_server.signal(signal.SIGSTOP)))
        return connections[-1]

    try:
        with pytest.raises(FeedAlarm, match="unreachable"):
            feeding.run(replicas_agent(restarted_server, connecting, time_limit_s=1), now)
    finally:
        restarted_server.signal(signal.SIGCONT)
    assert connections[0].fired
    assert feeding.rows("SELECT outcome, failures FROM {broker}.replica_requests") == [(None, 1)]
    feeding.run(replicas_agent(restarted_server), now + timedelta(hours=1))
    assert outcomes(feeding) == {"mc23.slow": "found"}


def test_a_token_that_expires_is_replaced(
    restarted_server: RucioServer, places: tuple[str, str], feeding: Feeding, now: datetime
) -> None:
    restarted_server.add_dataset("mc23.token", 2, {places[0]: 2})
    want(feeding.database, 1, "mc23:mc23.token")
    old_token = (restarted_server.folder / "token").read_text()

    def expire() -> None:
        with sqlite3.connect(restarted_server.folder / "rucio.db", timeout=20) as store:
            expired_count = store.execute("UPDATE tokens SET expired_at = '2020-01-01 00:00:00.000000'").rowcount
        store.close()
        assert expired_count > 0

    connections: list[InterruptingRucio] = []

    def connecting(options: RucioOptions) -> Any:
        connections.append(InterruptingRucio(connect(options), 2, expire))
        return connections[-1]

    # the server caches tokens for a while, so a restart clears the cache
    expire()
    restarted_server.kill()
    restarted_server.start()
    report = feeding.run(replicas_agent(restarted_server, connecting), now)
    assert connections[0].fired and report.counts["found"] == 1
    assert (restarted_server.folder / "token").read_text() != old_token
