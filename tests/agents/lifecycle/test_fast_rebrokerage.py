"""Fast rebrokerage on whole databases: which jobs count, which queues are left alone, which jobs move, how often."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import fault_points
from broker.formats.model import job_status
from broker.formats.statements import status_reports
from broker.store.connection.database import Database
from tests.agents.moving_jobs import NOW, closed_jobs, column, config, fill, job, queue, run

KEY = config("FAST_REBRO_THRESHOLD_NQUEUE_MC", 10)
FAST = "fast_rebrokerage"


def overloaded_jobs(count: int = 14, **columns: Any) -> list[dict[str, Any]]:
    """``count`` waiting jobs at Q in all four states and 1 running job: of 14 waiting jobs, 4 are too many."""
    states = ("defined", "assigned", "activated", "starting")
    jobs = [job(n, states[n % 3] if n > 2 else states[3], **columns) for n in range(1, count + 1)]
    return [*jobs, job(100, "running", **columns)]


def test_the_excess_moves_and_then_the_queue_settles(shared_database: Database) -> None:
    fill(shared_database, overloaded_jobs(), config=[KEY])
    dry, dry_objects = run(shared_database, FAST, dry=True)
    assert (dry.outcome, closed_jobs(shared_database), dry_objects[0]["dry_run"]) == ("done", [], True)
    record, objects = run(shared_database, FAST)
    assert (record.outcome, record.error) == ("done", None)
    (item,) = objects
    assert item == {
        "queue": "Q", "gshare": "MC", "nqueue": 14, "nrunning": 1, "nqueue_total": 14,
        "limits": {"ratio": 3.0, "fraction": 0.3, "threshold": 10, "moves": 1},
        "keys": ["FAST_REBRO_THRESHOLD_NQNR_RATIO", "FAST_REBRO_THRESHOLD_NQUEUE_FRAC",
                 "FAST_REBRO_THRESHOLD_NQUEUE_MC", "FAST_REBRO_MAX_MOVES"],
        "over_ratio": True, "over_threshold": True, "over_fraction": True, "exempt": None, "excess": 4,
        "picked": [14, 13, 12, 11], "moved_often": 0, "dry_run": False, "moved": 4, "skipped": 0,
    }  # fmt: skip
    assert dry_objects == [item | {"dry_run": True, "moved": 0}]
    assert closed_jobs(shared_database) == [11, 12, 13, 14]
    actions = "SELECT concat_ws(' ', rule, action, code, new_status, detail ->> 'excess') FROM broker.job_actions"
    assert column(shared_database, actions) == ["fast_rebrokerage reassigned 10 closed 4"] * 4
    codes = "SELECT DISTINCT concat_ws(' ', taskbuffererrorcode, jobsubstatus) FROM doma_panda.jobsarchived4"
    assert column(shared_database, codes) == ["130"]
    second, objects = run(shared_database, FAST)
    assert (objects[0]["nqueue"], objects[0]["exempt"], second.counts["moved"]) == (10, "settling", 0)


def test_jobs_on_their_way_are_waited_for(shared_database: Database) -> None:
    jobs_at_r = [job(n, computingsite="R") for n in range(201, 231)] + [
        job(n, "running", computingsite="R") for n in (300, 301)
    ]
    fill(
        shared_database,
        [*jobs_at_r, *(job(n) for n in range(1, 31))],
        config=[KEY, config("FAST_REBRO_THRESHOLD_NQNR_RATIO", 10)],
    )
    assert [item["excess"] for item in run(shared_database, FAST)[1]] == [12, 10]
    later = NOW + timedelta(seconds=1799)
    assert [(item["excess"], item["nqueue_total"]) for item in run(shared_database, FAST, now=later)[1]] == [
        (0, 38)
    ] * 2
    later += timedelta(seconds=1)
    assert [item["excess"] for item in run(shared_database, FAST, dry=True, now=later)[1]] == [7, 0]
    assert [item["excess"] for item in run(shared_database, FAST, options={"settle_s": 0})[1]] == [7, 0]


@pytest.mark.parametrize(
    ("rows", "reported"),
    [([], 10), ([config("FAST_REBRO_THRESHOLD_NQUEUE_MC", 0)], 10), ([config("FAST_REBRO_THRESHOLD_NQUEUE_X", 5)], 10)],
)
def test_without_a_threshold_of_the_share_nothing_moves(
    shared_database: Database, rows: list[Any], reported: int
) -> None:
    fill(shared_database, overloaded_jobs(), config=rows)
    record, objects = run(shared_database, FAST)
    assert (objects[0]["limits"]["threshold"], objects[0]["excess"], objects[0]["dry_run"]) == (reported, 4, True)
    assert objects[0]["picked"] == [14, 13, 12, 11]
    assert (record.counts["only_reported"], record.counts["picked"], closed_jobs(shared_database)) == (1, 0, [])


def slots(numslots: int | None, expires: str | None = None) -> dict[str, Any]:
    return {"numslots": numslots, "expirationtime": expires}


LEFT_ALONE: dict[str, tuple[dict[str, Any], dict[str, Any] | None, str | None]] = {
    "online": ({}, None, None),
    "offline": ({"status": "offline"}, None, None),
    "paused": ({"status": "paused"}, None, "paused"),
    "in catchall": ({"catchall": "x, disableReassign=1"}, None, "disableReassign"),
    "in params": ({"params": {"disableReassign": False}}, None, "disableReassign"),
    "wrong type": ({"catchall": 5}, None, "queue_unreadable"),
    "slots": ({}, slots(5), "harvester_slots"),
    "negative slots": ({}, slots(-1), "harvester_slots"),
    "no slots": ({}, slots(None), None),
    "slots until later": ({}, slots(5, "2026-08-01T12:00:01"), "harvester_slots"),
    "slots until now": ({}, slots(5, "2026-08-01T12:00:00"), None),
}


def test_queues_that_are_left_alone(shared_database: Database) -> None:
    jobs = []
    for number, name in enumerate(LEFT_ALONE):
        for item in overloaded_jobs(computingsite=name, gshare=name):
            jobs.append(item | {"pandaid": item["pandaid"] + 1000 * number})
    fill(
        shared_database,
        jobs,
        schedconfig_json=[queue(name, **data) for name, (data, _, _) in LEFT_ALONE.items()],
        harvester_slots=[{"pandaqueuename": name} | row for name, (_, row, _) in LEFT_ALONE.items() if row],
        config=[config(f"FAST_REBRO_THRESHOLD_NQUEUE_{name}", 10) for name in LEFT_ALONE],
    )
    record, objects = run(shared_database, FAST)
    by_queue = {
        item["queue"]: (item["exempt"], item["excess"], item["moved"], item["nqueue_total"]) for item in objects
    }
    for name, (_, _, exempt) in LEFT_ALONE.items():
        excess = 4 if exempt is None else 0
        assert by_queue[name] == (exempt, excess, excess, 0 if exempt == "harvester_slots" else 14), name
    assert record.notes == ("queues that cannot be read, where no timeout acts: 1, first wrong type",)
    assert len(closed_jobs(shared_database)) == record.counts["moved"] == 4 * 4


def test_jobs_at_unknown_queues_count_and_jobs_of_special_work_queues_do_not(shared_database: Database) -> None:
    special = [
        {"queue_id": 7, "queue_name": "hpc", "queue_type": "managed", "vo": "atlas", "queue_function": "Resource"}
    ]
    jobs = [
        *overloaded_jobs(workqueue_id=1),
        job(200, workqueue_id=7),
        job(201, workqueue_id=None),
        job(202, gshare=None),
    ]
    fill(shared_database, [*jobs, job(300, computingsite="gone"), job(301, computingsite=None)], config=[KEY])
    record, objects = run(shared_database, FAST, dry=True)
    figures = [
        (item["queue"], item["gshare"], item["nqueue"], item["nqueue_total"], item["exempt"]) for item in objects
    ]
    gone = ("gone", "MC", 1, 17, "unknown_queue")
    assert figures == [("Q", None, 1, 1, None), ("Q", "MC", 16, 17, None), gone]
    assert record.notes == ("jobs at 1 queues that are not on record were left alone, but counted",)
    fill(shared_database, jobs, config=[KEY], jedi_work_queue=special)
    assert [(item["gshare"], item["nqueue"]) for item in run(shared_database, FAST, dry=True)[1]] == [("MC", 14)]


def test_the_statistics_of_panda_can_be_counted_instead(shared_database: Database) -> None:
    def rows(status: str, *numbers: int) -> list[dict[str, Any]]:
        return [{"computingsite": "Q", "gshare": "MC", "jobstatus": status, "njobs": n} for n in numbers]

    statistics = {"jobs_share_stats": [*rows("activated", 1, 2), *rows("running", 1), *rows("holding", 50)]}
    fill(shared_database, overloaded_jobs(), config=[KEY], jobsdefined_share_stats=rows("defined", 9), **statistics)
    _, objects = run(shared_database, FAST, dry=True, job_statistics="panda")
    assert (objects[0]["nqueue"], objects[0]["nrunning"], objects[0]["excess"], objects[0]["picked"]) == (
        12,
        1,
        2,
        [14, 13],
    )


def test_started_jobs_move_last_in_the_order_of_their_waste(shared_database: Database) -> None:
    jobs = [job(n, "starting") for n in (1, 2, 3, 4)] + [job(n, starttime="2026-07-31T05:00:00") for n in (5, 6)]
    fill(shared_database, [*jobs, *(job(n) for n in (7, 8))], config=[config("FAST_REBRO_THRESHOLD_NQUEUE_MC", 1)])
    with shared_database.begin() as connection:
        for pandaid, lost in ((2, b"900"), (5, b"10"), (3, b"900")):
            status = job_status.parse({"used_CPU": b"1", "add_uncom_time": lost, "last_job_start": b"1785585600"})
            assert status_reports.save(connection, pandaid, status, 1, NOW)
    assert run(shared_database, FAST, dry=True)[1][0]["picked"] == [8, 7, 5, 3, 2, 6]


def test_the_same_input_moves_a_limited_number_of_times(shared_database: Database) -> None:
    def file(row_id: int, pandaid: int, fileid: int, datasetid: int = 10) -> dict[str, Any]:
        key = {"row_id": row_id, "pandaid": pandaid, "jeditaskid": 1, "datasetid": datasetid, "fileid": fileid}
        return key | {"type": "input"}

    files = [file(1, 900, 77), file(2, 14, 77), file(3, 13, 78)]
    files_of_all_jobs = [file(4, 900, 5, 11), file(5, 13, 5, 11)]
    datasets = [{"jeditaskid": 1, "datasetid": 10}, {"jeditaskid": 1, "datasetid": 11, "masterid": 10}]
    most_moves = config("FAST_REBRO_MAX_MOVES", 1) | {"type": "int"}
    tables = {"filestable4": [*files, *files_of_all_jobs], "jedi_datasets": datasets}
    fill(shared_database, overloaded_jobs(), config=[KEY, most_moves], **tables)
    statement = """
        WITH gone AS (DELETE FROM broker.job_actions),
             most AS (UPDATE doma_panda.config SET value = :most WHERE key = 'FAST_REBRO_MAX_MOVES')
        INSERT INTO broker.job_actions (agent, pandaid, rule, action, code, acted_at)
        VALUES ('a', 900, :rule, 'reassigned', 10, :at)"""
    cases = [(23.9, FAST, 1, 1), (24.0, FAST, 1, 0), (1.0, "activated", 1, 0), (1.0, FAST, 2, 0), (1.0, FAST, 0, 1)]
    for hours_ago, rule, most, dropped_rows in cases:
        with shared_database.begin() as connection:
            values = {"rule": rule, "at": NOW - timedelta(hours=hours_ago), "most": str(most)}
            connection.execute(sa.text(statement), values)
        _, objects = run(shared_database, FAST, dry=True)
        assert objects[0]["moved_often"] == dropped_rows, (hours_ago, rule, most)
        assert objects[0]["picked"] == ([13, 12, 11, 10] if dropped_rows else [14, 13, 12, 11])


def test_two_agents_that_want_the_same_jobs_take_each_once(shared_database: Database) -> None:
    users = {"prodsourcelabel": "user", "jobdefinitionid": 5, "jobsetid": 6, "statechangetime": "2026-07-31T01:00:00"}
    files = [
        {"jeditaskid": 1, "datasetid": 10, "fileid": n, "lfn": f"f{n}", "type": "input", "status": "running",
         "pandaid": n, "attemptnr": 0, "maxattempt": 3}
        for n in range(1, 15)
    ]  # fmt: skip
    fill(shared_database, overloaded_jobs(**users)[:-1], config=[KEY], jedi_dataset_contents=files)
    moved_by_other: list[int] = []
    fault_points.arm_action(
        "before_write", lambda: moved_by_other.append(run(shared_database, "analysis_rebrokerage")[0].counts["moved"])
    )
    record, objects = run(shared_database, FAST)
    assert (record.outcome, moved_by_other, objects[0]["moved"], objects[0]["skipped"]) == ("done", [14], 0, 4)
    assert closed_jobs(shared_database) == list(range(1, 15))
    assert column(shared_database, "SELECT DISTINCT attemptnr FROM doma_panda.jedi_dataset_contents") == [1]
    assert column(shared_database, "SELECT count(*) FROM broker.job_actions") == [14]


def test_without_current_queues_nothing_is_touched(shared_database: Database) -> None:
    stale = queue("Q") | {"last_update": "2026-07-31T11:59:59"}
    for rows in ([], [stale]):
        fill(shared_database, overloaded_jobs(), config=[KEY], schedconfig_json=rows)
        record, objects = run(shared_database, FAST)
        assert (record.outcome, objects, closed_jobs(shared_database)) == ("refused", [], [])


def test_only_jobs_of_requested_tasks_move(shared_database: Database) -> None:
    jobs = overloaded_jobs()
    fill(shared_database, [*jobs[:-2], jobs[-2] | {"jeditaskid": 5}, jobs[-1]], config=[KEY])
    assert run(shared_database, FAST, tasks=(5, 6))[1][0]["picked"] == [14]
    assert closed_jobs(shared_database) == [14]


def test_a_job_that_changed_meanwhile_is_skipped_and_a_lost_lease_moves_nothing(shared_database: Database) -> None:
    fill(shared_database, overloaded_jobs(), config=[KEY])

    def change(statement: str) -> None:
        with shared_database.begin() as connection:
            connection.execute(sa.text(statement))

    fault_points.arm_action(
        "before_write", lambda: change("UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE pandaid = 14")
    )
    record, objects = run(shared_database, FAST)
    assert (objects[0]["moved"], objects[0]["skipped"], record.counts["skipped"]) == (3, 1, 1)
    assert closed_jobs(shared_database) == [11, 12, 13]
    fill(shared_database, overloaded_jobs(), config=[KEY])
    fault_points.arm_action("before_write", lambda: change("UPDATE broker.leases SET epoch = epoch + 1"))
    record, _ = run(shared_database, FAST)
    assert (record.outcome, closed_jobs(shared_database)) == ("lost_lease", [])
