"""What a job gets of the node of its pilot, against the judge of specs."""

from __future__ import annotations

from dataclasses import replace

from broker.matching.specs.judge import judge
from broker.matching.specs.node import Node
from broker.matching.specs.spec import parse_canonical
from broker.pilots.answers.matched_job import matched_job
from broker.pilots.statements.matches import Match
from tests.matching.specs.random_specs import Dice, random_job, random_node


def match_of(specs: str, tags: frozenset[str] = frozenset()) -> Match:
    return Match(7, 3, 11, "QUEUE", None, specs, tags)


def test_a_job_that_was_given_gets_what_the_judge_says() -> None:
    dice, fitting = Dice(5), {True: 0, False: 0}
    for _ in range(3_000):
        job, node = random_job(dice), random_node(dice)
        verdict = judge(parse_canonical(job.canonical), node)
        if not verdict.fits:
            continue
        fitting[len(job.specs) == 1] += 1
        declared = node.tags if len(node.tags) % 2 else frozenset()
        found = matched_job(match_of(job.canonical, declared), node=replace(node, tags=node.tags - declared))
        assert (found.spec, found.allotted) == (verdict.spec, verdict.allotment), (job, node)
    assert min(fitting.values()) > 20, fitting


def test_a_job_that_an_earlier_request_got_may_not_fit_the_node_of_now() -> None:
    dice = Dice(6)
    node = Node("S.One")
    job = next(one for one in (random_job(dice) for _ in range(1000)) if not judge(one, node).fits)
    found = matched_job(match_of(job.canonical), repeated=True, node=node)
    assert (found.spec, found.allotted) == (None, None)
