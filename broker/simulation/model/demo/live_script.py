"""The events of the live demonstration grid, drawn from a seed, step by step. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.load_rows import running_jobs

STEP_S = 5.0
"""Seconds from one step to the next."""
REFRESH_EVERY = 60
ARRIVAL_EVERY = 6
OUTAGE_EVERY, OUTAGE_FROM, OUTAGE_TO = 60, 12, 36
"""Steps of a round, and the steps in it between which one site is offline."""
AWAITING_INPUT = "assigned"
WAITING = ("activated", "starting")
INPUT_SHARE, MOST_INPUTS = 0.02, 90
START_SHARE, MOST_STARTS = 0.05, 90
END_SHARE, MOST_ENDS = 0.005, 70
FAILED_SHARE = 0.04
WAVE, WAVE_STEPS = 0.04, 240
"""Relative amplitude and period in steps of the number of running jobs, around the number at the start."""
RESERVE = 0.4
"""Target of waiting jobs, as a part of those that ran at the start; the fewer wait, the more tasks arrive at once."""
MOST_TASKS = 8
USER_EVERY = 2
"""Every so many arrivals include a user's task."""
OFF, ON = "offline", "online"


@dataclass(frozen=True)
class LiveJob:
    """A job as seen by a pilot: its number, status and queue."""

    pandaid: int
    status: str
    queue: str


@dataclass(frozen=True)
class StepEvents:
    """The events of one step.

    Attributes:
        refreshes: whether all sources are refreshed.
        arrivals: tasks that arrive once more, by their index in the facts.
        switched: queues with their new status.
        inputs: assigned jobs whose input has arrived at their queue.
        starts: jobs that pilots start.
        ends: jobs that pilots report as ended, with whether they failed.
    """

    refreshes: bool = False
    arrivals: tuple[int, ...] = ()
    switched: tuple[tuple[str, str], ...] = ()
    inputs: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[tuple[int, bool], ...] = ()


def step_events(facts: DemoFacts, seed: int, step: int, jobs: Sequence[LiveJob]) -> StepEvents:
    """The events of step number ``step`` (from 0) while these jobs wait or run; equal arguments give equal events.

    The number of running jobs stays about that of the start: pilots start jobs that they have room for, the input of
    jobs arrives at their queues, and the fewer jobs wait, the more tasks arrive.
    """
    draw = np.random.default_rng([seed, 3, step])
    off = frozenset(name for name, status in _switched(facts, seed, step) if status == OFF)
    waiting = [job.pandaid for job in jobs if job.status in WAITING and job.queue not in off]
    running = [job.pandaid for job in jobs if job.status == "running"]
    assigned = [job.pandaid for job in jobs if job.status == AWAITING_INPUT]
    level = sum(running_jobs(facts).values())
    ends = _sample(draw, running, END_SHARE, MOST_ENDS)
    room = round(level * (1 + WAVE * math.sin(2 * math.pi * step / WAVE_STEPS))) - len(running) + len(ends)
    starts = _sample(draw, waiting, START_SHARE, min(MOST_STARTS, max(0, room)))
    failed = draw.random(len(ends)) < FAILED_SHARE
    lacking = 1 - (len(waiting) + len(assigned)) / (RESERVE * level)
    return StepEvents(
        refreshes=step % REFRESH_EVERY == 0,
        arrivals=_arrivals(facts, draw, step // ARRIVAL_EVERY, lacking) if step % ARRIVAL_EVERY == 0 else (),
        switched=tuple(_changed_status(facts, seed, step)),
        inputs=_sample(draw, assigned, INPUT_SHARE, MOST_INPUTS),
        starts=starts,
        ends=tuple((job, bool(bad)) for job, bad in zip(ends, failed, strict=True)),
    )


def _sample(draw: np.random.Generator, jobs: Sequence[int], share: float, most: int) -> tuple[int, ...]:
    """A random share of the jobs, at least one if there are any, in the order of their numbers."""
    count = min(most, math.ceil(share * len(jobs)))
    chosen = draw.choice(len(jobs), size=count, replace=False) if count else ()
    return tuple(sorted(jobs[int(index)] for index in chosen))


def _arrivals(facts: DemoFacts, draw: np.random.Generator, turn: int, lacking: float) -> tuple[int, ...]:
    """One production task, up to ``MOST_TASKS`` if many jobs are lacking, and at some turns a user's task."""
    kinds: dict[bool, list[int]] = {False: [], True: []}
    for place, task in enumerate(facts.tasks):
        if task.input != "unmerged" and task.status != "scouting":
            kinds[task.user is not None].append(place)
    counts = {False: max(1, math.ceil(lacking * MOST_TASKS)), True: int(turn % USER_EVERY == 0)}
    return tuple(int(draw.choice(kinds[user])) for user, count in counts.items() for _ in range(count) if kinds[user])


def _switched(facts: DemoFacts, seed: int, step: int) -> Iterable[tuple[str, str]]:
    """The queues of the site of this round, with their status in this step."""
    sites = sorted(
        {queue.site for queue in facts.queues.values() if queue.status == ON}
        - {name for name, site in facts.sites.items() if site.nucleus}
    )
    if not sites:
        return
    site = sites[int(np.random.default_rng([seed, 4, step // OUTAGE_EVERY]).integers(len(sites)))]
    status = OFF if OUTAGE_FROM <= step % OUTAGE_EVERY < OUTAGE_TO else ON
    yield from ((name, status) for name, queue in facts.queues.items() if queue.site == site and queue.status == ON)


def _changed_status(facts: DemoFacts, seed: int, step: int) -> Iterable[tuple[str, str]]:
    """The queues whose status changes in this step."""
    if step % OUTAGE_EVERY in (OUTAGE_FROM, OUTAGE_TO):
        yield from _switched(facts, seed, step)
