"""The resources a job gets at the node of its pilot agree with the judge of specs."""

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


def test_a_matched_job_gets_the_allotment_of_the_judge() -> None:
    dice, fit_counts = Dice(5), {True: 0, False: 0}
    for _ in range(3_000):
        job, node = random_job(dice), random_node(dice)
        verdict = judge(parse_canonical(job.canonical), node)
        if not verdict.fits:
            continue
        fit_counts[len(job.specs) == 1] += 1
        place_tags = node.tags if len(node.tags) % 2 else frozenset()
        result = matched_job(match_of(job.canonical, place_tags), node=replace(node, tags=node.tags - place_tags))
        assert (result.spec, result.allotted) == (verdict.spec, verdict.allotment), (job, node)
    assert min(fit_counts.values()) > 20, fit_counts


def test_a_job_of_an_earlier_request_may_not_fit_the_present_node() -> None:
    dice = Dice(6)
    node = Node("S.One")
    job = next(candidate for candidate in (random_job(dice) for _ in range(1000)) if not judge(candidate, node).fits)
    result = matched_job(match_of(job.canonical), repeated=True, node=node)
    assert (result.spec, result.allotted) == (None, None)
