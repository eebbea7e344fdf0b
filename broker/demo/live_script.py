"""What happens next on the demonstration grid while somebody watches it: drawn from a seed, step by step. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from broker.demo.facts import DemoFacts

STEP_S = 5.0
"""Seconds from one step to the next."""
REFRESH_EVERY = 60
ARRIVAL_EVERY = 6
OUTAGE_EVERY, OUTAGE_FROM, OUTAGE_TO = 60, 12, 36
"""In each round of so many steps one site is off from one step to another."""
WAITING = ("activated", "starting")
START_SHARE, MOST_STARTS = 0.05, 90
END_SHARE, MOST_ENDS = 0.02, 70
FAILED_SHARE = 0.04
OFF, ON = "offline", "online"


@dataclass(frozen=True)
class LiveJob:
    """A job as a pilot sees it: its number, status and queue."""

    pandaid: int
    status: str
    queue: str


@dataclass(frozen=True)
class Happenings:
    """What happens in one step.

    Attributes:
        refreshes: whether all sources are refreshed.
        arrivals: tasks that come once more, by their place among the facts.
        switched: queues with the status that they get.
        starts: jobs that pilots begin.
        ends: jobs that pilots report as ended, with whether they failed.
    """

    refreshes: bool = False
    arrivals: tuple[int, ...] = ()
    switched: tuple[tuple[str, str], ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[tuple[int, bool], ...] = ()


def happenings(facts: DemoFacts, seed: int, step: int, jobs: Sequence[LiveJob]) -> Happenings:
    """What happens in step number ``step`` (from 0) while these jobs wait or run; the same arguments say the same."""
    draw = np.random.default_rng([seed, 3, step])
    off = frozenset(name for name, status in _switched(facts, seed, step) if status == OFF)
    waiting = [job.pandaid for job in jobs if job.status in WAITING and job.queue not in off]
    running = [job.pandaid for job in jobs if job.status == "running"]
    starts = _some(draw, waiting, START_SHARE, MOST_STARTS)
    ends = _some(draw, running, END_SHARE, MOST_ENDS)
    failed = draw.random(len(ends)) < FAILED_SHARE
    return Happenings(
        refreshes=step % REFRESH_EVERY == 0,
        arrivals=_arrivals(facts, draw) if step % ARRIVAL_EVERY == 0 else (),
        switched=tuple(_turned(facts, seed, step)),
        starts=starts,
        ends=tuple((job, bool(bad)) for job, bad in zip(ends, failed, strict=True)),
    )


def _some(draw: np.random.Generator, jobs: Sequence[int], share: float, most: int) -> tuple[int, ...]:
    """A share of the jobs, at least one of any, in the order of their numbers."""
    count = min(most, math.ceil(share * len(jobs)))
    chosen = draw.choice(len(jobs), size=count, replace=False) if count else ()
    return tuple(sorted(jobs[int(at)] for at in chosen))


def _arrivals(facts: DemoFacts, draw: np.random.Generator) -> tuple[int, ...]:
    """One task of production, and one of a user's."""
    kinds: dict[bool, list[int]] = {False: [], True: []}
    for place, task in enumerate(facts.tasks):
        if task.input != "unmerged" and task.status != "scouting":
            kinds[task.user is not None].append(place)
    return tuple(int(draw.choice(places)) for places in kinds.values() if places)


def _switched(facts: DemoFacts, seed: int, step: int) -> Iterable[tuple[str, str]]:
    """The queues of the site whose turn it is, with the status that they have in this step."""
    sites = sorted(
        {queue.site for queue in facts.queues.values() if queue.status == ON}
        - {name for name, site in facts.sites.items() if site.nucleus}
    )
    if not sites:
        return
    site = sites[int(np.random.default_rng([seed, 4, step // OUTAGE_EVERY]).integers(len(sites)))]
    status = OFF if OUTAGE_FROM <= step % OUTAGE_EVERY < OUTAGE_TO else ON
    yield from ((name, status) for name, queue in facts.queues.items() if queue.site == site and queue.status == ON)


def _turned(facts: DemoFacts, seed: int, step: int) -> Iterable[tuple[str, str]]:
    """The queues whose status changes in this step."""
    if step % OUTAGE_EVERY in (OUTAGE_FROM, OUTAGE_TO):
        yield from _switched(facts, seed, step)
