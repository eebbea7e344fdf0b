"""Simulations that were kept: listed in pages apart from other runs, found by number, with what differences say."""

from __future__ import annotations

import httpx

from broker.store.connection.database import Database
from broker.whatif.statements import runs
from tests.api.kept_simulation import keep_simulation

V1 = "/api/v1"


def test_simulations_are_listed_and_found(shared: Database, client: httpx.Client) -> None:
    with shared.begin() as connection:
        numbers = [keep_simulation(connection) for _ in range(3)]
        other = runs.add(connection, "replay", {}, "somebody")
        runs.cancel(connection, other)
    first = client.get(f"{V1}/simulations", params={"limit": 2}).json()
    rest = client.get(f"{V1}/simulations", params={"limit": 2, "after": first["next"]}).json()
    assert [one["id"] for page in (first, rest) for one in page["items"]] == numbers[::-1] and rest["next"] is None
    found = client.get(f"{V1}/simulations/{numbers[0]}").json()
    assert {name: one["verdict"] for name, one in found["policies"][1]["differences"].items()} == {
        "use": "better",
        "wait_95_s": "worse",
        "jain": "no_difference",
        "makespan_s": "not_known",
    }
    assert first["items"][1] == {
        name: client.get(f"{V1}/simulations/{numbers[1]}").json()[name] for name in rest["items"][0]
    }
    assert client.get(f"{V1}/simulations/{other}").json()["code"] == "no_such_simulation"
    line = client.get(f"{V1}/runs/{numbers[0]}").json()
    assert (line["kind"], line["state"], line["done"], line["total"]) == ("simulation", "done", 20, 20)
    assert [one["id"] for one in client.get(f"{V1}/runs").json()["items"]] == [other, *numbers[::-1]]
