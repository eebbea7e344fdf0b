"""The agents that keep classes: what they read, what they write, and that the brokerage decides by it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents import registry
from agents.base import CycleContext, CycleRequest
from agents.configuration import ConfigurationError
from agents.cycle import open_run, run_cycle
from agents.process import ProcessSettings
from broker.store import leases, migrate
from broker.store.agent_runs import RunRecord
from broker.store.database import Database
from broker.store.leases import LeaseTerms
from broker.store.load_dump import load
from tests.brokerages.small_grid import FRESH, NOW, TASK, Row, next_cycle, queue, scenario
from tests.brokerages.test_analysis_scenarios import SHARE, analysis, user_jobs, user_task

START = datetime(2026, 8, 1, 11, 30)  # noqa: DTZ001 - as PanDA stores it


def at(minutes: float) -> str:
    """So many minutes before the instant of the cycle."""
    return (NOW - timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()


def sample(pandaid: int, where: str, wait_s: float, **columns: Any) -> tuple[Row, list[Row]]:
    """A test job that ran half an hour ago after it had waited, and what the log says of it."""
    job = {
        "pandaid": pandaid,
        "jobstatus": "finished",
        "computingsite": where,
        "prodsourcelabel": "user",
        "gshare": SHARE,
        "produsername": "gangarbt",
        "modificationtime": FRESH,
        "starttime": at(30),
    }
    log = [
        {"pandaid": pandaid, "jobstatus": "running", "modificationtime": START.isoformat()},
        {"pandaid": pandaid, "jobstatus": "running", "modificationtime": FRESH},
        {
            "pandaid": pandaid,
            "jobstatus": "activated",
            "modificationtime": (START - timedelta(seconds=wait_s)).isoformat(),
        },
        {"pandaid": pandaid, "jobstatus": "activated", "modificationtime": FRESH},
    ]
    return job | columns, log


def tables_of(*samples: tuple[Row, list[Row]]) -> dict[str, list[Row]]:
    return {"jobsarchived4": [job for job, _ in samples], "jobs_statuslog": [row for _, log in samples for row in log]}


#: Two samples a queue: 10 minutes at ALPHA_MCORE, 2 hours at BETA, 14 hours at GAMMA_MCORE.
WAITS = {"ALPHA_MCORE": 600, "BETA": 7200, "GAMMA_MCORE": 50400}
SAMPLES = tables_of(
    *(sample(10 * place + twin, where, wait) for place, (where, wait) in enumerate(WAITS.items(), 1) for twin in (0, 1))
)


def metrics(database: Database, metric: str) -> dict[str, dict[str, Any]]:
    """The documents of a metric by queue or share."""
    with database.begin() as connection:
        rows = connection.execute(
            sa.text("SELECT computingsite, gshare, value_json, timestamp FROM doma_panda.metrics WHERE metric = :m"),
            {"m": metric},
        ).all()
    assert {row.timestamp for row in rows} <= {NOW.replace(tzinfo=None)}
    return {row.gshare if row.computingsite == "NULL" else row.computingsite: row.value_json for row in rows}


def evaluations(database: Database) -> dict[int, dict[str, Any]]:
    with database.begin() as connection:
        rows = connection.execute(sa.text("SELECT jeditaskid, value_json, timestamp FROM doma_panda.task_evaluation"))
        return {row.jeditaskid: json.loads(row.value_json) for row in rows}


def dry(database: Database, name: str, **options: Any) -> tuple[RunRecord, list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    asked = CycleRequest(dry_run=True, tell=told.append)
    agent = registry.make(name, options, ProcessSettings())
    return run_cycle(agent, CycleContext(database, NOW, 1, 60.0, asked)), told


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


def site(where: str, site_class: Any, minutes: float = 10, **document: Any) -> Row:
    """A row of a queue's class of so many minutes ago."""
    value = {"class": site_class, **document}
    return {"metric": "analy_site_eval", "computingsite": where, "gshare": "NULL", "value_json": value} | {
        "timestamp": at(minutes)
    }


def progress(files: int, finished: int, **columns: Any) -> Row:
    return {"jeditaskid": TASK, "datasetid": 1, "type": "input", "nfiles": files, "nfilesfinished": finished, **columns}


HUGE = [row | {"corecount": 8000} for row in user_jobs("ALPHA_MCORE", 900, running=1)]


def test_tasks_are_classed_by_what_their_user_has(database: Database) -> None:
    """8000 slots at one queue: of class hi they leave nothing for A and B; of class mid they leave 1000 for A."""
    for row, expected in (
        (site("ALPHA_MCORE", 1, minutes=120), -1),
        (site("ALPHA_MCORE", 0), 1),
        (site("ALPHA_MCORE", 1, resource_type="hpc"), None),
    ):
        load(database, analysis(metrics=[row], jobsactive4=HUGE), replace=True)
        record, _ = next_cycle(database, agent="task_class")
        assert (record.outcome, record.notes) == ("done", ())
        assert {task: one["class"] for task, one in evaluations(database).items()} == (
            {} if expected is None else {TASK: expected}
        )
        assert len(metrics(database, "analy_user_eval")) == 1


def test_without_a_fresh_class_of_a_queue_users_are_not_evaluated(database: Database) -> None:
    """The last evaluation stays, and grows old; a task of Express Analysis is of class S all the same."""
    tasks = [user_task(), user_task(jeditaskid=TASK + 1, gshare="Express Analysis")]
    rows = [site("ALPHA_MCORE", 1, minutes=121), site("BETA", 7), site("GAMMA_MCORE", "hi"), site("GAMMA_OFF", None)]
    old = {"metric": "analy_user_eval", "value_json": {"alice": {}}, "timestamp": "2026-08-01T12:00:00"}
    load(database, analysis(jedi_tasks=tasks, metrics=[*rows, old | {"computingsite": "NULL", "gshare": "NULL"}]))
    record, _ = next_cycle(database, agent="task_class")
    assert "no class of a queue is fresh" in record.notes[0]
    assert record.notes[1:] == ("left out 2 x metrics: no_class", "left out 1 x metrics: wrong_type")
    assert (record.counts["users"], record.counts["not_evaluated"], record.counts["written"]) == (0, 1, 1)
    assert metrics(database, "analy_user_eval") == {"NULL": {"alice": {}}}
    assert {task: one["class"] for task, one in evaluations(database).items()} == {TASK + 1: 2}


def test_whose_jobs_count_for_a_user(database: Database) -> None:
    """Of these shares, neither merge nor test jobs, NULL and 0 cores are one; throttled ones neither wait nor run."""
    own = user_jobs("ALPHA_MCORE", 100, running=2, activated=3, starting=1, throttled=5, transferring=1)
    odd = [
        own[0] | {"pandaid": 200, "corecount": None},
        own[0] | {"pandaid": 201, "corecount": 0},
        own[0] | {"pandaid": 202, "processingtype": "pmerge"},
        own[0] | {"pandaid": 203, "produsername": "gangarbt"},
        own[0] | {"pandaid": 204, "gshare": "Group Analysis"},
        own[0] | {"pandaid": 205, "gshare": "Express Analysis", "corecount": 8},
        own[0] | {"pandaid": 206, "computingsite": None},
        own[0] | {"pandaid": 207, "produsername": 'Zoë O\'Neill, "x"\\'},
    ]
    load(database, analysis(metrics=[site("ALPHA_MCORE", 1)], jobsactive4=[*own, *odd]))
    record, told = next_cycle(database, agent="task_class")
    assert record.counts["users"] == 2
    users = metrics(database, "analy_user_eval")["NULL"]
    assert users["alice"]["A_sites"] == {"nQueue": 4, "nRunning": 5, "slotsQueue": 4, "slotsRunning": 12}
    assert users["alice"]["rem_slots_A"] == 988
    assert users['Zoë O\'Neill, "x"\\']["A_sites"]["nRunning"] == 1
    assert [one["user"] for one in told] == ['Zoë O\'Neill, "x"\\', "alice", "alice"]


def test_which_tasks_are_evaluated(database: Database) -> None:
    yes: list[Row] = [
        {"status": "running"}, {"status": "scouting"}, {"status": "scouted"}, {"status": "pending"},
        {"status": "throttled"}, {"modificationtime": "2026-07-02T12:00:01"}, {"gshare": None},
    ]  # fmt: skip
    no: list[Row] = [
        {"status": "ready"}, {"status": "done"}, {"tasktype": "prod"}, {"tasktype": None}, {"prodsourcelabel": "panda"},
        {"username": "gangarbt"}, {"username": None}, {"username": "nobody"}, {"modificationtime": None},
        {"modificationtime": "2026-07-02T12:00:00"},
    ]  # fmt: skip
    tasks = [user_task(jeditaskid=number, **columns) for number, columns in enumerate([*yes, *no], 1)]
    running = user_jobs("ALPHA_MCORE", 1, running=1)
    load(database, analysis(jedi_tasks=tasks, metrics=[site("ALPHA_MCORE", 1)], jobsactive4=running))
    record, told = dry(database, "task_class")
    assert record.outcome == "done", record.error
    assert [one["jeditaskid"] for one in told if "jeditaskid" in one] == list(range(1, len(yes) + 1))
    assert record.counts["not_evaluated"] == 2  # of nobody, and of somebody who has no jobs


def test_only_the_tasks_that_were_asked_for(database: Database) -> None:
    tasks = [user_task(jeditaskid=number) for number in (1, 2, 3)]
    loaded = analysis(jedi_tasks=tasks, metrics=[site("ALPHA_MCORE", 1)], jobsactive4=HUGE)
    load(database, loaded)
    next_cycle(database, agent="task_class", task_ids=(2, 99))
    assert list(evaluations(database)) == [2]


def test_progress_is_that_of_the_master_inputs(database: Database) -> None:
    """19 of 20 files in two masters, of which 40 jobs: 2 are left. Secondary inputs and outputs do not count."""
    datasets = [
        progress(12, 12, datasetid=1, nfilesfailed=0),
        progress(8, 7, datasetid=2, type="pseudo_input", nfilesfailed=None),
        progress(1000, 0, datasetid=3, masterid=1),
        progress(1000, 0, datasetid=4, type="output"),
    ]
    contents = [
        {
            "jeditaskid": TASK,
            "datasetid": dataset,
            "fileid": 100 * dataset + file,
            "pandaid": 1000 * dataset + file // 2,
        }
        for dataset, files in ((1, 40), (2, 40), (3, 40))
        for file in range(files)
    ] + [{"jeditaskid": TASK, "datasetid": 1, "fileid": 1, "pandaid": None}]
    jobs = user_jobs("ALPHA_MCORE", 1, running=1)
    loaded = analysis(jedi_datasets=datasets, jedi_dataset_contents=contents, metrics=[site("ALPHA_MCORE", 1)], jobsactive4=jobs)  # fmt: skip  # noqa: E501
    load(database, loaded)
    _, told = dry(database, "task_class")
    assert (told[-1]["n_files_total"], told[-1]["n_files_finished"], told[-1]["n_files_failed"]) == (20, 19, 0)
    assert (told[-1]["class"], told[-1]["jobs"], told[-1]["pct_finished"]) == ("S", 40, 95.0)


def test_evaluations_of_tasks_that_ended_are_removed(database: Database) -> None:
    """Those of ended tasks that are older than two hours; others stay, with the time they have."""
    tasks = [user_task(jeditaskid=number, status=status) for number, status in ((1, "done"), (2, "done"), (3, "ready"))]
    rows = [
        {"jeditaskid": number, "metric": "analy_task_eval", "value_json": "{}", "timestamp": at(minutes)}
        for number, minutes in ((1, 120.1), (2, 120), (3, 500), (4, 500))
    ]
    load(database, analysis(jedi_tasks=tasks, task_evaluation=rows))
    record, _ = next_cycle(database, agent="task_class")
    assert (record.counts["forgotten"], sorted(evaluations(database))) == (1, [2, 3, 4])


SHARES = [
    {"name": "Production", "value": 60, "parent": None},
    {"name": "L1 User Analysis", "value": 40, "parent": None},
    {"name": SHARE, "value": 80, "parent": "L1 User Analysis"},
    {"name": "Express Analysis", "value": 20, "parent": "L1 User Analysis"},
]


def test_usage_of_shares_is_that_of_running_jobs_against_their_target(database: Database) -> None:
    """10 HS06 a core: 60 run for User Analysis, 40 for nobody; 32 % of 100 are due. 20 wait, sent counts as running."""
    three = user_jobs("BETA", 50, running=3)
    jobs = [
        *user_jobs("ALPHA_MCORE", 1, running=2, sent=1, activated=2, starting=9, holding=9),
        *({**row, "corecount": cores} for row, cores in zip(three, (None, 0, 1), strict=True)),
        *user_jobs("ALPHA_MCORE", 60, share="Undefined", running=4),
        *user_jobs("NO_SUCH_QUEUE", 70, running=9),
    ]
    load(database, analysis(jobsactive4=jobs, global_shares=SHARES))
    record, told = next_cycle(database, agent="share_usage")
    assert (record.outcome, record.counts) == ("done", {"shares": 5, "leaves": 3, "written": 5})
    written = metrics(database, "gshare_preference")
    assert sorted(written) == ["Express Analysis", "L1 Production", "L1 User Analysis", "Production", SHARE]
    user = written[SHARE]
    assert (user["running_hs"], user["queuing_hs"], user["rank"]) == (60, 20, 3)
    assert (user["target_hs"], user["usage_perc"]) == pytest.approx((32, 1.875))
    # 40 are due to the top; Production leaves 60, of which 40 / 41 come to it
    assert written["L1 User Analysis"]["eqiv_usage_perc"] == pytest.approx(60 / (40 + 60 * 40 / 41))
    assert [one["gshare"] for one in told][:3] == ["Express Analysis", "Production", SHARE]


def test_usage_of_shares_by_the_statistics_of_panda(database: Database) -> None:
    """HS06 as they stand there; statistics that are old or missing are no answer."""
    amounts = (("running", 30), ("sent", 2), ("activated", 5), ("holding", 9))
    rows = [{"gshare": SHARE, "jobstatus": status, "hs": hs, "computingsite": "X"} for status, hs in amounts]
    agent = registry.make("share_usage", {}, ProcessSettings(job_statistics="panda"))
    for made, outcome in ((at(60), "done"), (at(60.1), "refused"), (None, "refused")):
        load(
            database,
            analysis(jobs_share_stats=[row | {"ts": made} for row in rows], global_shares=SHARES),
            replace=True,
        )
        told: list[dict[str, Any]] = []
        record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, CycleRequest(dry_run=True, tell=told.append)))
        assert record.outcome == outcome
        found = [(one["running_hs"], one["queuing_hs"]) for one in told if one["gshare"] == SHARE]
        assert found == ([(32, 5)] if outcome == "done" else [])


def test_bad_shares_are_left_out(database: Database) -> None:
    rows = [*SHARES, {"name": "Lost", "value": 5, "parent": "Nowhere"}, {"name": "Less", "value": -5, "parent": None}]
    load(database, analysis(global_shares=[*rows, {"name": "None", "value": None, "parent": None}]))
    record, told = dry(database, "share_usage")
    assert record.notes == ("left out 1 x global_shares: negative", "left out 1 x global_shares: no_parent")
    assert {one["gshare"] for one in told} >= {"None", "L1 None", SHARE}


def counted_rows(database: Database) -> tuple[int, int]:
    """All rows of metrics, and those of now."""
    query = sa.text("SELECT count(*), count(*) FILTER (WHERE timestamp = :now) FROM doma_panda.metrics")
    with database.begin() as connection:
        every, fresh = connection.execute(query, {"now": NOW.replace(tzinfo=None)}).one()
    return every, fresh


def test_rows_are_overwritten_not_doubled(database: Database) -> None:
    """Also rows whose unused keys are NULL, and rows of a key that is there twice: PanDA's table has none, ours may."""
    old = [
        {"metric": "analy_site_eval", "computingsite": "ALPHA_MCORE", "gshare": None},
        {"metric": "analy_site_eval", "computingsite": "ALPHA_MCORE", "gshare": "NULL"},
        {"metric": "analy_user_eval", "computingsite": None, "gshare": None},
        {"metric": "gshare_preference", "computingsite": None, "gshare": SHARE},
        {"metric": "users_jobs_stats", "computingsite": "ALPHA_MCORE", "gshare": SHARE},
    ]
    rows = [row | {"value_json": {"class": 1}, "timestamp": at(30)} for row in old]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": "old", "timestamp": at(30)}
    tables = {"metrics": rows, "task_evaluation": [evaluation], "global_shares": SHARES, "jobsactive4": HUGE}
    load(database, analysis(**SAMPLES, **tables))
    # six rows of two metrics at three queues, of which one is there twice; one of users; five of shares, one old one
    for name, expected in (("site_class", (10, 7)), ("task_class", (10, 8)), ("share_usage", (14, 13))):
        for _ in range(2):
            assert next_cycle(database, agent=name)[0].outcome == "done"
            assert counted_rows(database) == expected
    assert evaluations(database)[TASK]["class"] == -1


def test_nothing_is_written_dry_or_without_the_lease(database: Database) -> None:
    load(database, analysis(**SAMPLES, metrics=[site("ALPHA_MCORE", 1)], global_shares=SHARES, jobsactive4=HUGE))
    for name in ("site_class", "task_class", "share_usage"):
        assert dry(database, name)[0].outcome == "done"
        with database.begin() as connection:
            lease = leases.acquire(connection, name, "test", LeaseTerms()).lease
            assert lease is not None
        run_id = open_run(database, name, lease)
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))
        agent = registry.make(name, {}, ProcessSettings())
        context = CycleContext(database, NOW, 1, 60.0, lease=lease, run_id=run_id)
        assert run_cycle(agent, context).outcome == "lost_lease"
        assert counted_rows(database) == (1, 0)
    assert evaluations(database) == {}


def test_beside_panda_its_daemons_keep_the_rows(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    load(database, analysis(global_shares=SHARES))
    with database.begin() as connection:
        lease = leases.acquire(connection, "share_usage", "test", LeaseTerms()).lease
    assert lease is not None
    monkeypatch.setattr(migrate, "check", lambda database: "beside PanDA")
    for written_by, rows in (("auto", 0), ("panda", 0), ("broker", 5)):
        agent = registry.make("share_usage", {"written_by": written_by}, ProcessSettings())
        record = run_cycle(agent, CycleContext(database, NOW, 1, 60.0, lease=lease))
        assert record.outcome == "done"
        assert counted_rows(database) == (rows, rows)
        assert any("PanDA's daemons" in note for note in record.notes) is (rows == 0)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="written_by"):
        registry.make("site_class", {"written_by": "nobody"}, ProcessSettings())


def test_the_brokerage_decides_by_what_the_agents_wrote(database: Database) -> None:
    """8000 slots at a queue of class hi make class C; the share is over its target: the task is throttled.

    With the share at its target, the new weight sends a task of class C to the queue of class lo.
    """
    switch = {"app": "jedi", "component": "anal_jobbroker", "key": "NEW_BASIC_WEIGHT", "value": "true"}
    switch |= {"type": "boolean", "vo": "atlas"}
    loaded = analysis(**SAMPLES, jobsactive4=HUGE, global_shares=SHARES, config=[switch])
    load(database, loaded)
    for name in ("share_usage", "site_class", "task_class"):
        assert next_cycle(database, agent=name)[0].outcome == "done"
    _, (decision,) = next_cycle(database, agent="analysis_job", dry_run=True)
    assert (decision["outcome"], decision["reason"]) == ("throttled", "throttled_share_usage")
    idle = [row | {"pandaid": 5000 + number, "gshare": "Production"} for number, row in enumerate(HUGE * 3)]
    load(database, analysis(**SAMPLES, jobsactive4=[*HUGE, *idle], global_shares=SHARES, config=[switch]), replace=True)
    for name in ("share_usage", "site_class", "task_class"):
        assert next_cycle(database, agent=name)[0].outcome == "done"
    _, (decision,) = next_cycle(database, agent="analysis_job", dry_run=True)
    assert decision["outcome"] == "brokered"
    weights = {one["name"]: one["weight"] for one in decision["candidates"]}
    assert max(weights, key=lambda name: weights[name]) == "GAMMA_MCORE"
    assert weights["ALPHA_MCORE"] < weights["BETA/SCORE"] < weights["GAMMA_MCORE"]


def test_a_document_of_many_users_is_read(database: Database) -> None:
    """Of 4000 users, more than a million characters; 150 % is above the limit of who has no slots left, but below
    that of who is not known.
    """
    nothing = dict.fromkeys(("nQueue", "nRunning", "slotsQueue", "slotsRunning"), 0)
    one = dict.fromkeys(("A_sites", "B_sites", "C_sites"), nothing)
    users = {f"user {number:05d}": {"user": f"user {number:05d}", **one, "rem_slots_A": 9} for number in range(4000)}
    users["alice"] = {"rem_slots_A": 0}
    assert len(json.dumps(users)) > 1_000_000
    rows: list[Row] = [
        {"metric": "analy_user_eval", "value_json": users, "computingsite": "NULL", "gshare": "NULL"},
        {"metric": "gshare_preference", "gshare": SHARE, "computingsite": "NULL", "value_json": {"usage_perc": 1.5}},
    ]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": 1}', "timestamp": FRESH}
    load(database, analysis(metrics=[row | {"timestamp": FRESH} for row in rows], task_evaluation=[evaluation]))
    _, (decision,) = next_cycle(database, agent="analysis_job", dry_run=True)
    assert decision["reason"] == "throttled_share_usage"
