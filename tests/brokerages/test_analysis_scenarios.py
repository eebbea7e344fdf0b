"""Whole analysis scenarios calculated by hand, and bad input of every kind through whole cycles."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from broker.decisions.answers.explain import answers_about
from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import (
    ALL,
    SHARE,
    analysis,
    decide_one,
    ended_jobs,
    user_jobs,
    user_task,
    weights_of,
)
from tests.brokerages.small_grid import FRESH, TASK, dataset, input_files, one_cycle, task

pytestmark = pytest.mark.usefixtures("blocks")


@pytest.mark.slow
def test_jobs_go_to_queues_with_the_input_by_running_and_queued(database: Database) -> None:
    """ALPHA_MCORE: 9 running, 4 queued: 10 / 5 = 2; BETA: no jobs: 1; GAMMA has no input. One dataset on disk: x 1."""
    grid = analysis(
        sites=("ALPHA", "BETA"),
        jobsactive4=user_jobs("ALPHA_MCORE", 1000, "bob", running=9, activated=1, starting=1),
        jobsdefined4=user_jobs("ALPHA_MCORE", 2000, "bob", defined=1, assigned=1),
    )
    decision = decide_one(database, grid)
    assert (decision["outcome"], weights_of(decision)) == ("brokered", {"ALPHA_MCORE": 2.0, "BETA/SCORE": 1.0})
    assert {decision["rejected"][name] for name in ("GAMMA_MCORE", "GAMMA_TEST")} == {"no_input_data"}
    assert decision["rejected"]["GAMMA_OFF"] == "no_input_data"
    assert decision["rejected"]["BETA/MCORE"] == "cpucore"
    assert sum(decision["assigned"].values()) == 4
    (answer,) = answers_about(database, TASK, "GAMMA_TEST")
    assert answer.observation is not None
    assert answer.observation.value is False
    with database.begin() as connection:
        statement = sa.text(
            "SELECT DISTINCT prodsourcelabel, produsername FROM doma_panda.jobsdefined4 WHERE jeditaskid = 7000"
        )
        assert connection.execute(statement).all() == [("user", "alice")]


def test_a_second_pass_runs_if_all_queues_with_the_input_are_rejected_for_good(database: Database) -> None:
    """The input is at ALPHA, which is not online. The other queues have none of it and weigh alike."""
    grid = analysis(sites=("ALPHA",))
    grid.tables["schedconfig_json"][0]["data"]["status"] = "brokeroff"
    decision = decide_one(database, grid)
    assert weights_of(decision) == {"BETA/SCORE": 1.0, "GAMMA_MCORE": 1.0, "GAMMA_TEST": 1.0}
    assert decision["rejected"]["ALPHA_MCORE"] == "status"


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ({"taskpriority": 2000}, {}),
        ({"iointensity": 100}, {"IO_INTENSITY_CUTOFF_USER": "100"}),
        ({"frozentime": "2026-07-30T11:59:00"}, {"DATA_CHECK_TIMEOUT_USER": "48"}),
    ],
)
def test_the_locality_check_is_skipped(database: Database, columns: dict[str, Any], keys: dict[str, str]) -> None:
    """All queues are candidates, and ALPHA with 8 GiB weighs 1 + 8 / 10."""
    rows = [
        {"app": "jedi", "component": "anal_jobbroker", "key": key, "value": value, "type": "integer", "vo": "atlas"}
        for key, value in keys.items()
    ]
    grid = analysis(sites=("ALPHA",), jedi_tasks=[user_task(**columns)], config=rows)
    weights = {"ALPHA_MCORE": 1.8, "BETA/SCORE": 1.0, "GAMMA_MCORE": 1.0, "GAMMA_TEST": 1.0}
    assert weights_of(decide_one(database, grid)) == pytest.approx(weights)


@pytest.mark.parametrize(
    "columns", [{"taskpriority": 1999}, {"iointensity": 101}, {"iointensity": 0}, {"frozentime": "2026-07-30T12:01:00"}]
)
def test_the_locality_check_holds(database: Database, columns: dict[str, Any]) -> None:
    keys = {"IO_INTENSITY_CUTOFF_USER": "100", "DATA_CHECK_TIMEOUT_USER": "48"}
    rows = [
        {"app": "jedi", "component": "anal_jobbroker", "key": key, "value": value, "type": "integer", "vo": "atlas"}
        for key, value in keys.items()
    ]
    grid = analysis(sites=("ALPHA",), jedi_tasks=[user_task(**columns)], config=rows)
    assert weights_of(decide_one(database, grid)) == {"ALPHA_MCORE": 1.0}


@pytest.mark.parametrize(
    ("columns", "parameters", "expected"),
    [
        ({}, {"excludedSite": "GAMMA*"}, {"ALPHA_MCORE", "BETA/SCORE"}),
        ({}, {"includedSite": ["BETA", "GAMMA_MCORE"]}, {"BETA/SCORE", "GAMMA_MCORE"}),
        ({}, {"includedSite": "GAMMA*", "excludedSite": "*TEST"}, {"GAMMA_MCORE"}),
        ({}, {"includedSite": "nowhere,AUTO"}, ALL),
        ({}, {"includedSite": "gamma_mcore"}, set()),
        ({}, {"includedSite": 7}, ALL),
        ({"site": "GAMMA_TEST"}, {}, {"GAMMA_TEST"}),
        ({"site": "GAMMA_OFF"}, {}, set()),
        ({"site": "no such thing"}, {}, ALL),
    ],
)
def test_named_queues(
    database: Database, columns: dict[str, Any], parameters: dict[str, Any], expected: set[str]
) -> None:
    parameter_rows = [{"jeditaskid": TASK, "taskparams": json.dumps(parameters)}]
    decision = decide_one(database, analysis(jedi_tasks=[user_task(**columns)], jedi_taskparams=parameter_rows))
    assert set(weights_of(decision)) == expected
    assert decision["outcome"] == ("brokered" if expected else "pending")


def test_a_named_queue_need_not_be_online_but_not_offline(database: Database) -> None:
    grid = analysis(jedi_tasks=[user_task(site="GAMMA_MCORE")])
    grid.tables["schedconfig_json"][2]["data"]["status"] = "brokeroff"
    assert set(weights_of(decide_one(database, grid))) == {"GAMMA_MCORE"}


def test_a_throttle_by_cap_shows_figure_and_cap(database: Database) -> None:
    cap = {"app": "pandaserver", "component": "prio_mgr", "key": "CAP_RUNNING_USER_JOBS", "value": "3"}
    rows = [cap | {"type": "integer", "vo": "atlas"}]
    grid = analysis(config=rows, jobsactive4=user_jobs("BETA", 1000, running=4))
    decision = decide_one(database, grid)
    assert (decision["outcome"], decision["reason"]) == ("throttled", "throttled_running_jobs")
    throttle = decision["throttle"]
    assert (throttle["condition"], throttle["figure"], throttle["cap"]) == ("running_jobs", 4, 3)
    assert decision["pending_until"] == "2026-08-01T12:20:00+00:00"
    assert decision["candidates"] == []
    with database.begin() as connection:
        status = connection.execute(sa.text("SELECT status FROM doma_panda.jedi_tasks")).scalar_one()
    assert status == "pending"


def test_a_user_over_quota_is_throttled(database: Database) -> None:
    line = {"account": "alice", "rse_expression": "*", "bytes": 101, "bytes_limit": 100}
    assert decide_one(database, analysis(rucio_account_usage=[line]))["reason"] == "throttled_global_quota"


def test_queues_with_endpoints_without_quota_are_rejected(database: Database) -> None:
    full = {"account": "alice", "rse": "ALPHA_DATADISK", "bytes": 5, "bytes_limit": 4}
    decision = decide_one(database, analysis(rucio_local_usage=[full]))
    assert decision["rejected"]["ALPHA_MCORE"] == "local_quota"
    assert set(weights_of(decision)) == ALL - {"ALPHA_MCORE"}


@pytest.mark.parametrize(
    ("failed", "successes", "rejected"), [(4, 0, False), (5, 0, True), (5, 2, True), (5, 3, False), (6, 3, True)]
)
def test_queues_at_which_the_task_fails(database: Database, failed: int, successes: int, rejected: bool) -> None:
    grid = analysis(
        jobsarchived4=ended_jobs("ALPHA_MCORE", 1000, "failed", failed - 1, piloterrorcode=1150)
        + ended_jobs("ALPHA_MCORE", 2000, "closed", 1, jobsubstatus="toreassign", relocationflag=1)
        + ended_jobs("ALPHA_MCORE", 3000, "finished", successes)
        # neither counts: no pilot error code, and no relocation flag
        + ended_jobs("ALPHA_MCORE", 4000, "failed", 9, piloterrorcode=0)
        + ended_jobs("ALPHA_MCORE", 5000, "closed", 9, jobsubstatus="toreassign")
    )
    decision = decide_one(database, grid)
    assert (decision["rejected"].get("ALPHA_MCORE") == "bad_jobs") is rejected


@pytest.mark.parametrize(("queued", "rejected"), [(100, False), (101, True)])
def test_queue_cap_of_the_share_and_type(database: Database, queued: int, rejected: bool) -> None:
    """With 50 running jobs 100 may wait. Jobs of another share or type do not count."""
    grid = analysis(
        jobsactive4=user_jobs("ALPHA_MCORE", 1000, "bob", running=50, activated=queued)
        + user_jobs("ALPHA_MCORE", 3000, "bob", share="Other", activated=500)
        + [row | {"resource_type": "MCORE"} for row in user_jobs("ALPHA_MCORE", 4000, "bob", activated=500)]
    )
    decision = decide_one(database, grid)
    assert (decision["rejected"].get("ALPHA_MCORE") == "queue_cap") is rejected


@pytest.mark.parametrize(("alice_count", "rejected"), [(60, False), (61, True)])
def test_one_user_cannot_fill_a_queue(database: Database, alice_count: int, rejected: bool) -> None:
    """60 jobs of others run, 115 are queued: nQ_max = 120, half of it for each of two users. Defined jobs count too."""
    grid = analysis(
        jobsactive4=user_jobs("ALPHA_MCORE", 1000, "bob", running=60, activated=115 - alice_count)
        + user_jobs("ALPHA_MCORE", 3000, activated=alice_count - 10),
        jobsdefined4=user_jobs("ALPHA_MCORE", 4000, defined=10),
    )
    decision = decide_one(database, grid)
    assert (decision["rejected"].get("ALPHA_MCORE") == "user_queue_length") is rejected
    (answer,) = answers_about(database, TASK, "ALPHA_MCORE")
    if rejected:
        assert answer.observation is not None
        assert (answer.observation.value, answer.observation.limit) == (61, 60)
        assert answer.observation.inputs["nQ_max"] == 120


def test_the_new_weight_by_class_and_room(database: Database) -> None:
    """A task of class C has 4 jobs; ALPHA is lo, the others mid; the user may have 100 queued at each of four queues.

    W_q = (100 - 4 / 4) / (400 - 4) = 0.25; ALPHA: 4 x 0.25, the others: 0.05 x 0.25.
    """
    switch = {
        "app": "jedi",
        "component": "anal_jobbroker",
        "key": "NEW_BASIC_WEIGHT",
        "value": "true",
        "type": "boolean",
    }
    site = {"metric": "analy_site_eval", "computingsite": "ALPHA_MCORE", "gshare": "NULL", "value_json": {"class": -1}}
    task_class = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": -1}', "timestamp": FRESH}
    grid = analysis(
        config=[switch | {"vo": "atlas"}], metrics=[site | {"timestamp": FRESH}], task_evaluation=[task_class]
    )
    least = 2.0**-20
    weights = dict.fromkeys(ALL - {"ALPHA_MCORE"}, 0.05 * 0.25 + least) | {"ALPHA_MCORE": 1.0 + least}
    assert weights_of(decide_one(database, grid)) == pytest.approx(weights, rel=1e-12)


ODD_NAMES = ["Zoë O'Neill", "a/CN=b,c:d", 'x"y\\z', "%_*;--", " ", "\t", "名前", "a" * 60]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_users(database: Database, name: str) -> None:
    cap = {"app": "pandaserver", "component": "prio_mgr", "key": "CAP_RUNNING_USER_JOBS", "value": "3"}
    grid = analysis(
        jedi_tasks=[user_task(username=name)],
        config=[cap | {"type": "integer", "vo": "atlas"}],
        jobsactive4=user_jobs("BETA", 1000, name, running=4),
    )
    assert decide_one(database, grid)["reason"] == "throttled_running_jobs"


def test_bad_and_old_metrics_are_ignored(database: Database) -> None:
    def metric(name: str, value: Any, timestamp: str = FRESH, **keys: str) -> dict[str, Any]:
        return {
            "metric": name,
            "value_json": value,
            "timestamp": timestamp,
            "computingsite": "NULL",
            "gshare": "NULL",
            **keys,
        }

    rows = [
        metric("gshare_preference", {"usage_perc": 5}, "2026-08-01T11:44:59", gshare=SHARE),
        metric("gshare_preference", {"usage_perc": "much"}, gshare=SHARE),
        metric("gshare_preference", {"usage_perc": -1}, gshare=SHARE),
        metric("gshare_preference", [1], gshare=SHARE),
        metric("analy_user_eval", {"alice": None, "bob": {"rem_slots_A": None}}),
        metric("analy_site_eval", {"class": "hi"}, computingsite="BETA"),
    ]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": NaN}', "timestamp": FRESH}
    decision = decide_one(database, analysis(metrics=rows, task_evaluation=[evaluation]))
    assert (decision["outcome"], set(weights_of(decision))) == ("brokered", ALL)


@pytest.mark.parametrize(("evaluated", "reason"), [(FRESH, "throttled_share_usage"), ("2026-08-01T11:44:59", "")])
def test_a_share_over_its_target_throttles_class_c(database: Database, evaluated: str, reason: str) -> None:
    """An evaluation older than 15 minutes is ignored."""
    share = {"metric": "gshare_preference", "gshare": SHARE, "value_json": {"usage_perc": 0.91}, "timestamp": FRESH}
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": -1}'}
    grid = analysis(metrics=[share], task_evaluation=[evaluation | {"timestamp": evaluated}])
    assert decide_one(database, grid)["reason"] == reason


def test_jobs_without_cores_and_quotas_without_limits(database: Database) -> None:
    lines = [
        {"account": "alice", "rse_expression": str(limit), "bytes": 10**18, "bytes_limit": limit}
        for limit in (0, -1, None)
    ]
    rows = [row | {"corecount": None, "resource_type": None} for row in user_jobs("BETA", 1000, running=2, throttled=3)]
    decision = decide_one(database, analysis(jobsactive4=rows, rucio_account_usage=lines))
    assert decision["outcome"] == "brokered"


def test_without_user_tasks_nothing_is_decided(database: Database) -> None:
    record, decisions = one_cycle(database, analysis(jedi_tasks=[task()]), agent="analysis_job")
    assert (record.outcome, decisions) == ("done", [])


def test_a_task_without_real_input_goes_anywhere(database: Database) -> None:
    grid = analysis(
        jedi_datasets=[dataset(4, type="pseudo_input", datasetname="pseudo_dataset")],
        jedi_dataset_contents=input_files(4, 0, type="pseudo_input"),
        dataset_replicas=[],
    )
    assert weights_of(decide_one(database, grid)) == dict.fromkeys(ALL, 1.0)


def test_a_dataset_without_any_replica_waits(database: Database) -> None:
    decision = decide_one(database, analysis(sites=()))
    assert (decision["outcome"], decision["reason"]) == ("pending", "no_complete_replica")


@pytest.mark.parametrize(("splitrule", "expected"), [("NF=1", ALL), ("NF=1,AV=1", ALL - {"GAMMA_MCORE", "GAMMA_TEST"})])
def test_virtual_placement_is_left_to_tasks_that_take_it(
    database: Database, splitrule: str, expected: set[str]
) -> None:
    """GAMMA also reads from an endpoint for virtual placement."""
    grid = analysis(jedi_tasks=[user_task(splitrule=splitrule)])
    endpoint = dict(grid.tables["ddm_endpoint"][0]) | {"ddm_endpoint_name": "GAMMA_VP_DISK", "site_name": "GAMMA"}
    grid.tables["ddm_endpoint"].append(endpoint)
    for name in ("GAMMA_MCORE", "GAMMA_TEST"):
        relation = {"panda_site_name": name, "ddm_endpoint_name": "GAMMA_VP_DISK", "is_local": "Y", "scope": "default"}
        grid.tables["panda_ddm_relation"].append(
            relation | {"roles": "read_lan", "order_read": 2, "default_read": "N", "default_write": "N"}
        )
    decision = decide_one(database, grid)
    assert set(weights_of(decision)) == expected
    assert {decision["rejected"][name] for name in ALL - expected} <= {"avoid_vp"}


@pytest.mark.parametrize(
    ("free", "expired", "reserved", "rejected"), [(200, 0, 0, True), (200, 1, 0, False), (400, 0, 200, True)]
)
def test_usable_space(database: Database, free: int, expired: int, reserved: int, rejected: bool) -> None:
    grid = analysis()
    grid.tables["ddm_endpoint"][0] |= {"space_free": free, "space_expired": expired, "space_min_free": reserved}
    assert (decide_one(database, grid)["rejected"].get("ALPHA_MCORE") == "disk") is rejected
