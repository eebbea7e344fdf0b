"""The classes of queues: which jobs are samples, and what makes a class."""

from __future__ import annotations

import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.agents.classified_grid import (
    SAMPLES,
    at,
    dry_cycle,
    metrics,
    sample,
    tables_of,
)
from tests.brokerages.small_grid import FRESH, Row, next_cycle, queue, scenario
from tests.brokerages.test_analysis_scenarios import analysis, user_jobs


def test_queues_are_classed_by_the_waits_of_sample_jobs(database: Database) -> None:
    """Of 600, 7200 and 50400 s: hi up to 600 + 0.666 x 6600 s, lo above 7200 + 0.334 x 43200 s."""
    load(database, analysis(**SAMPLES))
    record, objects = next_cycle(database, agent="site_class")
    assert (record.outcome, record.notes) == ("done", ())
    assert record.counts == {"queues": 5, "samples": 6, "measured": 3, "hi": 1, "mid": 1, "lo": 1, "written": 6}
    sites = metrics(database, "analy_site_eval")
    assert {name: item["class"] for name, item in sites.items()} == {"ALPHA_MCORE": 1, "BETA": 0, "GAMMA_MCORE": -1}
    # the starts of 12:00 are counted from 06:00 and from the day before up to 11:50
    assert sites["BETA"] == pytest.approx(
        {"resource_type": "GRID", "strr_6h": 2 / (350 / 60), "strr_1d": 2 / (1430 / 60), "class": 0}
    )
    wait = metrics(database, "analy_pmerge_jobs_wait_time")["BETA"]
    assert (wait["n"], wait["w_mean"], wait["w_cl95upp"], wait["long_q_n"]) == (2, 7200.0, 7200.0, 0)
    assert wait["sum_of_weights"] == pytest.approx(2 * 2 ** (-0.5 / 12))
    assert [(item["queue"], item["class"]) for item in objects] == [
        ("ALPHA_MCORE", "hi"),
        ("BETA", "mid"),
        ("GAMMA_MCORE", "lo"),
    ]
    assert objects[0]["hi_up_to_s"] == pytest.approx(600 + 0.666 * 6600)
    assert objects[0]["lo_above_s"] == pytest.approx(7200 + 0.334 * 43200)


def test_which_jobs_are_samples(database: Database) -> None:
    """Each pair of jobs has its own queue, named for what is different about the jobs."""
    merging = {"processingtype": "pmerge"}
    counted: dict[str, Row] = {
        "AS_IT_IS": {},
        "MERGE": {"produsername": "alice", **merging},
        "MERGE_OF_NOBODY": {"produsername": None, **merging},
        "NEW_ENOUGH": {"modificationtime": "2026-07-28T12:00:01"},
    }
    not_counted: dict[str, Row] = {
        "OF_A_USER": {"produsername": "alice"},
        "LABEL": {"prodsourcelabel": "managed", **merging},
        "SHARE": {"gshare": "Express Analysis"},
        "NO_SHARE": {"gshare": None},
        "OLD": {"modificationtime": "2026-07-28T12:00:00"},
        "NO_TIME": {"modificationtime": None},
        "NOWHERE": {"computingsite": None},
        "NOT_ON_RECORD": {"computingsite": "NO_SUCH_QUEUE"},
    }
    columns_by_name = counted | not_counted
    pairs = [
        sample(10 * place + twin, name, 60, **columns)
        for place, (name, columns) in enumerate(columns_by_name.items())
        for twin in (0, 1)
    ]
    load(database, analysis(schedconfig_json=[queue(name) for name in columns_by_name], **tables_of(*pairs)))
    record, objects = dry_cycle(database, "site_class")
    assert record.outcome == "done", record.error
    assert {item["queue"]: item["n"] for item in objects} == dict.fromkeys(counted, 2)


def test_without_samples_no_class_is_made(database: Database) -> None:
    load(database, analysis())
    record, objects = next_cycle(database, agent="site_class")
    assert (record.counts["written"], objects) == (0, [])
    assert "no sample job of the last 4 days" in record.notes[0]


def test_only_some_active_jobs_count_and_each_only_once(database: Database) -> None:
    """One job is in both tables, one has only been activated, and the log lacks the activation of another one."""
    both, log = sample(1, "BETA", 60)
    waiting, _ = sample(2, "BETA", 60, jobstatus="activated")
    running, running_log = sample(3, "BETA", 120, jobstatus="running")
    unknown, unknown_log = sample(4, "BETA", 60, jobstatus="running")
    tables = {
        "jobsarchived4": [both],
        "jobsactive4": [both | {"jobstatus": "transferring"}, waiting, running, unknown],
        "jobs_statuslog": [
            *log,
            *running_log,
            *(row | {"pandaid": 2} for row in log),
            *(row for row in unknown_log if row["jobstatus"] == "running"),
        ],
    }
    load(database, analysis(**tables))
    _, (item,) = dry_cycle(database, "site_class")
    assert (item["n"], item["w_mean"]) == (2, pytest.approx(90))
    assert item["strr_1d"] == pytest.approx(3 / (1430 / 60))


def test_merge_jobs_that_wait_now(database: Database) -> None:
    """Four jobs that wait for 18000 s take the class hi away, three do not; a job without a time does not count.

    Of 7200, 18000 and 50400 s the limit of hi is 7200 + 0.666 x 10800, and the limit of lo is 18000 + 0.334 x 32400.
    """
    for count, expected in ((3, "hi"), (4, "mid")):
        waiting = [
            row | {"processingtype": "pmerge", "creationtime": at(300)}
            for row in user_jobs("ALPHA_MCORE", 500, activated=count)
        ]
        unknown = user_jobs("ALPHA_MCORE", 600, activated=5)[0] | {"processingtype": "pmerge", "pandaid": 999}
        load(database, analysis(**SAMPLES, jobsactive4=[*waiting, unknown]), replace=True)
        _, objects = dry_cycle(database, "site_class")
        assert (objects[0]["queue"], objects[0]["class"], objects[0]["long_q_n"]) == ("ALPHA_MCORE", expected, count)
        assert objects[0]["long_q_mean"] == 18000.0


def test_without_queues_the_cycle_is_refused(database: Database) -> None:
    load(database, scenario(schedconfig_json=[], jobsarchived4=SAMPLES["jobsarchived4"]))
    for name in ("site_class", "share_usage"):
        record, objects = dry_cycle(database, name)
        assert (record.outcome, objects) == ("refused", [])
        assert "no queue is on record" in str(record.error)


def test_a_bad_queue_row_is_left_out(database: Database) -> None:
    bad = [{"panda_queue": "BAD", "data": [1]}, {"panda_queue": "WORSE", "data": {"resource_type": 5}}]
    good = queue("BETA") | {"last_update": FRESH}
    load(database, analysis(schedconfig_json=[*bad, good], **SAMPLES))
    record, objects = dry_cycle(database, "site_class")
    assert (record.outcome, [item["queue"] for item in objects]) == ("done", ["BETA"])
    assert record.notes == ("left out 2 x queues: wrong_type",)
