"""Why a pilot gets the jobs it gets, and why it gets no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.matching.specs.node import Node
from broker.matching.specs.spec import Bounds, JobSpecs, Memory, Spec
from broker.matching.specs.tags import parse_tags
from broker.pilots.answers.why_node import FittingTier, TaskQueuesThatMiss, WhyNode, why_node
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.running_limits import LimitState
from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.pilots.statements.test_job_match import LONG, add_jobs, follow
from tests.pilots.statements.test_node_match import ask
from tests.pilots.statements.test_running_limits import count, limit, run
from tests.pools.pool_grid import at, emptied, execute, publish_places, refresh

NODE = Node("SITE_A", cores=8, ram_mb=8192, tags=frozenset(("a",)))


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    for task, spec in enumerate(
        (
            Spec(),
            Spec(ram_request=Memory(12_000)),
            Spec(tags=parse_tags("b")),
            Spec(tags=parse_tags("b"), cores=Bounds(16)),
        ),
        11,
    ):
        ask(shared_database, task, JobSpecs((spec,), "lhcb").canonical)
        add_jobs(shared_database, 100 * task, task - 9, jeditaskid=task, processingtype="evgen")
    run(shared_database, 9000, 5)
    add_jobs(shared_database, 1, 3, processingtype="simul")
    add_jobs(shared_database, 50, computingsite="QUEUE_B")
    add_jobs(shared_database, 60, vo="atlas", computingsite="QUEUE_B")
    follow(shared_database)
    execute(shared_database, "UPDATE broker.task_queues SET tier = 1 WHERE job_type = 'simul'")
    limit(shared_database, simul=5)
    count(shared_database)
    yield shared_database


def explain(database: Database, pilot: Pilot) -> WhyNode:
    with database.begin() as connection:
        return why_node(Database.raw(connection), database.names, pilot, at(0))


def test_fitting_near_and_limited_task_queues_are_reported(database: Database) -> None:
    assert explain(database, replace(LONG, node=NODE)) == WhyNode(
        panda_queue="QUEUE_A",
        fits=[
            FittingTier(tier=1, types=["simul"], task_queues=1, jobs=3, held=3),
            FittingTier(tier=None, types=["evgen"], task_queues=1, jobs=2, held=0),
        ],
        near=[
            TaskQueuesThatMiss(field="node in several parts", task_queues=1, jobs=5),
            TaskQueuesThatMiss(field="node tags", task_queues=1, jobs=4),
            TaskQueuesThatMiss(field="node cpu.ram-mb.request", task_queues=1, jobs=3),
            TaskQueuesThatMiss(field="queue", task_queues=1, jobs=1),
        ],
        limits=[LimitState(site="SITE_A", job_type="simul", most=5, running=5, free=0)],
    )
    silent = explain(database, LONG)
    assert [tier.types for tier in silent.fits] == [["simul"]]
    assert TaskQueuesThatMiss(field="node is not told", task_queues=4, jobs=14) in silent.near


def test_the_command_takes_no_job(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = tmp_path / "node.json"
    node.write_text(json.dumps({"site": "SITE_A", "cpu": {"num_cores": 8, "ram_mb": 8192}, "tags": ["a"]}))
    broker = runner(capsys, "--db", database.url)
    arguments = ("match-job", "--site", "SITE_A", "--ce", "ce1", "--queue", "long", "--vo", "lhcb", "--node", str(node))
    document = broker(*arguments, "--why", "--json").document
    assert WhyNode.model_validate(document) == explain(database, replace(LONG, node=NODE))
    text = broker(*arguments, "--why").out
    assert "node cpu.ram-mb.request" in text and "simul" in text
    assert broker(*arguments, "--at", at(1).isoformat(), "--json").document["pandaid"] in (1100, 1101)
