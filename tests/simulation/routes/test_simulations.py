"""Stored simulations: listed page by page without other runs, found by number, with verdicts on differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker.store.connection.database import Database
from broker.whatif.statements import runs
from tests.api.serving import client_of, serving
from tests.simulation.kept_simulation import keep_simulation

V1 = "/api/v1"


@pytest.fixture
def client(shared_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(shared_database, tmp_path) as server, client_of(server) as http_client:
        yield http_client


def test_simulations_are_listed_and_found(shared_database: Database, client: httpx.Client) -> None:
    with shared_database.begin() as connection:
        numbers = [keep_simulation(connection) for _ in range(3)]
        replay = runs.add(connection, "replay", {}, "somebody")
        runs.cancel(connection, replay)
    first = client.get(f"{V1}/simulations", params={"limit": 2}).json()
    rest = client.get(f"{V1}/simulations", params={"limit": 2, "after": first["next"]}).json()
    assert [line["id"] for page in (first, rest) for line in page["items"]] == numbers[::-1] and rest["next"] is None
    simulation = client.get(f"{V1}/simulations/{numbers[0]}").json()
    assert {name: interval["verdict"] for name, interval in simulation["policies"][1]["differences"].items()} == {
        "use": "better",
        "wait_95_s": "worse",
        "jain": "no_difference",
        "makespan_s": "not_known",
    }
    assert first["items"][1] == {
        name: client.get(f"{V1}/simulations/{numbers[1]}").json()[name] for name in rest["items"][0]
    }
    assert client.get(f"{V1}/simulations/{replay}").json()["code"] == "no_such_simulation"
    line = client.get(f"{V1}/runs/{numbers[0]}").json()
    assert (line["kind"], line["state"], line["done"], line["total"]) == ("simulation", "done", 20, 20)
    assert [run["id"] for run in client.get(f"{V1}/runs").json()["items"]] == [replay, *numbers[::-1]]
