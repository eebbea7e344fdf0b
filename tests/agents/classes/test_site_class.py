"""The classes of queues: which jobs are samples, and what makes a class."""

from __future__ import annotations

import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.agents.classified_grid import (
    SAMPLES,
    at,
    dry,
    metrics,
    sample,
    tables_of,
)
from tests.brokerages.small_grid import FRESH, Row, next_cycle, queue, scenario
from tests.brokerages.test_analysis_scenarios import analysis, user_jobs


def test_queues_are_classed_by_the_waits_of_sample_jobs(database: Database) -> None:
    """Of 600, 7200 and 50400 s: hi up to 600 + 0.666 x 6600 s, lo above 7200 + 0.334 x 43200 s."""
    load(database, analysis(**SAMPLES))
    record, told = next_cycle(database, agent="site_class")
    assert (record.outcome, record.notes) == ("done", ())
    assert record.counts == {"queues": 5, "samples": 6, "measured": 3, "hi": 1, "mid": 1, "lo": 1, "written": 6}
    sites = metrics(database, "analy_site_eval")
    assert {name: one["class"] for name, one in sites.items()} == {"ALPHA_MCORE": 1, "BETA": 0, "GAMMA_MCORE": -1}
    # the starts of 12:00 are counted from 06:00 and from the day before up to 11:50
    assert sites["BETA"] == pytest.approx(
        {"resource_type": "GRID", "strr_6h": 2 / (350 / 60), "strr_1d": 2 / (1430 / 60), "class": 0}
    )
    wait = metrics(database, "analy_pmerge_jobs_wait_time")["BETA"]
    assert (wait["n"], wait["w_mean"], wait["w_cl95upp"], wait["long_q_n"]) == (2, 7200.0, 7200.0, 0)
    assert wait["sum_of_weights"] == pytest.approx(2 * 2 ** (-0.5 / 12))
    assert [(one["queue"], one["class"]) for one in told] == [
        ("ALPHA_MCORE", "hi"),
        ("BETA", "mid"),
        ("GAMMA_MCORE", "lo"),
    ]
    assert told[0]["hi_up_to_s"] == pytest.approx(600 + 0.666 * 6600)
    assert told[0]["lo_above_s"] == pytest.approx(7200 + 0.334 * 43200)


def test_which_jobs_are_samples(database: Database) -> None:
    """Each pair of jobs at a queue of its own, named for what is different."""
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
    every = counted | not_counted
    pairs = [
        sample(10 * place + twin, name, 60, **columns)
        for place, (name, columns) in enumerate(every.items())
        for twin in (0, 1)
    ]
    load(database, analysis(schedconfig_json=[queue(name) for name in every], **tables_of(*pairs)))
    record, told = dry(database, "site_class")
    assert record.outcome == "done", record.error
    assert {one["queue"]: one["n"] for one in told} == dict.fromkeys(counted, 2)


def test_without_samples_no_class_is_made(database: Database) -> None:
    load(database, analysis())
    record, told = next_cycle(database, agent="site_class")
    assert (record.counts["written"], told) == (0, [])
    assert "no sample job of the last 4 days" in record.notes[0]


def test_active_jobs_count_once_and_only_some_of_them(database: Database) -> None:
    """One job is in both tables, one has only been activated; of a third the log does not say when it was activated."""
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
    _, (told,) = dry(database, "site_class")
    assert (told["n"], told["w_mean"]) == (2, pytest.approx(90))
    assert told["strr_1d"] == pytest.approx(3 / (1430 / 60))


def test_merge_jobs_that_wait_now(database: Database) -> None:
    """Four that have waited for 18000 s take the class hi away, three do not; one without a time does not count.

    Of 7200, 18000 and 50400 s the limit of hi is 7200 + 0.666 x 10800, that of lo 18000 + 0.334 x 32400.
    """
    for count, expected in ((3, "hi"), (4, "mid")):
        waiting = [
            row | {"processingtype": "pmerge", "creationtime": at(300)}
            for row in user_jobs("ALPHA_MCORE", 500, activated=count)
        ]
        unknown = user_jobs("ALPHA_MCORE", 600, activated=5)[0] | {"processingtype": "pmerge", "pandaid": 999}
        load(database, analysis(**SAMPLES, jobsactive4=[*waiting, unknown]), replace=True)
        _, told = dry(database, "site_class")
        assert (told[0]["queue"], told[0]["class"], told[0]["long_q_n"]) == ("ALPHA_MCORE", expected, count)
        assert told[0]["long_q_mean"] == 18000.0


def test_without_queues_nothing_can_be_told(database: Database) -> None:
    load(database, scenario(schedconfig_json=[], jobsarchived4=SAMPLES["jobsarchived4"]))
    for name in ("site_class", "share_usage"):
        record, told = dry(database, name)
        assert (record.outcome, told) == ("refused", [])
        assert "no queue is on record" in str(record.error)


def test_a_bad_queue_row_is_left_out(database: Database) -> None:
    bad = [{"panda_queue": "BAD", "data": [1]}, {"panda_queue": "WORSE", "data": {"resource_type": 5}}]
    good = queue("BETA") | {"last_update": FRESH}
    load(database, analysis(schedconfig_json=[*bad, good], **SAMPLES))
    record, told = dry(database, "site_class")
    assert (record.outcome, [one["queue"] for one in told]) == ("done", ["BETA"])
    assert record.notes == ("left out 2 x queues: wrong_type",)
