"""The live events of the demonstration grid: drawn from a seed and within bounds."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from broker.simulation.model.demo.arrivals import NextNumbers, arrival_tables
from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.live_script import (
    ARRIVAL_EVERY,
    AWAITING_INPUT,
    END_SHARE,
    INPUT_SHARE,
    MOST_STARTS,
    MOST_TASKS,
    OUTAGE_FROM,
    OUTAGE_TO,
    REFRESH_EVERY,
    RESERVE,
    LiveJob,
    step_events,
)
from broker.simulation.model.demo.load_rows import running_jobs

JOBS = [LiveJob(number, ("activated", "running", "starting")[number % 3], "BNL") for number in range(1, 4001)]
NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


def test_the_same_seed_gives_the_same_events_and_another_seed_does_not(demo_facts: DemoFacts) -> None:
    assert step_events(demo_facts, 1, 7, JOBS) == step_events(demo_facts, 1, 7, JOBS)
    assert step_events(demo_facts, 1, 7, JOBS) != step_events(demo_facts, 2, 7, JOBS)


def test_waiting_jobs_start_and_running_jobs_end(demo_facts: DemoFacts) -> None:
    events = step_events(demo_facts, 1, 3, JOBS)
    status = {job.pandaid: job.status for job in JOBS}
    assert {status[item] for item in events.starts} == {"activated", "starting"} and len(events.starts) == MOST_STARTS
    assert {status[item] for item, _ in events.ends} == {"running"}
    running = sum(item == "running" for item in status.values())
    assert len(events.ends) == math.ceil(END_SHARE * running) and list(events.starts) == sorted(events.starts)


def test_no_more_jobs_start_than_pilots_have_room_for(demo_facts: DemoFacts) -> None:
    level = sum(running_jobs(demo_facts).values())
    full = [LiveJob(number, "running", "BNL") for number in range(1, level + 1)]
    waiting = [LiveJob(level + number, "activated", "BNL") for number in range(1, 2001)]
    events = step_events(demo_facts, 1, 0, [*full, *waiting])
    assert len(events.starts) == len(events.ends) == math.ceil(END_SHARE * level)
    assert len(step_events(demo_facts, 1, 0, [*full[:-10], *waiting]).starts) == len(events.starts) + 10
    assert step_events(demo_facts, 1, 0, [*full, *full[:1000], *waiting]).starts == ()


def test_the_input_of_some_assigned_jobs_arrives(demo_facts: DemoFacts) -> None:
    assigned = [LiveJob(number, AWAITING_INPUT, "BNL") for number in range(1, 1001)]
    events = step_events(demo_facts, 1, 3, assigned)
    assert len(events.inputs) == INPUT_SHARE * 1000 and events.starts == events.ends == ()


def test_the_fewer_jobs_wait_the_more_tasks_arrive(demo_facts: DemoFacts) -> None:
    reserve = round(RESERVE * sum(running_jobs(demo_facts).values()))
    waiting = [LiveJob(number, "activated", "BNL") for number in range(1, reserve + 1)]
    counts = [
        sum(
            demo_facts.tasks[place].user is None
            for place in step_events(demo_facts, 1, 0, waiting[:number_waiting]).arrivals
        )
        for number_waiting in (0, reserve // 2 + 1, reserve)
    ]
    assert counts == [MOST_TASKS, MOST_TASKS // 2, 1]


def test_without_jobs_nothing_starts_or_ends(demo_facts: DemoFacts) -> None:
    events = step_events(demo_facts, 1, 3, [])
    assert events.starts == events.ends == () == events.arrivals


def test_tasks_arrive_and_sources_are_refreshed_periodically(demo_facts: DemoFacts) -> None:
    steps = [step_events(demo_facts, 1, step, ()) for step in range(2 * REFRESH_EVERY)]
    assert [at for at, events in enumerate(steps) if events.refreshes] == [0, REFRESH_EVERY]
    assert [at for at, events in enumerate(steps) if events.arrivals] == list(range(0, len(steps), ARRIVAL_EVERY))
    users = {demo_facts.tasks[place].user is not None for events in steps for place in events.arrivals}
    assert users == {True, False}


def test_a_whole_site_goes_offline_takes_no_jobs_and_comes_back(demo_facts: DemoFacts) -> None:
    off = dict(step_events(demo_facts, 1, OUTAGE_FROM, ()).switched)
    back = dict(step_events(demo_facts, 1, OUTAGE_TO, ()).switched)
    assert off and set(off) == set(back) and set(off.values()) == {"offline"} and set(back.values()) == {"online"}
    sites = {demo_facts.queues[name].site for name in off}
    assert len(sites) == 1 and not demo_facts.sites[sites.pop()].nucleus
    jobs_at_site = [LiveJob(number, "activated", next(iter(off))) for number in range(1, 100)]
    assert step_events(demo_facts, 1, OUTAGE_FROM + 3, jobs_at_site).starts == ()
    assert step_events(demo_facts, 1, OUTAGE_TO, jobs_at_site).starts


def test_an_arriving_task_has_rows_with_new_numbers(demo_facts: DemoFacts) -> None:
    tables = arrival_tables(demo_facts, 0, NextNumbers(44_000_000, 62_000_000, 920_000_000), NOW, 1)
    assert [row["jeditaskid"] for row in tables["jedi_tasks"]] == [44_000_000]
    assert {row["jeditaskid"] for name in ("jedi_datasets", "jedi_dataset_contents") for row in tables[name]} == {
        44_000_000
    }
    assert min(int(str(row["datasetid"])) for row in tables["jedi_datasets"]) == 62_000_000
    assert tables["jedi_tasks"][0]["creationdate"] == "2026-08-01T12:00:00"
