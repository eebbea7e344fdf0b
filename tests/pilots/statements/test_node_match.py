"""Jobs that ask something of the node of a pilot, through the database."""

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
from broker.pools.statements.pool_registration import Asked, attach
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import LONG, SHORT, add_jobs, follow, given, matcher
from tests.store.pool_grid import PLACES, at, emptied, execute, publish_places, refresh, rows

HOUR = JobSpecs((Spec(wall_time_s=3600),), "lhcb").canonical
AT_NODE = replace(LONG, node=Node("SITE_A", wall_time_s=3600))


@pytest.fixture
def database(shared: Database) -> Iterator[Database]:
    publish_places(emptied(shared))
    refresh(shared, 0)
    yield shared


def ask(database: Database, task: int, specs: str | None) -> None:
    with database.begin() as connection:
        attach(connection, task, None, Asked(specs=specs))


def test_jobs_that_ask_something_of_a_node_go_to_nodes_that_have_it(database: Database) -> None:
    ask(database, 1, HOUR)
    add_jobs(database, 10, 2)
    follow(database)
    assert given(database, LONG) == NoMatch("QUEUE_A", "node", {"node": 1})
    short = replace(LONG, node=Node("SITE_A", wall_time_s=3599))
    assert given(database, short) == NoMatch("QUEUE_A", "node", {"node": 1})
    assert given(database, AT_NODE) == Match(10, 1, 1, "QUEUE_A", None, HOUR)
    with matcher(database) as one:
        asked = [(short, None), (AT_NODE, None)]
        found = one.match_together(asked, at(1))
    assert isinstance(found[0][0], NoMatch) and found[1][0] == Match(11, 1, 1, "QUEUE_A", None, HOUR)


def test_a_request_that_comes_again_is_told_what_its_job_asks_for(database: Database) -> None:
    ask(database, 1, HOUR)
    add_jobs(database, 10)
    follow(database)
    with matcher(database) as one:
        first = one.match_numbered(AT_NODE, at(1), ("p", 1))
        assert one.match_numbered(AT_NODE, at(2), ("p", 1)) == (first[0], True)
    assert first[0] == Match(10, 1, 1, "QUEUE_A", None, HOUR)


def test_jobs_of_a_task_queue_of_an_earlier_release_are_divided_and_go_on_waiting(database: Database) -> None:
    for number, kind in enumerate(("simul", "evgen", "", None)):
        add_jobs(database, 10 * number, 2, processingtype=kind, prodsourcelabel="managed" if number > 1 else "user")
    follow(database)
    # as an earlier release left it: one task queue for all, without types
    execute(database, "UPDATE broker.task_queues SET job_type = NULL, identity = md5(id::text)")
    execute(
        database,
        "UPDATE broker.waiting_jobs SET task_queue = (SELECT min(id) FROM broker.task_queues)",
    )
    assert isinstance(given(database, LONG), Match)
    assert follow(database, 1) == {"queued": 7, "left": 0, "new_queues": 3, "dropped_queues": 0}
    found = rows(
        database,
        "SELECT job_type, count(*) FROM broker.waiting_jobs JOIN broker.task_queues ON id = task_queue GROUP BY 1",
    )
    assert sorted(count for _, count in found) in ([1, 2, 4], [2, 2, 3])
    assert {kind for kind, _ in found} == {"simul", "evgen", "managed"}
    assert follow(database, 2)["queued"] == 0
    with matcher(database) as one:
        jobs = [found.pandaid for found in (one.match(LONG, at(3)) for _ in range(7)) if isinstance(found, Match)]
    assert len(set(jobs)) == 7 and rows(database, "SELECT count(*) FROM broker.waiting_jobs") == [(0,)]


def test_the_tags_of_a_place_are_those_of_its_nodes_too(database: Database) -> None:
    places: dict[str, Any] = copy.deepcopy(PLACES)
    places["SITE_A"]["params"]["Tag"] = "cvmfs:lhcb"
    places["SITE_A"]["ces"]["ce1"]["queues"]["long"]["params"]["Tag"] = ["cvmfs:lhcb", "os:el9"]
    publish_places(database, places, 1)
    refresh(database, 1)
    both = parse_tags("cvmfs:lhcb & os:el9 & vo:own")
    ask(database, 1, JobSpecs((Spec(tags=both),), "lhcb").canonical)
    add_jobs(database, 10)
    follow(database)
    tagged = Node("SITE_A", tags=frozenset(("vo:own",)))
    assert given(database, replace(SHORT, node=tagged)) == NoMatch("QUEUE_A", "node", {"node": 1})
    assert given(database, replace(LONG, node=replace(tagged, tags=frozenset()))) == NoMatch(
        "QUEUE_A", "node", {"node": 1}
    )
    found = given(database, replace(LONG, node=tagged))
    assert isinstance(found, Match) and found.place_tags == {"cvmfs:lhcb", "os:el9"}
    assert matched_job(found, node=tagged).spec == 0
