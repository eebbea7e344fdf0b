"""Feeds that read PanDA's tables as sites have them, with a read-only role, store the same as on our own tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agents.feeds.cric import CricAgent, CricOptions
from agents.feeds.rucio_replicas import ReplicaOptions, RucioReplicasAgent
from agents.feeds.rucio_usage import QuotaOptions, RucioQuotaAgent, RucioSpaceAgent, SpaceOptions
from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.schema import migrate
from tests.agents.feeds.fake_rucio import FakeRucio, replica
from tests.agents.feeds.running import PROCESS, Feeding
from tests.agents.feeds.wanting import want
from tests.alongside.conftest import READ, least_role
from tests.alongside.panda_forms import reshape

STATUSES = ("assigning", "ready", "scouting", "running", "pending", "finished", "defined")
FED = ("dataset_replicas", "dataset_metadata", "file_replicas", "container_contents", "rucio_local_usage",
       "rucio_account_usage")  # fmt: skip


def fill(database: Database) -> None:
    """Insert tasks of every status with a dataset each; other tasks read a container, an unknown dataset and files."""
    for number, status in enumerate(STATUSES, 1):
        want(database, number, f"mc23:{status}", status=status, currentpriority=None if number == 3 else number)
    want(database, 10, "mc23:box/", prodsourcelabel="user", username="alice", workinggroup="GP")
    want(database, 11, "mc23:gone")
    want(database, 12, "mc23:part", files=3)


def rucio() -> FakeRucio:
    """A fake Rucio that knows the input of the tasks."""
    whole_replicas = {("mc23", name): [replica("DISK"), replica("TAPE")] for name in (*STATUSES, "in1")}
    partial_replicas = {("mc23", name): [replica("DISK", 2)] for name in ("in2", "part")}
    return FakeRucio(
        replicas={**whole_replicas, **partial_replicas},
        containers={("mc23", "box"): [("mc23", "in1"), ("mc23", "in2")]},
        files={("mc23", "part"): [{"scope": "mc23", "name": "part.0", "states": {"DISK": "AVAILABLE"}}]},
        accounts={
            "alice": ([{"rse": "DISK", "bytes": 1, "bytes_limit": 2}], []),
            "GP": ([], [{"rse_expression": "t=2", "bytes": 3, "bytes_limit": 4}]),
        },
    )


@pytest.fixture
def both(make_database: Callable[..., Database], tmp_path: Path) -> Iterator[tuple[Feeding, Feeding]]:
    """Feeds on our own tables, and on PanDA's with a read-only role."""
    our_database, panda = make_database(), make_database()
    for database in (our_database, panda):
        fill(database)
    reshape(panda)
    with least_role(panda) as connect:
        least = connect(*READ)
        assert migrate.upgrade(least).mode == migrate.BESIDE
        yield Feeding(our_database, tmp_path), Feeding(least, tmp_path)


def catalogue_rows(feeding: Feeding) -> dict[str, list[Any]]:
    """The rows of the fed tables, sorted."""
    rows_by_table = {}
    with feeding.database.read_snapshot() as connection:
        for table in FED:
            rows = connection.execute(sa.text(f"SELECT to_jsonb(t) FROM broker.{table} AS t")).scalars()
            rows_by_table[table] = sorted(rows, key=str)
    return rows_by_table


def test_replicas_and_quotas_are_fed_and_nothing_else(both: tuple[Feeding, Feeding], tmp_path: Path) -> None:
    requests = []
    for feeding in both:
        fake_rucio = rucio()
        replicas = ReplicaOptions(requests_per_s=10_000, requests_in_flight=1)
        feeding.run(RucioReplicasAgent(replicas, PROCESS, lambda _, fake_rucio=fake_rucio: fake_rucio))
        feeding.run(
            RucioQuotaAgent(QuotaOptions(requests_per_s=10_000), PROCESS, lambda _, fake_rucio=fake_rucio: fake_rucio)
        )
        requests.append(sorted(fake_rucio.asked, key=str))  # accounts are requested concurrently
    our_feeding, least = both
    assert requests[1] == requests[0] and ("metadata", ("mc23", "pending")) in requests[0]
    assert catalogue_rows(least) == catalogue_rows(our_feeding)
    assert all(catalogue_rows(our_feeding)[table] for table in FED)
    for agent in (
        CricAgent(CricOptions(documents={"queues": str(tmp_path / "none.json")}), PROCESS),
        RucioSpaceAgent(SpaceOptions(), PROCESS, lambda _: rucio()),
    ):
        with pytest.raises(Refused, match="PanDA's own tables"):
            least.run(agent)
