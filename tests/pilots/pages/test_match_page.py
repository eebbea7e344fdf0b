"""The page and the API that show which nodes fit a job, and which jobs fit a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import httpx
import pytest

from broker.matching.specs.spec import Bounds, JobSpecs, Spec
from broker.store.connection.database import Database
from broker.web.mounting import page_parts
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.pilots.statements.test_job_match import add_jobs, follow
from tests.pilots.statements.test_node_match import ask
from tests.pools.pool_grid import emptied, execute, publish_places, refresh, rows

pytestmark = pytest.mark.slow

PLACE = {"site": "SITE_A", "ce": "ce1", "queue": "long", "vo": "lhcb"}
NODE = {"cpu": {"num_cores": 8, "ram_mb": 16_000}, "tags": ["os:el9"]}


@pytest.fixture
def client(shared_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    execute(shared_database, "TRUNCATE broker.presented_nodes, broker.presented_tags, broker.matched_requests")
    ask(shared_database, 11, JobSpecs((Spec(cores=Bounds(16)),), "lhcb").canonical)
    add_jobs(shared_database, 100, 3, jeditaskid=11, processingtype="evgen")
    follow(shared_database)
    parts = page_parts(shipped(), TOKEN, monotonic)
    with serving(shared_database, tmp_path, shipped(), parts=parts) as server, client_of(server) as http_client:
        yield http_client


def present(client: httpx.Client, database: Database) -> None:
    """Present a node that gets no job, and wait until it is recorded, which happens after the answer."""
    assert client.post("/api/v1/jobs:match", json={**PLACE, "node": NODE}).json()["reason"] == "node"
    deadline_s = monotonic() + 30
    while not rows(database, "SELECT FROM broker.presented_nodes"):
        assert monotonic() < deadline_s


def test_presented_nodes_are_recorded_and_near_misses_of_a_job_shown(
    client: httpx.Client, shared_database: Database
) -> None:
    present(client, shared_database)
    assert rows(shared_database, "SELECT site, ce, queue, requests FROM broker.presented_nodes") == [
        ("SITE_A", "ce1", "long", 1)
    ]
    assert rows(shared_database, "SELECT tag FROM broker.presented_tags") == [("os:el9",)]
    match = client.get("/api/v1/jobs/100/match").json()
    assert [(miss["field"], miss["asked"], miss["best"]) for miss in match["near"]] == [("cpu.num-cores.min", 16, 8)]
    assert client.get("/match", params={"pandaid": "100", "format": "json"}).json() == {"job": match, "node": None}
    assert client.get("/api/v1/jobs/101/match").status_code == 200
    assert client.get("/api/v1/jobs/99/match").json()["code"] == "nothing_found"


def test_unsubmitted_specs_and_nodes_are_matched(client: httpx.Client, shared_database: Database) -> None:
    present(client, shared_database)
    request = {"job": {"requirements": {"cpu": {"num_cores": {"min": 8}}, "tags": "os:el9 & os:none"}}}
    match = client.post("/api/v1/match/specs", json=request).json()
    assert match["never_presented"] == ["os:none"] and [line["field"] for line in match["near"]] == ["tags"]
    refusal = client.post("/api/v1/match/specs", json={"job": {"requirements": {"wall_time": -1, "cpu": {"x": 1}}}})
    assert refusal.status_code == 422 and all(
        part in refusal.json()["detail"] for part in ("requirements.wall_time: -1", "requirements.cpu.x: 1")
    )
    assert client.post("/api/v1/match/specs", json={**request, "panda_queue": "NONE"}).status_code == 422
    node = client.post("/api/v1/match/nodes", json={**PLACE, "node": NODE}).json()
    assert node["near"] == [{"field": "node cpu.num-cores.min", "task_queues": 1, "jobs": 3}]
    larger = client.post("/api/v1/match/nodes", json={**PLACE, "node": {"cpu": {"num_cores": 16}}}).json()
    assert [(line["tier"], line["jobs"], line["held"]) for line in larger["fits"]] == [(None, 3, 0)]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, ("Which nodes fit it", "Which jobs fit it")),
        ({"pandaid": "100"}, ("16 asked, 8 the most of 1 sightings, at SITE_A", "Nodes for", "cpu.num-cores.min")),
        ({"specs": "requirements: {tags: <b>}"}, ("422", "character 1")),
        ({"specs": "requirements: {tags: none}"}, ("nobody ever presented tag none",)),
        ({**PLACE, "node": "cpu: {num_cores: 8}"}, ("Jobs for the node at QUEUE_A", "node cpu.num-cores.min")),
        ({**PLACE, "node": "cpu: [8]"}, ("422", "cpu")),
        ({"queue": "long"}, ("Jobs for the node at long",)),
    ],
)
def test_the_page(
    client: httpx.Client, shared_database: Database, params: dict[str, str], words: tuple[str, ...]
) -> None:
    present(client, shared_database)
    page = client.get("/match", params=params, headers={"Accept": "text/html"})
    assert all(word in page.text for word in words), page.text
    assert page.text.count("<table") == page.text.count("<caption>") and "<b>" not in page.text


def test_the_list_of_pools(client: httpx.Client) -> None:
    page = client.get("/pools", headers={"Accept": "text/html"})
    assert page.status_code == 200 and 'href="/match"' in page.text
    assert client.get("/pools", params={"format": "json"}).json() == {"pools": []}
