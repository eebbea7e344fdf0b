"""What happens on the demonstration grid while somebody watches: drawn from a seed, and within bounds."""

from __future__ import annotations

from datetime import UTC, datetime

from broker.demo.arrivals import NextNumbers, arrival_tables
from broker.demo.facts import DemoFacts
from broker.demo.live_script import (
    ARRIVAL_EVERY,
    MOST_ENDS,
    MOST_STARTS,
    OUTAGE_FROM,
    OUTAGE_TO,
    REFRESH_EVERY,
    LiveJob,
    happenings,
)

JOBS = [LiveJob(number, ("activated", "running", "starting")[number % 3], "BNL") for number in range(1, 4001)]
NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


def test_the_same_seed_says_the_same_and_another_one_something_else(demo_facts: DemoFacts) -> None:
    assert happenings(demo_facts, 1, 7, JOBS) == happenings(demo_facts, 1, 7, JOBS)
    assert happenings(demo_facts, 1, 7, JOBS) != happenings(demo_facts, 2, 7, JOBS)


def test_jobs_that_wait_start_and_jobs_that_run_end(demo_facts: DemoFacts) -> None:
    found = happenings(demo_facts, 1, 3, JOBS)
    status = {job.pandaid: job.status for job in JOBS}
    assert {status[one] for one in found.starts} == {"activated", "starting"} and len(found.starts) == MOST_STARTS
    assert {status[one] for one, _ in found.ends} == {"running"}
    assert 20 < len(found.ends) <= MOST_ENDS and list(found.starts) == sorted(found.starts)


def test_without_jobs_nothing_starts_or_ends(demo_facts: DemoFacts) -> None:
    found = happenings(demo_facts, 1, 3, [])
    assert found.starts == found.ends == () == found.arrivals


def test_tasks_arrive_and_sources_are_told_from_time_to_time(demo_facts: DemoFacts) -> None:
    steps = [happenings(demo_facts, 1, step, ()) for step in range(2 * REFRESH_EVERY)]
    assert [at for at, one in enumerate(steps) if one.refreshes] == [0, REFRESH_EVERY]
    assert [at for at, one in enumerate(steps) if one.arrivals] == list(range(0, len(steps), ARRIVAL_EVERY))
    users = {demo_facts.tasks[place].user is not None for one in steps for place in one.arrivals}
    assert users == {True, False}


def test_a_site_goes_off_as_a_whole_takes_no_jobs_and_comes_back(demo_facts: DemoFacts) -> None:
    off = dict(happenings(demo_facts, 1, OUTAGE_FROM, ()).switched)
    back = dict(happenings(demo_facts, 1, OUTAGE_TO, ()).switched)
    assert off and set(off) == set(back) and set(off.values()) == {"offline"} and set(back.values()) == {"online"}
    sites = {demo_facts.queues[name].site for name in off}
    assert len(sites) == 1 and not demo_facts.sites[sites.pop()].nucleus
    there = [LiveJob(number, "activated", next(iter(off))) for number in range(1, 100)]
    assert happenings(demo_facts, 1, OUTAGE_FROM + 3, there).starts == ()
    assert happenings(demo_facts, 1, OUTAGE_TO, there).starts


def test_a_task_that_arrives_has_rows_of_its_own_numbers(demo_facts: DemoFacts) -> None:
    tables = arrival_tables(demo_facts, 0, NextNumbers(44_000_000, 62_000_000, 920_000_000), NOW, 1)
    assert [row["jeditaskid"] for row in tables["jedi_tasks"]] == [44_000_000]
    assert {row["jeditaskid"] for name in ("jedi_datasets", "jedi_dataset_contents") for row in tables[name]} == {
        44_000_000
    }
    assert min(int(str(row["datasetid"])) for row in tables["jedi_datasets"]) == 62_000_000
    assert tables["jedi_tasks"][0]["creationdate"] == "2026-08-01T12:00:00"
