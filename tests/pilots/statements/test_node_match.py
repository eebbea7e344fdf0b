"""Jobs with requirements on the node of a pilot, matched through the database."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker.matching.specs.node import Node
from broker.matching.specs.spec import JobSpecs, Spec
from broker.matching.specs.tags import parse_tags
from broker.pilots.answers.matched_job import matched_job
from broker.pilots.statements.matches import Match, NoMatch
from broker.pools.statements.pool_registration import TaskRequirements, attach
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import LONG, SHORT, add_jobs, follow, match_once, matcher
from tests.pools.pool_grid import PLACES, at, emptied, execute, publish_places, refresh, rows

HOUR = JobSpecs((Spec(wall_time_s=3600),), "lhcb").canonical
AT_NODE = replace(LONG, node=Node("SITE_A", wall_time_s=3600))


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    yield shared_database


def ask(database: Database, task: int, specs: str | None) -> None:
    with database.begin() as connection:
        attach(connection, task, None, TaskRequirements(specs=specs))


def test_jobs_with_node_requirements_go_to_nodes_that_meet_them(database: Database) -> None:
    ask(database, 1, HOUR)
    add_jobs(database, 10, 2)
    follow(database)
    assert match_once(database, LONG) == NoMatch("QUEUE_A", "node", {"node": 1})
    short = replace(LONG, node=Node("SITE_A", wall_time_s=3599))
    assert match_once(database, short) == NoMatch("QUEUE_A", "node", {"node": 1})
    assert match_once(database, AT_NODE) == Match(10, 1, 1, "QUEUE_A", None, HOUR)
    with matcher(database) as job_matcher:
        requests = [(short, None), (AT_NODE, None)]
        results = job_matcher.match_together(requests, at(1))
    assert isinstance(results[0][0], NoMatch) and results[1][0] == Match(11, 1, 1, "QUEUE_A", None, HOUR)


def test_a_repeated_request_gets_the_specs_of_its_job_again(database: Database) -> None:
    ask(database, 1, HOUR)
    add_jobs(database, 10)
    follow(database)
    with matcher(database) as job_matcher:
        first = job_matcher.match_numbered(AT_NODE, at(1), ("p", 1))
        assert job_matcher.match_numbered(AT_NODE, at(2), ("p", 1)) == (first[0], True)
    assert first[0] == Match(10, 1, 1, "QUEUE_A", None, HOUR)


def test_a_task_queue_of_an_earlier_release_is_divided_while_its_jobs_keep_waiting(database: Database) -> None:
    for number, kind in enumerate(("simul", "evgen", "", None)):
        add_jobs(database, 10 * number, 2, processingtype=kind, prodsourcelabel="managed" if number > 1 else "user")
    follow(database)
    # the state that an earlier release leaves: one task queue for all jobs, without types
    execute(database, "UPDATE broker.task_queues SET job_type = NULL, identity = md5(id::text)")
    execute(
        database,
        "UPDATE broker.waiting_jobs SET task_queue = (SELECT min(id) FROM broker.task_queues)",
    )
    assert isinstance(match_once(database, LONG), Match)
    assert follow(database, 1) == {"queued": 7, "left": 0, "new_queues": 3, "dropped_queues": 0}
    type_counts = rows(
        database,
        "SELECT job_type, count(*) FROM broker.waiting_jobs JOIN broker.task_queues ON id = task_queue GROUP BY 1",
    )
    assert sorted(count for _, count in type_counts) in ([1, 2, 4], [2, 2, 3])
    assert {kind for kind, _ in type_counts} == {"simul", "evgen", "managed"}
    assert follow(database, 2)["queued"] == 0
    with matcher(database) as job_matcher:
        pandaids = [
            match.pandaid for match in (job_matcher.match(LONG, at(3)) for _ in range(7)) if isinstance(match, Match)
        ]
    assert len(set(pandaids)) == 7 and rows(database, "SELECT count(*) FROM broker.waiting_jobs") == [(0,)]


def test_nodes_have_the_tags_of_their_place(database: Database) -> None:
    places: dict[str, Any] = copy.deepcopy(PLACES)
    places["SITE_A"]["params"]["Tag"] = "cvmfs:lhcb"
    places["SITE_A"]["ces"]["ce1"]["queues"]["long"]["params"]["Tag"] = ["cvmfs:lhcb", "os:el9"]
    publish_places(database, places, 1)
    refresh(database, 1)
    tags = parse_tags("cvmfs:lhcb & os:el9 & vo:own")
    ask(database, 1, JobSpecs((Spec(tags=tags),), "lhcb").canonical)
    add_jobs(database, 10)
    follow(database)
    tagged_node = Node("SITE_A", tags=frozenset(("vo:own",)))
    assert match_once(database, replace(SHORT, node=tagged_node)) == NoMatch("QUEUE_A", "node", {"node": 1})
    assert match_once(database, replace(LONG, node=replace(tagged_node, tags=frozenset()))) == NoMatch(
        "QUEUE_A", "node", {"node": 1}
    )
    match = match_once(database, replace(LONG, node=tagged_node))
    assert isinstance(match, Match) and match.place_tags == {"cvmfs:lhcb", "os:el9"}
    assert matched_job(match, node=tagged_node).spec == 0
