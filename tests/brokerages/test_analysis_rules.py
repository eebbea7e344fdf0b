"""Analysis rules through whole cycles with many tasks: cores, memory, time, disk IO, and decisions without a rule."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import (
    ALL,
    analysis_tasks,
    config_row,
    decide_all,
    decide_one,
    ended_jobs,
    user_jobs,
    weights_of,
)
from tests.brokerages.small_grid import FRESH, NOW

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, GAMMA = "ALPHA_MCORE", "GAMMA_MCORE"


def codes(decisions: list[dict[str, Any]], queue: str = ALPHA) -> list[str | None]:
    return [decision["rejected"].get(queue) for decision in decisions]


def test_cores_of_queues_and_tasks(database: Database) -> None:
    """ALPHA_MCORE has 8 cores here, GAMMA_MCORE an unknown number, BETA/SCORE one."""
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"corecount": 8}, {ALPHA, "BETA/MCORE"}),
        ({"corecount": 2}, {ALPHA, "BETA/MCORE"}),
        ({"corecount": 1}, {GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": None}, {GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": 0}, {ALPHA, "BETA/MCORE", GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": 0, "splitrule": "NF=1,CC=7"}, {GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": 0, "splitrule": "NF=1,CC=8"}, {ALPHA, "BETA/MCORE", GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
    ]
    grid = analysis_tasks(*({"ramcount": 0} | columns for columns, _ in cases))
    grid.tables["schedconfig_json"][0]["data"]["corecount"] = 8
    grid.tables["schedconfig_json"][2]["data"]["corecount"] = None
    assert [set(weights_of(decision)) for decision in decide_all(database, grid, independent=True)] == [
        expected for _, expected in cases
    ]


def test_memory_in_both_units_with_the_base(database: Database) -> None:
    """ALPHA has 8 cores and takes 9,000 to 14,400 MB: 0.9 x (base + ram x 8) per core, or 0.9 x (base + ram) in MB."""
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"ramcount": 1950, "baseramcount": 400}, None),  # 14,400
        ({"ramcount": 1950, "baseramcount": 401}, "lowmemory"),
        ({"ramcount": 15_600, "baseramcount": 400, "ramunit": "MB"}, None),
        ({"ramcount": 15_601, "baseramcount": 400, "ramunit": "MB"}, "lowmemory"),
        ({"ramcount": 1250, "baseramcount": None, "ramunit": "MBPerCoreFixed"}, None),  # 9,000
        ({"ramcount": 1249, "baseramcount": 0}, "highmemory"),
        ({"ramcount": None, "baseramcount": 50_000}, None),  # unknown memory
    ]
    grid = analysis_tasks(*({"corecount": 8} | columns for columns, _ in cases))
    grid.tables["schedconfig_json"][0]["data"] |= {"corecount": 8, "maxrss": 14_400, "minrss": 9_000}
    assert codes(decide_all(database, grid, independent=True)) == [code for _, code in cases]


def test_walltime_and_the_24_hours(database: Database) -> None:
    """A job takes 100 events x 100 HS06 s / (10 x 1 core) = 1,000 s; half the efficiency takes twice as long."""
    scouts = {"splitrule": "NF=1,US=2"}
    undefined = {"cputime": None, "cputimeunit": None}
    cases: list[tuple[dict[str, Any], str | None, str | None]] = [
        # codes at ALPHA with maxtime 1,000 s, and at GAMMA with mintime 1,000 s
        ({}, None, None),
        ({"cpuefficiency": 99}, "shortwalltime", None),
        ({"basewalltime": 1}, "shortwalltime", None),
        ({"cputime": 99}, None, "longwalltime"),
        (undefined, "min_walltime", None),
        (scouts, "scout_walltime", None),
        # at a single named queue, a scout with an estimate needs no day
        (scouts | {"site": ALPHA}, None, None),
        (scouts | undefined | {"site": ALPHA}, "scout_walltime", None),
    ]
    grid = analysis_tasks(*(columns for columns, _, _ in cases))
    grid.tables["schedconfig_json"][0]["data"]["maxtime"] = 1000
    grid.tables["schedconfig_json"][2]["data"]["mintime"] = 1000
    grid.tables["schedconfig_json"][3]["data"] |= {"status": "online", "maxtime": 0}
    for row in grid.tables["jedi_datasets"]:
        row["state"] = "mutable"
    decisions = decide_all(database, grid, independent=True)
    assert codes(decisions) == [code for _, code, _ in cases]
    assert codes(decisions[:6], GAMMA) == [code for _, _, code in cases[:6]]
    assert all("GAMMA_OFF" in weights_of(decision) for decision in decisions[:6])


@pytest.mark.parametrize(("maxtime", "code"), [(86_399, "min_walltime"), (86_400, None), (0, None)])
def test_merging_needs_a_day_and_nothing_else_of_walltime_and_memory(
    database: Database, maxtime: int, code: str | None
) -> None:
    """Merging 4 files: no caps, no walltime, no base memory, but at least 2,000 MB and twice the input."""
    grid = analysis_tasks(
        {"mergeramcount": 100, "baseramcount": 90_000, "cputime": 10**9, "splitrule": "NF=1,MO=1", "mergecorecount": 8},
        config=[config_row("CAP_RUNNING_USER_JOBS", 1, component="prio_mgr")],
        jobsactive4=user_jobs("BETA", 1000, running=2),
    )
    grid.tables["jedi_datasets"][0] |= {"type": "trn_output", "site": None}
    for row in grid.tables["jedi_dataset_contents"]:
        row["type"] = "trn_output"
    data = grid.tables["schedconfig_json"]
    data[0]["data"] |= {"maxtime": maxtime, "mintime": 10**6, "maxrss": 1800}
    data[2]["data"] |= {"maxrss": 1799}
    # twice the input of the smallest merge, one file of 2,048 MB, must be smaller than the scratch disk
    data[4]["data"] |= {"maxwdir": 2 * 2048, "corecount": 1}
    (decision,) = decide_all(database, grid)
    assert (decision["outcome"], decision["rejected"].get(ALPHA), decision["rejected"].get(GAMMA)) == (
        "brokered",
        code,
        "lowmemory",
    )
    assert decision["rejected"].get("GAMMA_TEST") == "disk"


def test_disk_io_per_core_is_not_truncated(database: Database) -> None:
    """ALPHA runs 21 kB/s per core where the limit is 20; 161 kB/s on 8 cores are 20.1 per core."""
    rows = [row | {"diskio": 168, "corecount": 8} for row in user_jobs(ALPHA, 1000, "bob", running=1)]
    cases = [({"diskio": 160}, None), ({"diskio": 161}, "diskIO"), ({"diskio": None}, None)]
    grid = analysis_tasks(*({"corecount": 8} | columns for columns, _ in cases), jobsactive4=rows)
    grid.tables["schedconfig_json"][0]["data"] |= {"corecount": 8, "maxdiskio": 20}
    assert codes(decide_all(database, grid, independent=True)) == [code for _, code in cases]


def test_clouds_hospitals_policies_and_io_intensities(database: Database) -> None:
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {ALPHA, "BETA/SCORE", GAMMA}),
        ({"cloud": "YY"}, {"BETA/SCORE"}),
        ({"cloud": "any"}, {ALPHA, "BETA/SCORE", GAMMA}),
        ({"iointensity": 51}, {ALPHA, GAMMA}),
        ({"iointensity": 50}, {ALPHA, "BETA/SCORE", GAMMA}),
        ({"workinggroup": "phys-x"}, {"BETA/SCORE", GAMMA}),
        # a single named queue is exempt from the share policy
        ({"workinggroup": "phys-x", "site": ALPHA}, {ALPHA}),
        ({"site": "ZETA_HOSPITAL"}, {"ZETA_HOSPITAL"}),
    ]
    grid = analysis_tasks(*(columns for columns, _ in cases))
    queues = grid.tables["schedconfig_json"]
    queues[0]["data"]["fairsharepolicy"] = "group=phys-x:0%,type=any:100%"
    queues[1]["data"] |= {"cloud": "YY", "params": {"max_io_intensity": 50}}
    queues[4]["data"]["nickname"] = queues[4]["panda_queue"] = "ZETA_HOSPITAL"
    for table, column in (
        ("panda_site", "panda_site_name"),
        ("panda_ddm_relation", "panda_site_name"),
        ("sitedata", "site"),
    ):
        for row in grid.tables[table]:
            row[column] = "ZETA_HOSPITAL" if row[column] == "GAMMA_TEST" else row[column]
    assert [set(weights_of(decision)) for decision in decide_all(database, grid, independent=True)] == [
        expected for _, expected in cases
    ]


def test_releases_any_take_every_release_but_no_unpublished_hardware(database: Database) -> None:
    """The queues have releases ANY and publish no hardware: a platform is no request for it, a CPU or GPU is."""
    cases = [
        ("x86_64-el9-gcc13-opt", ALL),
        (None, ALL),
        ("x86_64-el9-gcc13-opt#x86_64-intel-avx2", set()),
        ("#&nvidia", set()),
    ]
    grid = analysis_tasks(*({"architecture": architecture} for architecture, _ in cases))
    decisions = decide_all(database, grid, independent=True)
    assert [set(weights_of(decision)) for decision in decisions] == [expected for _, expected in cases]


def test_a_full_queue_prevents_the_second_pass(database: Database) -> None:
    """The input is at ALPHA, where too many jobs wait. This may clear, so no other queue is considered."""
    jobs = user_jobs(ALPHA, 1000, "bob", activated=41)
    waiting = decide_one(database, analysis_tasks({}, sites=("ALPHA",), jobsactive4=jobs))
    assert (waiting["outcome"], waiting["rejected"][ALPHA]) == ("pending", "queue_cap")
    assert waiting["pending_until"] == NOW.replace(minute=20).isoformat()


def test_one_closed_job_does_not_close_a_queue_and_weights_have_a_minimum(database: Database) -> None:
    """ALPHA has 3 running and 7 queued jobs: 4 / 8; BETA has none: 1."""
    grid = analysis_tasks(
        {},
        sites=("ALPHA", "BETA"),
        jobsactive4=user_jobs(ALPHA, 1000, "bob", running=3, activated=7),
        jobsarchived4=ended_jobs("BETA", 3000, "closed", 1, jobsubstatus="toreassign", relocationflag=1),
        config=[config_row("MIN_WEIGHT_user", 0.51, "float", "jobbroker")],
    )
    (decision,) = decide_all(database, grid)
    assert (weights_of(decision), decision["rejected"][ALPHA]) == ({"BETA/SCORE": 1.0}, "below_min_weight")


@pytest.mark.slow
def test_running_is_the_largest_of_its_readings(database: Database) -> None:
    """ALPHA: 30 batch workers count as 20; BETA: 24 single-core slots; GAMMA: 0 slots, so its 5 starting jobs."""
    slot = {"resourcetype": None, "gshare": None, "expirationtime": "2026-08-02T00:00:00", "modificationtime": FRESH}
    grid = analysis_tasks(
        {},
        jobsactive4=user_jobs(GAMMA, 1000, "bob", starting=5),
        harvester_worker_stats=[
            {"harvester_id": "h", "computingsite": ALPHA, "resourcetype": "SCORE", "status": "running"}
            | {"jobtype": "ANY", "n_workers": 30, "lastupdate": FRESH}
        ],
        harvester_slots=[
            slot | {"pandaqueuename": "BETA", "numslots": 24}, slot | {"pandaqueuename": GAMMA, "numslots": 0},
        ],
    )  # fmt: skip
    weights = {ALPHA: 21.0, "BETA/SCORE": 25.0, GAMMA: 6 / 6, "GAMMA_TEST": 1.0}
    assert weights_of(decide_all(database, grid)[0]) == pytest.approx(weights, rel=1e-12)


@pytest.mark.parametrize(("starts", "code"), [(49, "user_queue_length"), (60, None)])
def test_the_to_running_rate_counts_active_and_finished_jobs_of_six_hours(
    database: Database, starts: int, code: str | None
) -> None:
    """119 jobs are queued; 8 h x rate must be more. The share has half of what runs: 60 x 3 in 6 h are 30 / 2 per h.

    Starts: running jobs of the share, as many of another share, and as many finished jobs. Older ones do not count.
    """
    start, early_start = "2026-08-01T06:00:00", "2026-08-01T05:59:59"
    running = [row | {"starttime": start} for row in user_jobs(ALPHA, 1000, "bob", running=starts)]
    running_elsewhere = [row | {"starttime": start} for row in user_jobs(ALPHA, 2000, "bob", "Other", running=starts)]
    archived = [row | {"starttime": start} for row in ended_jobs(ALPHA, 3000, "finished", starts, jeditaskid=1)]
    archived += [row | {"starttime": early_start} for row in ended_jobs(ALPHA, 4000, "finished", 300, jeditaskid=1)]
    queued = user_jobs(ALPHA, 5000, activated=119)
    keys = [
        config_row("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", 1),
        config_row("MAX_EXPECTED_WAIT_HOUR", 0, "float"),
        config_row("STATIC_MAX_QUEUE_RUNNING_RATIO", 0, "float"),
    ]
    grid = analysis_tasks(
        {"resource_type": "OTHER"},
        jobsactive4=running + running_elsewhere + queued,
        jobsarchived4=archived,
        config=keys,
    )
    (decision,) = decide_all(database, grid, independent=True)
    assert decision["rejected"].get(ALPHA) == code


@pytest.mark.slow
def test_a_user_task_with_its_own_work_queue_is_counted_by_share(database: Database) -> None:
    special = {"queue_id": 7, "queue_name": "q", "queue_type": "user", "vo": "atlas", "queue_function": "Resource"}
    jobs = user_jobs(ALPHA, 1000, "bob", running=9)
    grid = analysis_tasks({"workqueue_id": 7}, sites=("ALPHA",), jedi_work_queue=[special], jobsactive4=jobs)
    assert weights_of(decide_one(database, grid)) == {ALPHA: 10.0}
