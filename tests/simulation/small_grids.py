"""Small grids for the tests of the simulation."""

from __future__ import annotations

import dataclasses

from broker.simulation.model.job_kinds import Fixed, fixed_kind
from broker.simulation.model.scenario import Ages, Queue, Scenario, Site, Task
from broker.simulation.model.scenario_parts import Pilots

AT_ONCE = Pilots(0.0, 0.0, 0.0, 0.0)
ONE_HOUR_HS06S = 36_000.0


def site(number: int, nucleus: bool = False, rate: float = 1e9, total: float = 1e15) -> Site:
    return Site(f"SITE-{number}", nucleus, total, 0.0, rate, rate)


def queue(number: int, cores: int = 16, **changes: object) -> Queue:
    base = Queue(f"QUEUE_{number}", number % 2, 1, cores, 4.0 * cores, 10.0, mode="push")
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def task(number: int, jobs: int = 10, **changes: object) -> Task:
    base = Task(number, "hour", jobs, 0.0, 0, 0, 500.0, (0,))
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def closed(*tasks: Task, queues: int = 2, **changes: object) -> Scenario:
    """Two sites with queues of 16 cores and core power 10; a job of kind ``hour`` runs for an hour on one core."""
    base = Scenario(
        name="small",
        days=1.0,
        sites=(site(0, nucleus=True), site(1)),
        queues=tuple(queue(number) for number in range(queues)),
        shares=(("A", 1.0), ("B", 1.0)),
        tasks=tasks,
        kinds={
            "hour": fixed_kind("hour", 1, Fixed(ONE_HOUR_HS06S)),
            "wide": fixed_kind("wide", 8, Fixed(288_000.0), 2.0),
        },
        warm_up_s=0.0,
        closed=True,
        task_cycle_s=60.0,
        pilots=AT_ONCE,
        ages=Ages(0.0, 0.0, 0.0, 0.0),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]
