"""Both sides of the boundaries of analysis, many tasks to a cycle: storages, scratch, virtual placement, quotas."""

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
from tests.brokerages.analysis_grid import ALL, analysis, chosen, config_row, decided, decisions, several, user_jobs
from tests.brokerages.small_grid import FRESH, NOW, TASK, dataset, input_files, next_cycle

pytestmark = pytest.mark.usefixtures("blocks")

MB = 1024**2
ALPHA = "ALPHA_MCORE"


def codes(told: list[dict[str, Any]], queue: str = ALPHA) -> list[str | None]:
    return [one["rejected"].get(queue) for one in told]


def with_vp(loaded: Any) -> Any:
    """ALPHA_MCORE reads from an endpoint of virtual placement as well."""
    endpoint = dict(loaded.tables["ddm_endpoint"][0]) | {"ddm_endpoint_name": "ALPHA_VP_DISK"}
    loaded.tables["ddm_endpoint"].append(endpoint)
    relation = {"panda_site_name": ALPHA, "ddm_endpoint_name": "ALPHA_VP_DISK", "is_local": "Y", "scope": "default"}
    loaded.tables["panda_ddm_relation"].append(
        relation | {"roles": "read_lan", "order_read": 2, "default_read": "N", "default_write": "N"}
    )
    return loaded


#: Jobs of a share at ALPHA_MCORE and elsewhere, and whether ALPHA_MCORE is overloaded.
OVERLOADS: list[tuple[dict[str, int], dict[str, int], bool]] = [
    # as many as OVERLOAD_MIN_QUEUE are no overload, whatever runs
    ({"activated": 20}, {"running": 1000}, False),
    ({"activated": 21}, {"running": 1000}, True),
    # 1.2 x the ratio of the share: 120 queued and 100 running in all; 36 for 25 are just that
    ({"activated": 36, "running": 25}, {"activated": 84, "running": 75}, False),
    ({"activated": 37, "running": 25}, {"activated": 83, "running": 75}, True),
    # nothing runs anywhere
    ({"activated": 21}, {}, True),
]


def test_overload_of_queues_with_virtual_placement(database: Database) -> None:
    """Only of those; a share for each case."""
    jobs: list[dict[str, Any]] = []
    for number, (here, elsewhere, _) in enumerate(OVERLOADS):
        for place, counts in ((ALPHA, here), ("GAMMA_MCORE", elsewhere)):
            jobs += user_jobs(place, 1000 + len(jobs), "bob", f"share {number}", **counts)
    tasks = [{"gshare": f"share {number}"} for number in range(len(OVERLOADS))]
    told = decisions(database, with_vp(several(*tasks, jobsactive4=jobs)), independent=True)
    assert [code == "avoid_vp" for code in codes(told)] == [overloaded for _, _, overloaded in OVERLOADS]
    assert "avoid_vp" not in codes(told, "GAMMA_MCORE")


def test_scratch_disk(database: Database) -> None:
    """One core of 8 gets an eighth of maxwdir: 3,000 MB. A job has one file of 2,048 MB and 300 MB of margin.

    Strictly smaller is what fits: 2,048 + 300 + 651 = 2,999 MB. Read directly, the file takes no space.
    """
    cases = [
        ({"workdiskcount": 651, "workdiskunit": "MB"}, None),
        ({"workdiskcount": 652, "workdiskunit": "MB"}, "disk"),
        # 8 cores: the whole slot; then the kind of queue is what does not fit
        ({"workdiskcount": 2700, "workdiskunit": "MB", "splitrule": "NF=1,IL=1"}, "disk"),
        ({"workdiskcount": 2699, "workdiskunit": "MB", "splitrule": "NF=1,IL=1"}, None),
        # output for each MB of input
        ({"outdiskcount": 1024 * 651 // 2048, "outdiskunit": "kB"}, None),
        ({"outdiskcount": 1024 * 652 // 2048, "outdiskunit": "kB"}, "disk"),
        # without work space there is no margin: 2,048 MB and 475 or 476 kB for each of them
        ({"outdiskcount": 475, "outdiskunit": "kB", "workdiskcount": None}, None),
        ({"outdiskcount": 476, "outdiskunit": "kB", "workdiskcount": None}, "disk"),
        # a job of so many GB takes them; nothing and negative output is none
        ({"splitrule": "NG=3"}, "disk"),
        ({"splitrule": "NG=2", "outdiskcount": -5, "outdiskunit": "GB"}, None),
    ]
    loaded = several(*({"workdiskcount": 0} | columns for columns, _ in cases))
    data = loaded.tables["schedconfig_json"][0]["data"]
    data |= {"maxwdir": 24_000, "corecount": 8, "direct_access_lan": True}
    # a queue of 8 cores that takes jobs of one, so that there is something to share
    for row in loaded.tables["jedi_tasks"]:
        row["corecount"] = 0
    assert codes(decisions(database, loaded, independent=True)) == [code for _, code in cases]


def test_scratch_disk_without_a_limit_and_of_the_whole_slot(database: Database) -> None:
    loaded = several({"workdiskcount": 10**6, "workdiskunit": "GB"}, {"corecount": 8, "workdiskcount": 12_000 - 2348})
    for row in loaded.tables["jedi_tasks"]:
        row["workdiskunit"] = row.get("workdiskunit") or "MB"
    loaded.tables["schedconfig_json"][2]["data"] |= {"maxwdir": 12_000, "corecount": 8}
    told = decisions(database, loaded, independent=True)
    # ALPHA has no maxwdir; GAMMA_MCORE has 8 cores and gives a job of 8 all of it, which is just too little
    assert (codes(told)[0], codes(told, "GAMMA_MCORE")) == (None, ["cpucore", "disk"])


def test_status_of_storages(database: Database) -> None:
    """Only OFF and TEST close an endpoint for users; what is not published, and AUTO, does not."""
    states = [{"read_lan": "OFF"}, {"write_lan": "TEST"}, {"read_lan": "AUTO", "write_lan": "AUTO"}]
    loaded = several({})
    for endpoint, state in zip(loaded.tables["ddm_endpoint"], states, strict=True):
        endpoint["detailed_status"] = state
    (told,) = decisions(database, loaded)
    assert {name: told["rejected"].get(name) for name in (ALPHA, "BETA/SCORE", "GAMMA_MCORE")} == {
        ALPHA: "blacklist", "BETA/SCORE": "blacklist", "GAMMA_MCORE": None,
    }  # fmt: skip


def only_local(found: int, tape: bool, splitrule: str = "NF=1") -> Any:
    """ALPHA reads only local data and has ``found`` of the 4 files; BETA has all."""
    loaded = several({"taskpriority": 2000, "splitrule": splitrule}, here=("BETA",))
    loaded.tables["schedconfig_json"][0]["data"]["catchall"] = "use_only_local_data"
    replica = dict(loaded.tables["dataset_replicas"][0]) | {"rse": "ALPHA_DATADISK", "is_tape": tape}
    loaded.tables["dataset_replicas"].append(replica | {"available_files": found, "state": "UNAVAILABLE"})
    return loaded


@pytest.mark.parametrize(
    ("found", "tape", "code"),
    [(4, False, None), (3, False, "fileunavailable"), (4, True, None), (0, True, "fileunavailable")],
)
def test_queues_that_read_only_local_data(database: Database, found: int, tape: bool, code: str | None) -> None:
    """GAMMA has nothing either, and may read from elsewhere."""
    (told,) = decisions(database, only_local(found, tape))
    assert (told["rejected"].get(ALPHA), "GAMMA_MCORE" in chosen(told)) == (code, True)


def test_what_is_on_two_disks_of_a_queue_counts_twice(database: Database) -> None:
    """8 GiB at ALPHA_DATADISK and at ALPHA_OTHER: 1 + 16 / 10; without a complete figure nothing is there."""
    loaded = several({"taskpriority": 2000}, here=("ALPHA",))
    tables = loaded.tables
    tables["ddm_endpoint"].append(dict(tables["ddm_endpoint"][0]) | {"ddm_endpoint_name": "ALPHA_OTHER"})
    row = next(row for row in tables["panda_ddm_relation"] if row["panda_site_name"] == ALPHA)
    tables["panda_ddm_relation"].append(
        row | {"ddm_endpoint_name": "ALPHA_OTHER", "default_read": "N", "default_write": "N", "order_read": 2}
    )
    tables["dataset_replicas"].append(dict(tables["dataset_replicas"][0]) | {"rse": "ALPHA_OTHER"})
    tables["dataset_replicas"].append(
        dict(tables["dataset_replicas"][0]) | {"rse": "BETA_DATADISK", "available_files": None, "state": "UNAVAILABLE"}
    )
    (told,) = decisions(database, loaded)
    assert chosen(told) == pytest.approx(
        {ALPHA: 2.6, "BETA/SCORE": 1.0, "GAMMA_MCORE": 1.0, "GAMMA_TEST": 1.0}, rel=1e-12
    )


def test_keys_of_completeness_are_those_of_analysis(database: Database) -> None:
    """3 of 4 files: enough with one missing (10 by default); the key of production says nothing here."""

    def loaded(*rows: dict[str, Any]) -> Any:
        found = analysis(here=("ALPHA",), config=list(rows))
        found.tables["dataset_replicas"][0] |= {"available_files": 3, "state": "UNAVAILABLE"}
        return found

    strict = [config_row("MAX_MISSING_INPUT_FILES", 0), config_row("MIN_INPUT_COMPLETENESS", 100)]
    assert decided(database, loaded(*strict))["reason"] == "no_complete_replica"
    of_production = [row | {"component": "jobbroker"} for row in strict]
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM doma_panda.config"))
        for row in of_production:
            connection.execute(
                sa.text(
                    "INSERT INTO doma_panda.config (app, component, key, value, type, vo, descr) "
                    "VALUES (:app, :component, :key, :value, :type, :vo, '')"
                ),
                row,
            )
        connection.execute(sa.text("UPDATE doma_panda.jedi_tasks SET status = 'running', oldstatus = NULL"))
    _, (told,) = next_cycle(database, agent="analysis_job")
    assert set(chosen(told)) == {ALPHA}


QUOTA_TABLES = "broker.rucio_account_usage, broker.rucio_local_usage"


def cycle(database: Database, policy: str) -> tuple[list[str], dict[str, Any]]:
    """One cycle with this policy for quotas that cannot be read: its notes, and the decision on the only task."""
    told: list[dict[str, Any]] = []
    with database.begin() as connection:
        lease = leases.acquire(connection, "analysis_job", "test", LeaseTerms()).lease
    assert lease is not None
    agent = registry.make("analysis_job", {"quota_unknown": policy}, ProcessSettings())
    request = CycleRequest(emit=told.append, dry_run=True)
    run_id = open_run(database, "analysis_job", lease)
    record = run_cycle(agent, CycleContext(database, NOW, 1, 600.0, request=request, lease=lease, run_id=run_id))
    with database.begin() as connection:
        leases.release(connection, lease)
    assert record.outcome == "done", record.error
    return list(record.notes), told[0]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("INSERT INTO broker.summary_refreshes VALUES ('rucio_usage', '2026-07-31T11:59:59Z')", "quota is stale"),
        ("ALTER TABLE broker.rucio_local_usage RENAME COLUMN bytes TO octets", "quota is failed"),
    ],
)
def test_quotas_that_are_old_or_cannot_be_read(database: Database, change: str, note: str) -> None:
    full = {"account": "alice", "rse": "ALPHA_DATADISK", "bytes": 5, "bytes_limit": 4}
    load(database, analysis(rucio_local_usage=[full]))
    assert chosen(cycle(database, "closed")[1]) == dict.fromkeys(ALL - {ALPHA}, 1.0)
    with database.begin() as connection:
        connection.execute(sa.text(change))
    notes, told = cycle(database, "closed")
    assert [one for one in notes if note in one]
    assert (told["outcome"], told["reason"]) == ("throttled", "throttled_quota_unknown")
    _, told = cycle(database, "open")
    assert (told["outcome"], set(chosen(told))) == ("brokered", ALL)


@pytest.mark.parametrize("minutes", [1440, 1441])
def test_quotas_are_believed_for_a_day(database: Database, minutes: int) -> None:
    load(database, analysis())
    with database.begin() as connection:
        connection.execute(
            sa.text("INSERT INTO broker.summary_refreshes VALUES ('rucio_usage', :at)"),
            {"at": NOW - timedelta(minutes=minutes)},
        )
    assert cycle(database, "closed")[1]["outcome"] == ("brokered" if minutes == 1440 else "throttled")


def test_a_throttle_by_cap_does_not_freeze_the_task_but_one_by_quota_does(database: Database) -> None:
    loaded = several(
        {"username": "alice"},
        {"username": "bob"},
        config=[config_row("CAP_RUNNING_USER_JOBS", 1, component="prio_mgr")],
        jobsactive4=user_jobs("BETA", 1000, running=2),
        rucio_account_usage=[{"account": "bob", "rse_expression": "*", "bytes": 2, "bytes_limit": 1}],
    )
    reasons = [one["reason"] for one in decisions(database, loaded)]
    assert reasons == ["throttled_running_jobs", "throttled_global_quota"]
    with database.begin() as connection:
        query = "SELECT status, frozentime IS NULL FROM doma_panda.jedi_tasks ORDER BY jeditaskid"
        assert connection.execute(sa.text(query)).all() == [("pending", True), ("pending", False)]


def test_jobs_for_groups_count_for_the_user_only_while_they_are_not_active(database: Database) -> None:
    """PanDA looks at the group of a job of the active table only: 3 defined ones of alice for a group count for her."""
    grouped = [row | {"workinggroup": "phys-x"} for row in user_jobs("BETA", 1000, activated=9)]
    defined = [row | {"workinggroup": "phys-x"} for row in user_jobs("BETA", 2000, defined=3)]
    loaded = several(
        {},
        {"workinggroup": "phys-x"},
        {"username": "bob"},
        config=[
            config_row("CAP_RUNNING_USER_JOBS", 1, component="prio_mgr"),
            config_row("CAP_RUNNING_GROUP_JOBS", 5, component="prio_mgr"),
        ],
        # those that a watchdog holds back wait as well
        jobsactive4=grouped + user_jobs("BETA", 3000, "bob", activated=1, throttled=2),
        jobsdefined4=defined,
    )
    told = decisions(database, loaded, independent=True)
    assert [one["outcome"] for one in told] == ["throttled", "throttled", "throttled"]
    assert [one["throttle"]["figure"] for one in told] == [3, 12, 3]


def test_labels_and_merge_jobs_in_the_figures_of_the_stabilizer(database: Database) -> None:
    """Of alice 61 build jobs and 61 merge jobs, which are none of hers here: nothing to reject."""
    build = [row | {"prodsourcelabel": "panda"} for row in user_jobs(ALPHA, 1000, activated=61)]
    merge = [row | {"processingtype": "pmerge"} for row in user_jobs(ALPHA, 2000, activated=61)]
    others = user_jobs(ALPHA, 3000, "bob", running=60)
    own = user_jobs(ALPHA, 4000, activated=61)
    keys = [config_row("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", 1)]
    loaded = several({"resource_type": "OTHER"}, config=keys, jobsactive4=build + merge + others)
    assert codes(decisions(database, loaded, independent=True)) == [None]
    load(database, several({"resource_type": "OTHER"}, config=keys, jobsactive4=[*others, *own, *build]), replace=True)
    _, told = next_cycle(database, agent="analysis_job", independent=True)
    assert codes(told) == ["user_queue_length"]


def test_jobs_of_nobody_run_as_well(database: Database) -> None:
    """75 running jobs that name no user: nQ_max 150; alice and bob are two, so she may have 75 queued, not 76."""
    nobody = [row | {"produsername": None} for row in user_jobs(ALPHA, 1000, running=75)]
    own = user_jobs(ALPHA, 2000, activated=75) + user_jobs(ALPHA, 3000, "bob", activated=25)
    load(database, several({"resource_type": "OTHER"}, jobsactive4=nobody + own))
    assert codes(next_cycle(database, agent="analysis_job", independent=True)[1]) == [None]
    more = user_jobs(ALPHA, 4000, activated=1)
    load(database, several({"resource_type": "OTHER"}, jobsactive4=nobody + own + more), replace=True)
    assert codes(next_cycle(database, agent="analysis_job", independent=True)[1]) == ["user_queue_length"]


def test_metrics_of_classes_are_believed_for_their_time(database: Database) -> None:
    """The class of queues for 60 minutes, that of tasks for 15: lo and C weigh 4 x W_q, mid and A 0.05."""
    site = {"metric": "analy_site_eval", "gshare": "NULL", "value_json": {"class": -1}}
    sites = [
        site | {"computingsite": ALPHA, "timestamp": "2026-08-01T11:00:00"},
        site | {"computingsite": "GAMMA_MCORE", "timestamp": "2026-08-01T10:59:59"},
    ]
    task = {"metric": "analy_task_eval", "value_json": '{"class": -1}'}
    loaded = several(
        {"taskparams": {"includedSite": f"{ALPHA},GAMMA_MCORE"}},
        {"taskparams": {"includedSite": f"{ALPHA},GAMMA_MCORE"}},
        config=[config_row("NEW_BASIC_WEIGHT", "true", "boolean")],
        metrics=sites,
        task_evaluation=[
            task | {"jeditaskid": TASK, "timestamp": "2026-08-01T11:45:00"},
            task | {"jeditaskid": TASK + 1, "timestamp": "2026-08-01T11:44:59"},
        ],
    )
    least, half = 2.0**-20, 98 / 196
    fresh, old = decisions(database, loaded, independent=True)
    assert chosen(fresh) == pytest.approx({ALPHA: 4 * half + least, "GAMMA_MCORE": 0.05 * half + least}, rel=1e-12)
    assert chosen(old) == pytest.approx({ALPHA: 0.002 * half + least, "GAMMA_MCORE": 0.05 * half + least}, rel=1e-12)


def test_a_json_not_a_number_is_no_figure(database: Database) -> None:
    metric = {"computingsite": "NULL", "timestamp": FRESH}
    rows = [
        metric | {"metric": "gshare_preference", "gshare": "User Analysis", "value_json": {"usage_perc": None}},
        metric | {"metric": "analy_user_eval", "gshare": "NULL", "value_json": {"alice": {"rem_slots_A": "NaN"}}},
        metric
        | {"metric": "analy_site_eval", "gshare": "NULL", "computingsite": ALPHA, "value_json": {"class": "NaN"}},
    ]
    evaluation = {"jeditaskid": TASK, "metric": "analy_task_eval", "value_json": '{"class": NaN}', "timestamp": FRESH}
    assert set(chosen(decided(database, analysis(metrics=rows, task_evaluation=[evaluation])))) == ALL


def test_reports_of_pilots_tighten_limits_and_drain_queues_for_users_too(database: Database) -> None:
    """A job takes 100 events x 100 HS06 s / 10 = 1,000 s on one core."""
    load(database, analysis(config=[config_row("FEATURES_MAXTIME", "true", "boolean", "jobbroker")]))
    plain = dict.fromkeys(("corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb", "shutdown_s"))
    reported = [
        QueueSummary(queue=ALPHA, pilots=30, draining_pilots=0, **(plain | {"maxtime_s": 999.0})),
        QueueSummary(
            queue="GAMMA_MCORE", pilots=30, draining_pilots=30, **(plain | {"shutdown_s": NOW.timestamp() + 999})
        ),
        QueueSummary(
            queue="GAMMA_TEST", pilots=30, draining_pilots=30, **(plain | {"shutdown_s": NOW.timestamp() + 1000})
        ),
    ]
    with database.begin() as connection:
        feature_rows.replace_summaries(connection, reported, NOW)
    _, (told,) = next_cycle(database, agent="analysis_job")
    assert set(chosen(told)) == {"BETA/SCORE", "GAMMA_TEST"}
    assert (told["rejected"][ALPHA], told["rejected"]["GAMMA_MCORE"]) == ("shortwalltime", "draining")


def test_the_first_way_in_which_a_task_of_a_user_can_run(database: Database) -> None:
    loaded = analysis()
    loaded.tables["jedi_datasets"] = [dataset(4)]
    loaded.tables["jedi_dataset_contents"] = input_files(4, 2 * 1024**3)
    load(database, loaded)
    with database.begin() as connection:
        task_alternatives.add(connection, TASK, [WayToRun(16, 16), WayToRun(8, 8), WayToRun(1, 1)])
    _, (told,) = next_cycle(database, agent="analysis_job")
    assert set(chosen(told)) == {"BETA/MCORE"}


@pytest.mark.soak
def test_a_user_with_a_million_jobs(database: Database) -> None:
    load(
        database,
        several({}, {"username": "bob"}, config=[config_row("CAP_RUNNING_USER_JOBS", 10**6, component="prio_mgr")]),
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
