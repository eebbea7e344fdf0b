"""Both sides of the boundaries of analysis, many tasks per cycle: storages, scratch, virtual placement, quotas."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.domain.work import WayToRun
from broker.formats.model.feature_summary import QueueSummary
from broker.formats.statements import feature_rows
from broker.store.connection.database import Database
from broker.store.reads import task_alternatives
from broker.store.scenarios.load_dump import load
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.brokerages.analysis_grid import (
    ALL,
    analysis,
    analysis_tasks,
    config_row,
    decide_all,
    decide_one,
    user_jobs,
    weights_of,
)
from tests.brokerages.small_grid import FRESH, NOW, TASK, dataset, input_files, next_cycle

pytestmark = pytest.mark.usefixtures("blocks")

MB = 1024**2
ALPHA = "ALPHA_MCORE"


def codes(decisions: list[dict[str, Any]], queue: str = ALPHA) -> list[str | None]:
    return [decision["rejected"].get(queue) for decision in decisions]


def with_vp(grid: Any) -> Any:
    """Let ALPHA_MCORE also read from an endpoint for virtual placement."""
    endpoint = dict(grid.tables["ddm_endpoint"][0]) | {"ddm_endpoint_name": "ALPHA_VP_DISK"}
    grid.tables["ddm_endpoint"].append(endpoint)
    relation = {"panda_site_name": ALPHA, "ddm_endpoint_name": "ALPHA_VP_DISK", "is_local": "Y", "scope": "default"}
    grid.tables["panda_ddm_relation"].append(
        relation | {"roles": "read_lan", "order_read": 2, "default_read": "N", "default_write": "N"}
    )
    return grid


#: Jobs of a share at ALPHA_MCORE and at GAMMA_MCORE, and whether ALPHA_MCORE is overloaded.
OVERLOADS: list[tuple[dict[str, int], dict[str, int], bool]] = [
    # up to OVERLOAD_MIN_QUEUE jobs are no overload, however many run
    ({"activated": 20}, {"running": 1000}, False),
    ({"activated": 21}, {"running": 1000}, True),
    # the limit is 1.2 x the ratio of the share, 120 queued to 100 running in total; 36 to 25 is exactly the limit
    ({"activated": 36, "running": 25}, {"activated": 84, "running": 75}, False),
    ({"activated": 37, "running": 25}, {"activated": 83, "running": 75}, True),
    # the share has no running jobs
    ({"activated": 21}, {}, True),
]


def test_overload_of_queues_with_virtual_placement(database: Database) -> None:
    """Only queues with virtual placement are checked; each case has its own share."""
    jobs: list[dict[str, Any]] = []
    for number, (alpha_counts, gamma_counts, _) in enumerate(OVERLOADS):
        for queue_name, counts in ((ALPHA, alpha_counts), ("GAMMA_MCORE", gamma_counts)):
            jobs += user_jobs(queue_name, 1000 + len(jobs), "bob", f"share {number}", **counts)
    tasks = [{"gshare": f"share {number}"} for number in range(len(OVERLOADS))]
    decisions = decide_all(database, with_vp(analysis_tasks(*tasks, jobsactive4=jobs)), independent=True)
    assert [code == "avoid_vp" for code in codes(decisions)] == [overloaded for _, _, overloaded in OVERLOADS]
    assert "avoid_vp" not in codes(decisions, "GAMMA_MCORE")


def test_scratch_disk(database: Database) -> None:
    """A single-core job on 8 cores gets an eighth of maxwdir, 3,000 MB. Its file has 2,048 MB, the margin is 300 MB.

    Its need must be strictly smaller: 2,048 + 300 + 651 = 2,999 MB. A directly read file takes no space.
    """
    cases = [
        ({"workdiskcount": 651, "workdiskunit": "MB"}, None),
        ({"workdiskcount": 652, "workdiskunit": "MB"}, "disk"),
        # read directly: 2,700 MB of work space and the margin are just too much
        ({"workdiskcount": 2700, "workdiskunit": "MB", "splitrule": "NF=1,IL=1"}, "disk"),
        ({"workdiskcount": 2699, "workdiskunit": "MB", "splitrule": "NF=1,IL=1"}, None),
        # output per MB of input
        ({"outdiskcount": 1024 * 651 // 2048, "outdiskunit": "kB"}, None),
        ({"outdiskcount": 1024 * 652 // 2048, "outdiskunit": "kB"}, "disk"),
        # no margin without work space: 2,048 MB, and 475 or 476 kB per MB
        ({"outdiskcount": 475, "outdiskunit": "kB", "workdiskcount": None}, None),
        ({"outdiskcount": 476, "outdiskunit": "kB", "workdiskcount": None}, "disk"),
        # a job of NG=3 takes 3 GB; negative output counts as none
        ({"splitrule": "NG=3"}, "disk"),
        ({"splitrule": "NG=2", "outdiskcount": -5, "outdiskunit": "GB"}, None),
    ]
    grid = analysis_tasks(*({"workdiskcount": 0} | columns for columns, _ in cases))
    data = grid.tables["schedconfig_json"][0]["data"]
    data |= {"maxwdir": 24_000, "corecount": 8, "direct_access_lan": True}
    # jobs of flexible core count, so that an 8-core queue accepts single-core jobs
    for row in grid.tables["jedi_tasks"]:
        row["corecount"] = 0
    assert codes(decide_all(database, grid, independent=True)) == [code for _, code in cases]


def test_scratch_disk_without_a_limit_and_of_the_whole_slot(database: Database) -> None:
    grid = analysis_tasks(
        {"workdiskcount": 10**6, "workdiskunit": "GB"}, {"corecount": 8, "workdiskcount": 12_000 - 2348}
    )
    for row in grid.tables["jedi_tasks"]:
        row["workdiskunit"] = row.get("workdiskunit") or "MB"
    grid.tables["schedconfig_json"][2]["data"] |= {"maxwdir": 12_000, "corecount": 8}
    decisions = decide_all(database, grid, independent=True)
    # ALPHA has no maxwdir; GAMMA_MCORE gives an 8-core job its whole scratch disk, which is just too small
    assert (codes(decisions)[0], codes(decisions, "GAMMA_MCORE")) == (None, ["cpucore", "disk"])


def test_status_of_storages(database: Database) -> None:
    """Only OFF and TEST close an endpoint for users; AUTO and an unpublished status do not."""
    states = [{"read_lan": "OFF"}, {"write_lan": "TEST"}, {"read_lan": "AUTO", "write_lan": "AUTO"}]
    grid = analysis_tasks({})
    for endpoint, state in zip(grid.tables["ddm_endpoint"], states, strict=True):
        endpoint["detailed_status"] = state
    (decision,) = decide_all(database, grid)
    assert {name: decision["rejected"].get(name) for name in (ALPHA, "BETA/SCORE", "GAMMA_MCORE")} == {
        ALPHA: "blacklist", "BETA/SCORE": "blacklist", "GAMMA_MCORE": None,
    }  # fmt: skip


def only_local(available: int, tape: bool, splitrule: str = "NF=1") -> Any:
    """Make a grid in which ALPHA reads only local data and has ``available`` of the 4 files; BETA has all."""
    grid = analysis_tasks({"taskpriority": 2000, "splitrule": splitrule}, sites=("BETA",))
    grid.tables["schedconfig_json"][0]["data"]["catchall"] = "use_only_local_data"
    replica = dict(grid.tables["dataset_replicas"][0]) | {"rse": "ALPHA_DATADISK", "is_tape": tape}
    grid.tables["dataset_replicas"].append(replica | {"available_files": available, "state": "UNAVAILABLE"})
    return grid


@pytest.mark.parametrize(
    ("available", "tape", "code"),
    [(4, False, None), (3, False, "fileunavailable"), (4, True, None), (0, True, "fileunavailable")],
)
def test_queues_that_read_only_local_data(database: Database, available: int, tape: bool, code: str | None) -> None:
    """GAMMA has no input either, but may read remotely."""
    (decision,) = decide_all(database, only_local(available, tape))
    assert (decision["rejected"].get(ALPHA), "GAMMA_MCORE" in weights_of(decision)) == (code, True)


def test_input_on_two_disks_of_a_queue_counts_twice(database: Database) -> None:
    """8 GiB at each of ALPHA_DATADISK and ALPHA_OTHER: 1 + 16 / 10; a replica with unknown files counts as empty."""
    grid = analysis_tasks({"taskpriority": 2000}, sites=("ALPHA",))
    tables = grid.tables
    tables["ddm_endpoint"].append(dict(tables["ddm_endpoint"][0]) | {"ddm_endpoint_name": "ALPHA_OTHER"})
    row = next(row for row in tables["panda_ddm_relation"] if row["panda_site_name"] == ALPHA)
    tables["panda_ddm_relation"].append(
        row | {"ddm_endpoint_name": "ALPHA_OTHER", "default_read": "N", "default_write": "N", "order_read": 2}
    )
    tables["dataset_replicas"].append(dict(tables["dataset_replicas"][0]) | {"rse": "ALPHA_OTHER"})
    tables["dataset_replicas"].append(
        dict(tables["dataset_replicas"][0]) | {"rse": "BETA_DATADISK", "available_files": None, "state": "UNAVAILABLE"}
    )
    (decision,) = decide_all(database, grid)
    assert weights_of(decision) == pytest.approx(
        {ALPHA: 2.6, "BETA/SCORE": 1.0, "GAMMA_MCORE": 1.0, "GAMMA_TEST": 1.0}, rel=1e-12
    )


def test_completeness_uses_the_keys_of_analysis(database: Database) -> None:
    """3 of 4 files are enough by default (up to 10 may be missing); the keys of production do not apply."""

    def grid(*rows: dict[str, Any]) -> Any:
        input_grid = analysis(sites=("ALPHA",), config=list(rows))
        input_grid.tables["dataset_replicas"][0] |= {"available_files": 3, "state": "UNAVAILABLE"}
        return input_grid

    strict = [config_row("MAX_MISSING_INPUT_FILES", 0), config_row("MIN_INPUT_COMPLETENESS", 100)]
    assert decide_one(database, grid(*strict))["reason"] == "no_complete_replica"
    production_rows = [row | {"component": "jobbroker"} for row in strict]
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.config"))
        for row in production_rows:
            connection.execute(
                sa.text(
                    "INSERT INTO doma_panda.config (app, component, key, value, type, vo, descr) "
                    "VALUES (:app, :component, :key, :value, :type, :vo, '')"
                ),
                row,
            )
        connection.execute(sa.text("UPDATE doma_panda.jedi_tasks SET status = 'running', oldstatus = NULL"))
    _, (decision,) = next_cycle(database, agent="analysis_job")
    assert set(weights_of(decision)) == {ALPHA}


QUOTA_TABLES = "broker.rucio_account_usage, broker.rucio_local_usage"


def cycle(database: Database, policy: str) -> tuple[list[str], dict[str, Any]]:
    """Run one cycle with this policy for unknown quotas; return its notes and the decision on the only task."""
    decisions: list[dict[str, Any]] = []
    with database.begin() as connection:
        lease = leases.acquire(connection, "analysis_job", "test", LeaseTerms()).lease
    assert lease is not None
    agent = registry.make("analysis_job", {"quota_unknown": policy}, ProcessSettings())
    request = CycleRequest(emit=decisions.append, dry_run=True)
    run_id = open_run(database, "analysis_job", lease)
    record = run_cycle(agent, CycleContext(database, NOW, 1, 600.0, request=request, lease=lease, run_id=run_id))
    with database.begin() as connection:
        leases.release(connection, lease)
    assert record.outcome == "done", record.error
    return list(record.notes), decisions[0]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("INSERT INTO broker.summary_refreshes VALUES ('rucio_usage', '2026-07-31T11:59:59Z')", "quota is stale"),
        ("ALTER TABLE broker.rucio_local_usage RENAME COLUMN bytes TO octets", "quota is failed"),
    ],
)
def test_stale_or_unreadable_quotas(database: Database, change: str, note: str) -> None:
    full = {"account": "alice", "rse": "ALPHA_DATADISK", "bytes": 5, "bytes_limit": 4}
    load(database, analysis(rucio_local_usage=[full]))
    assert weights_of(cycle(database, "closed")[1]) == dict.fromkeys(ALL - {ALPHA}, 1.0)
    with database.begin() as connection:
        connection.execute(sa.text(change))
    notes, decision = cycle(database, "closed")
    assert [line for line in notes if note in line]
    assert (decision["outcome"], decision["reason"]) == ("throttled", "throttled_quota_unknown")
    _, decision = cycle(database, "open")
    assert (decision["outcome"], set(weights_of(decision))) == ("brokered", ALL)


@pytest.mark.parametrize("minutes", [1440, 1441])
def test_quotas_are_valid_for_a_day(database: Database, minutes: int) -> None:
    load(database, analysis())
    with database.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO broker.summary_refreshes VALUES ('rucio_usage', :at)"),
            {"at": NOW - timedelta(minutes=minutes)},
        )
    assert cycle(database, "closed")[1]["outcome"] == ("brokered" if minutes == 1440 else "throttled")


def test_a_throttle_by_quota_freezes_the_task_but_one_by_cap_does_not(database: Database) -> None:
    grid = analysis_tasks(
        {"username": "alice"},
        {"username": "bob"},
        config=[config_row("CAP_RUNNING_USER_JOBS", 1, component="prio_mgr")],
        jobsactive4=user_jobs("BETA", 1000, running=2),
        rucio_account_usage=[{"account": "bob", "rse_expression": "*", "bytes": 2, "bytes_limit": 1}],
    )
    reasons = [decision["reason"] for decision in decide_all(database, grid)]
    assert reasons == ["throttled_running_jobs", "throttled_global_quota"]
    with database.begin() as connection:
        query = "SELECT status, frozentime IS NULL FROM doma_panda.jedi_tasks ORDER BY jeditaskid"
        assert connection.execute(sa.text(query)).all() == [("pending", True), ("pending", False)]


def test_group_jobs_count_for_the_user_only_while_not_active(database: Database) -> None:
    """PanDA reads the group of a job only in the active table, so 3 defined group jobs of alice count for her."""
    grouped = [row | {"workinggroup": "phys-x"} for row in user_jobs("BETA", 1000, activated=9)]
    defined = [row | {"workinggroup": "phys-x"} for row in user_jobs("BETA", 2000, defined=3)]
    grid = analysis_tasks(
        {},
        {"workinggroup": "phys-x"},
        {"username": "bob"},
        config=[
            config_row("CAP_RUNNING_USER_JOBS", 1, component="prio_mgr"),
            config_row("CAP_RUNNING_GROUP_JOBS", 5, component="prio_mgr"),
        ],
        # jobs throttled by a watchdog also wait
        jobsactive4=grouped + user_jobs("BETA", 3000, "bob", activated=1, throttled=2),
        jobsdefined4=defined,
    )
    decisions = decide_all(database, grid, independent=True)
    assert [decision["outcome"] for decision in decisions] == ["throttled", "throttled", "throttled"]
    assert [decision["throttle"]["figure"] for decision in decisions] == [3, 12, 3]


def test_labels_and_merge_jobs_in_the_figures_of_the_stabilizer(database: Database) -> None:
    """The 61 build jobs and 61 merge jobs of alice do not count for her, so nothing is rejected."""
    build = [row | {"prodsourcelabel": "panda"} for row in user_jobs(ALPHA, 1000, activated=61)]
    merge = [row | {"processingtype": "pmerge"} for row in user_jobs(ALPHA, 2000, activated=61)]
    bob = user_jobs(ALPHA, 3000, "bob", running=60)
    alice = user_jobs(ALPHA, 4000, activated=61)
    keys = [config_row("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", 1)]
    grid = analysis_tasks({"resource_type": "OTHER"}, config=keys, jobsactive4=build + merge + bob)
    assert codes(decide_all(database, grid, independent=True)) == [None]
    load(
        database,
        analysis_tasks({"resource_type": "OTHER"}, config=keys, jobsactive4=[*bob, *alice, *build]),
        replace=True,
    )
    _, decisions = next_cycle(database, agent="analysis_job", independent=True)
    assert codes(decisions) == ["user_queue_length"]


def test_running_jobs_without_a_user_count(database: Database) -> None:
    """75 running jobs without a user give an nQ_max of 150; of two users, alice may have 75 queued, not 76."""
    anonymous = [row | {"produsername": None} for row in user_jobs(ALPHA, 1000, running=75)]
    queued = user_jobs(ALPHA, 2000, activated=75) + user_jobs(ALPHA, 3000, "bob", activated=25)
    load(database, analysis_tasks({"resource_type": "OTHER"}, jobsactive4=anonymous + queued))
    assert codes(next_cycle(database, agent="analysis_job", independent=True)[1]) == [None]
    extra = user_jobs(ALPHA, 4000, activated=1)
    load(database, analysis_tasks({"resource_type": "OTHER"}, jobsactive4=anonymous + queued + extra), replace=True)
    assert codes(next_cycle(database, agent="analysis_job", independent=True)[1]) == ["user_queue_length"]


def test_class_metrics_are_valid_for_their_lifetime(database: Database) -> None:
    """Queue classes are valid for 60 minutes, task classes for 15: lo and C weigh 4 x W_q, mid and A 0.05."""
    site = {"metric": "analy_site_eval", "gshare": "NULL", "value_json": {"class": -1}}
    sites = [
        site | {"computingsite": ALPHA, "timestamp": "2026-08-01T11:00:00"},
        site | {"computingsite": "GAMMA_MCORE", "timestamp": "2026-08-01T10:59:59"},
    ]
    task = {"metric": "analy_task_eval", "value_json": '{"class": -1}'}
    grid = analysis_tasks(
        {"taskparams": {"includedSite": f"{ALPHA},GAMMA_MCORE"}},
        {"taskparams": {"includedSite": f"{ALPHA},GAMMA_MCORE"}},
        config=[config_row("NEW_BASIC_WEIGHT", "true", "boolean")],
        metrics=sites,
        task_evaluation=[
            task | {"jeditaskid": TASK, "timestamp": "2026-08-01T11:45:00"},
            task | {"jeditaskid": TASK + 1, "timestamp": "2026-08-01T11:44:59"},
        ],
    )
    tiny, half = 2.0**-20, 98 / 196
    fresh, old = decide_all(database, grid, independent=True)
    assert weights_of(fresh) == pytest.approx({ALPHA: 4 * half + tiny, "GAMMA_MCORE": 0.05 * half + tiny}, rel=1e-12)
    assert weights_of(old) == pytest.approx({ALPHA: 0.002 * half + tiny, "GAMMA_MCORE": 0.05 * half + tiny}, rel=1e-12)


def test_nan_in_json_counts_as_unknown(database: Database) -> None:
    metric = {"computingsite": "NULL", "timestamp": FRESH}
    rows = [
        metric | {"metric": "gshare_preference", "gshare": "User Analysis", "value_json": {"usage_perc": None}},
        metric | {"metric": "analy_user_eval", "gshare": "NULL", "value_json": {"alice": {"rem_slots_A": "NaN"}}},
        metric
        | {"metric": "analy_site_eval", "gshare": "NULL", "computingsite": ALPHA, "value_json": {"class": "NaN"}},
    ]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": NaN}', "timestamp": FRESH}
    assert set(weights_of(decide_one(database, analysis(metrics=rows, task_evaluation=[evaluation])))) == ALL


def test_pilot_reports_tighten_limits_and_drain_queues_for_users_too(database: Database) -> None:
    """A job of 100 events takes 100 x 100 HS06 s / 10 = 1,000 s on one core."""
    load(database, analysis(config=[config_row("FEATURES_MAXTIME", "true", "boolean", "jobbroker")]))
    empty = dict.fromkeys(("corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb", "shutdown_s"))
    summaries = [
        QueueSummary(queue=ALPHA, pilots=30, draining_pilots=0, **(empty | {"maxtime_s": 999.0})),
        QueueSummary(
            queue="GAMMA_MCORE", pilots=30, draining_pilots=30, **(empty | {"shutdown_s": NOW.timestamp() + 999})
        ),
        QueueSummary(
            queue="GAMMA_TEST", pilots=30, draining_pilots=30, **(empty | {"shutdown_s": NOW.timestamp() + 1000})
        ),
    ]
    with database.begin() as connection:
        feature_rows.replace_summaries(connection, summaries, NOW)
    _, (decision,) = next_cycle(database, agent="analysis_job")
    assert set(weights_of(decision)) == {"BETA/SCORE", "GAMMA_TEST"}
    assert (decision["rejected"][ALPHA], decision["rejected"]["GAMMA_MCORE"]) == ("shortwalltime", "draining")


def test_the_first_possible_alternative_of_a_user_task_is_used(database: Database) -> None:
    grid = analysis()
    grid.tables["jedi_datasets"] = [dataset(4)]
    grid.tables["jedi_dataset_contents"] = input_files(4, 2 * 1024**3)
    load(database, grid)
    with database.begin() as connection:
        task_alternatives.add(connection, TASK, [WayToRun(16, 16), WayToRun(8, 8), WayToRun(1, 1)])
    _, (decision,) = next_cycle(database, agent="analysis_job")
    assert set(weights_of(decision)) == {"BETA/MCORE"}


@pytest.mark.soak
def test_a_user_with_a_million_jobs(database: Database) -> None:
    load(
        database,
        analysis_tasks(
            {}, {"username": "bob"}, config=[config_row("CAP_RUNNING_USER_JOBS", 10**6, component="prio_mgr")]
        ),
    )
    with database.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO doma_panda.jobsactive4 (pandaid, jobdefinitionid, jobstatus, computingsite, gshare, vo, "
                "prodsourcelabel, produsername, corecount, resource_type) "
                "SELECT n, 1, 'running', 'BETA', 'User Analysis', 'atlas', 'user', 'alice', 1, 'SCORE' "
                "FROM generate_series(1, 1000001) AS n"
            )
        )
    _, (alice, bob) = next_cycle(database, agent="analysis_job")
    assert (alice["throttle"]["figure"], bob["outcome"]) == (1_000_001, "brokered")
