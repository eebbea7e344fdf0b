"""Hours of the demonstration in fast forward: the grid still runs as many jobs as at the start."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import count

import pytest

from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.live_script import ARRIVAL_EVERY, STEP_S, WAVE, LiveJob, StepEvents, step_events
from broker.simulation.model.demo.load_rows import FIRST_PANDAID
from broker.simulation.model.demo.task_rows import quick_jobs

pytestmark = pytest.mark.slow

STEPS_AN_HOUR = int(3600 / STEP_S)
HOURS = 2
BROKERED_AFTER = 2 * ARRIVAL_EVERY
"""Steps from the arrival of a task to its jobs at queues: a cycle of the brokerage and one of the activation."""


class World:
    """The jobs of the grid, and a broker that places all jobs of arriving tasks, two of three without local input."""

    def __init__(self, facts: DemoFacts, jobs: list[LiveJob]) -> None:
        self._facts = facts
        self._queues = sorted({job.queue for job in jobs})
        self._numbers = count(1 + max(job.pandaid for job in jobs))
        self._placed: dict[int, list[LiveJob]] = defaultdict(list)
        self.jobs = {job.pandaid: job for job in jobs}

    def take(self, step: int, events: StepEvents) -> None:
        for place in events.arrivals:
            task = self._facts.tasks[place]
            for number in range(quick_jobs(task.jobs, task.user is None)):
                pandaid = next(self._numbers)
                status = "activated" if number % 3 == 0 or task.input == "pseudo" else "assigned"
                queue = self._queues[pandaid % len(self._queues)]
                self._placed[step + BROKERED_AFTER].append(LiveJob(pandaid, status, queue))
        for pandaid, status in [(job_id, "activated") for job_id in events.inputs] + [
            (job_id, "running") for job_id in events.starts
        ]:
            self.jobs[pandaid] = LiveJob(pandaid, status, self.jobs[pandaid].queue)
        for pandaid, _ in events.ends:
            del self.jobs[pandaid]
        self.jobs |= {job.pandaid: job for job in self._placed.pop(step, ())}

    def count(self) -> Counter[str]:
        return Counter(job.status for job in self.jobs.values())


def jobs_of(scenario: dict[str, dict[str, list[dict[str, object]]]]) -> list[LiveJob]:
    rows = [row for table in ("jobsactive4", "jobsdefined4") for row in scenario["tables"][table]]
    statuses = ("activated", "starting", "running", "assigned")
    return [
        LiveJob(int(str(row["pandaid"])), str(row["jobstatus"]), str(row["computingsite"]))
        for row in rows
        if row["jobstatus"] in statuses
    ]


@pytest.mark.parametrize("backlog", [0, 8_000], ids=["as at the start", "with 8,000 more that await their input"])
def test_after_hours_as_many_jobs_run_as_at_the_start(
    demo_facts: DemoFacts, demo_scenario: dict[str, dict[str, list[dict[str, object]]]], backlog: int
) -> None:
    jobs = jobs_of(demo_scenario)
    last = FIRST_PANDAID + len(jobs) + backlog + 10_000
    jobs += [LiveJob(last - number, "assigned", jobs[number % len(jobs)].queue) for number in range(backlog)]
    world = World(demo_facts, jobs)
    at_start = world.count()["running"]
    assert at_start > 3_000
    running, waiting = [], []
    for step in range(HOURS * STEPS_AN_HOUR):
        world.take(step, step_events(demo_facts, 1, step, list(world.jobs.values())))
        counts = world.count()
        running.append(counts["running"])
        waiting.append(counts["activated"] + counts["starting"] + counts["assigned"])
    assert min(running) > at_start * (1 - 2 * WAVE) and max(running) < at_start * (1 + 2 * WAVE)
    later = waiting[STEPS_AN_HOUR:]
    assert min(later) > 300 and max(later) < max(at_start, backlog)
