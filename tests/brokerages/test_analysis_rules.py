"""Rules of analysis through whole cycles, many tasks to a cycle: cores, memory, time, disk IO, and what has no rule."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import ALL, chosen, config_row, decided, decisions, finished, several, user_jobs
from tests.brokerages.small_grid import FRESH, NOW

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, GAMMA = "ALPHA_MCORE", "GAMMA_MCORE"


def codes(told: list[dict[str, Any]], queue: str = ALPHA) -> list[str | None]:
    return [one["rejected"].get(queue) for one in told]


def test_cores_of_queues_and_tasks(database: Database) -> None:
    """ALPHA_MCORE has 8 cores here, GAMMA_MCORE none on record, BETA/SCORE one."""
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"corecount": 8}, {ALPHA, "BETA/MCORE"}),
        ({"corecount": 2}, {ALPHA, "BETA/MCORE"}),
        ({"corecount": 1}, {GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": None}, {GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": 0}, {ALPHA, "BETA/MCORE", GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": 0, "splitrule": "NF=1,CC=7"}, {GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
        ({"corecount": 0, "splitrule": "NF=1,CC=8"}, {ALPHA, "BETA/MCORE", GAMMA, "GAMMA_TEST", "BETA/SCORE"}),
    ]
    loaded = several(*({"ramcount": 0} | columns for columns, _ in cases))
    loaded.tables["schedconfig_json"][0]["data"]["corecount"] = 8
    loaded.tables["schedconfig_json"][2]["data"]["corecount"] = None
    assert [set(chosen(one)) for one in decisions(database, loaded, independent=True)] == [
        wanted for _, wanted in cases
    ]


def test_memory_in_both_units_with_the_base(database: Database) -> None:
    """0.9 x (base + ram x 8) at ALPHA with 8 cores and 14,400 MB; 0.9 x (base + ram) in MB; at least 9,000 MB."""
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"ramcount": 1950, "baseramcount": 400}, None),  # 14,400
        ({"ramcount": 1950, "baseramcount": 401}, "lowmemory"),
        ({"ramcount": 15_600, "baseramcount": 400, "ramunit": "MB"}, None),
        ({"ramcount": 15_601, "baseramcount": 400, "ramunit": "MB"}, "lowmemory"),
        ({"ramcount": 1250, "baseramcount": None, "ramunit": "MBPerCoreFixed"}, None),  # 9,000
        ({"ramcount": 1249, "baseramcount": 0}, "highmemory"),
        ({"ramcount": None, "baseramcount": 50_000}, None),  # nothing is known
    ]
    loaded = several(*({"corecount": 8} | columns for columns, _ in cases))
    loaded.tables["schedconfig_json"][0]["data"] |= {"corecount": 8, "maxrss": 14_400, "minrss": 9_000}
    assert codes(decisions(database, loaded, independent=True)) == [code for _, code in cases]


def test_walltime_and_the_24_hours(database: Database) -> None:
    """100 events x 100 HS06 s / (10 x 1 core) = 1,000 s; half the efficiency takes twice as long."""
    scouts = {"splitrule": "NF=1,US=2"}
    undefined = {"cputime": None, "cputimeunit": None}
    cases: list[tuple[dict[str, Any], str | None, str | None]] = [
        # at ALPHA with maxtime 1,000 s, and at GAMMA with mintime 1,000 s
        ({}, None, None),
        ({"cpuefficiency": 99}, "shortwalltime", None),
        ({"basewalltime": 1}, "shortwalltime", None),
        ({"cputime": 99}, None, "longwalltime"),
        (undefined, "min_walltime", None),
        (scouts, "scout_walltime", None),
        # at the one queue that it names, a scout with an estimate needs no day
        (scouts | {"site": ALPHA}, None, None),
        (scouts | undefined | {"site": ALPHA}, "scout_walltime", None),
    ]
    loaded = several(*(columns for columns, _, _ in cases))
    loaded.tables["schedconfig_json"][0]["data"]["maxtime"] = 1000
    loaded.tables["schedconfig_json"][2]["data"]["mintime"] = 1000
    loaded.tables["schedconfig_json"][3]["data"] |= {"status": "online", "maxtime": 0}
    for row in loaded.tables["jedi_datasets"]:
        row["state"] = "mutable"
    told = decisions(database, loaded, independent=True)
    assert codes(told) == [code for _, code, _ in cases]
    assert codes(told[:6], GAMMA) == [code for _, _, code in cases[:6]]
    assert all("GAMMA_OFF" in chosen(one) for one in told[:6])


@pytest.mark.parametrize(("maxtime", "code"), [(86_399, "min_walltime"), (86_400, None), (0, None)])
def test_merging_needs_a_day_and_nothing_else_of_walltime_and_memory(
    database: Database, maxtime: int, code: str | None
) -> None:
    """A merge of 4 files: no caps, no walltime, no base part of the memory, 2,000 MB at least, twice the input."""
    loaded = several(
        {"mergeramcount": 100, "baseramcount": 90_000, "cputime": 10**9, "splitrule": "NF=1,MO=1", "mergecorecount": 8},
        config=[config_row("CAP_RUNNING_USER_JOBS", 1, component="prio_mgr")],
        jobsactive4=user_jobs("BETA", 1000, running=2),
    )
    loaded.tables["jedi_datasets"][0] |= {"type": "trn_output", "site": None}
    for row in loaded.tables["jedi_dataset_contents"]:
        row["type"] = "trn_output"
    data = loaded.tables["schedconfig_json"]
    data[0]["data"] |= {"maxtime": maxtime, "mintime": 10**6, "maxrss": 1800}
    data[2]["data"] |= {"maxrss": 1799}
    # twice the input of the smallest merge, one file of 2,048 MB, has to be smaller
    data[4]["data"] |= {"maxwdir": 2 * 2048, "corecount": 1}
    (told,) = decisions(database, loaded)
    assert (told["outcome"], told["rejected"].get(ALPHA), told["rejected"].get(GAMMA)) == (
        "brokered",
        code,
        "lowmemory",
    )
    assert told["rejected"].get("GAMMA_TEST") == "disk"


def test_disk_io_of_a_core_is_not_cut(database: Database) -> None:
    """ALPHA: 21 kB/s a core run, the limit is 20; of 8 cores 161 kB/s are 20.1 each."""
    rows = [row | {"diskio": 168, "corecount": 8} for row in user_jobs(ALPHA, 1000, "bob", running=1)]
    cases = [({"diskio": 160}, None), ({"diskio": 161}, "diskIO"), ({"diskio": None}, None)]
    loaded = several(*({"corecount": 8} | columns for columns, _ in cases), jobsactive4=rows)
    loaded.tables["schedconfig_json"][0]["data"] |= {"corecount": 8, "maxdiskio": 20}
    assert codes(decisions(database, loaded, independent=True)) == [code for _, code in cases]


def test_queues_of_other_clouds_hospitals_policies_and_intensities(database: Database) -> None:
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {ALPHA, "BETA/SCORE", GAMMA}),
        ({"cloud": "YY"}, {"BETA/SCORE"}),
        ({"cloud": "any"}, {ALPHA, "BETA/SCORE", GAMMA}),
        ({"iointensity": 51}, {ALPHA, GAMMA}),
        ({"iointensity": 50}, {ALPHA, "BETA/SCORE", GAMMA}),
        ({"workinggroup": "phys-x"}, {"BETA/SCORE", GAMMA}),
        # the one queue that a task names is not asked for its share
        ({"workinggroup": "phys-x", "site": ALPHA}, {ALPHA}),
        ({"site": "ZETA_HOSPITAL"}, {"ZETA_HOSPITAL"}),
    ]
    loaded = several(*(columns for columns, _ in cases))
    queues = loaded.tables["schedconfig_json"]
    queues[0]["data"]["fairsharepolicy"] = "group=phys-x:0%,type=any:100%"
    queues[1]["data"] |= {"cloud": "YY", "params": {"max_io_intensity": 50}}
    queues[4]["data"]["nickname"] = queues[4]["panda_queue"] = "ZETA_HOSPITAL"
    for table, column in (
        ("panda_site", "panda_site_name"),
        ("panda_ddm_relation", "panda_site_name"),
        ("sitedata", "site"),
    ):
        for row in loaded.tables[table]:
            row[column] = "ZETA_HOSPITAL" if row[column] == "GAMMA_TEST" else row[column]
    assert [set(chosen(one)) for one in decisions(database, loaded, independent=True)] == [
        wanted for _, wanted in cases
    ]


def test_any_release_but_no_hardware_that_is_not_told(database: Database) -> None:
    """The queues have releases ANY and tell nothing: a platform implies no request, a CPU or GPU is one."""
    cases = [
        ("x86_64-el9-gcc13-opt", ALL),
        (None, ALL),
        ("x86_64-el9-gcc13-opt#x86_64-intel-avx2", set()),
        ("#&nvidia", set()),
    ]
    loaded = several(*({"architecture": architecture} for architecture, _ in cases))
    told = decisions(database, loaded, independent=True)
    assert [set(chosen(one)) for one in told] == [wanted for _, wanted in cases]


def test_no_second_pass_while_a_queue_is_only_full(database: Database) -> None:
    """The input is at ALPHA, where too many wait: that may clear, so nothing is looked for elsewhere."""
    jobs = user_jobs(ALPHA, 1000, "bob", activated=41)
    waiting = decided(database, several({}, here=("ALPHA",), jobsactive4=jobs))
    assert (waiting["outcome"], waiting["rejected"][ALPHA]) == ("pending", "queue_cap")
    assert waiting["pending_until"] == NOW.replace(minute=20).isoformat()


def test_one_closed_job_closes_nothing_and_weights_have_a_minimum(database: Database) -> None:
    """ALPHA: 3 running of one user, 7 queued: 4 / 8; BETA: nothing: 1."""
    loaded = several(
        {},
        here=("ALPHA", "BETA"),
        jobsactive4=user_jobs(ALPHA, 1000, "bob", running=3, activated=7),
        jobsarchived4=finished("BETA", 3000, "closed", 1, jobsubstatus="toreassign", relocationflag=1),
        config=[config_row("MIN_WEIGHT_user", 0.51, "float", "jobbroker")],
    )
    (told,) = decisions(database, loaded)
    assert (chosen(told), told["rejected"][ALPHA]) == ({"BETA/SCORE": 1.0}, "below_min_weight")


@pytest.mark.slow
def test_running_is_the_largest_of_its_readings(database: Database) -> None:
    """ALPHA: 30 batch workers count as 20; BETA: 24 slots of one core; GAMMA: slots of 0, so its 5 starting jobs."""
    slot = {"resourcetype": None, "gshare": None, "expirationtime": "2026-08-02T00:00:00", "modificationtime": FRESH}
    loaded = several(
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
    assert chosen(decisions(database, loaded)[0]) == pytest.approx(weights, rel=1e-12)


@pytest.mark.parametrize(("starts", "code"), [(49, "user_queue_length"), (60, None)])
def test_the_to_running_rate_counts_active_and_finished_jobs_of_six_hours(
    database: Database, starts: int, code: str | None
) -> None:
    """119 queued; 8 h x rate has to be more. Half of what runs is of the share: 60 x 3 in 6 h are 30 / 2 an hour.

    The starts: running jobs of the share, as many of another, as many that have finished. Older ones do not count.
    """
    at, old = "2026-08-01T06:00:00", "2026-08-01T05:59:59"
    own = [row | {"starttime": at} for row in user_jobs(ALPHA, 1000, "bob", running=starts)]
    other = [row | {"starttime": at} for row in user_jobs(ALPHA, 2000, "bob", "Other", running=starts)]
    done = [row | {"starttime": at} for row in finished(ALPHA, 3000, "finished", starts, jeditaskid=1)]
    done += [row | {"starttime": old} for row in finished(ALPHA, 4000, "finished", 300, jeditaskid=1)]
    queued = user_jobs(ALPHA, 5000, activated=119)
    keys = [
        config_row("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", 1),
        config_row("MAX_EXPECTED_WAIT_HOUR", 0, "float"),
        config_row("STATIC_MAX_QUEUE_RUNNING_RATIO", 0, "float"),
    ]
    loaded = several({"resource_type": "OTHER"}, jobsactive4=own + other + queued, jobsarchived4=done, config=keys)
    (told,) = decisions(database, loaded, independent=True)
    assert told["rejected"].get(ALPHA) == code


@pytest.mark.slow
def test_the_task_of_a_user_with_a_work_queue_of_its_own_is_counted_by_share(database: Database) -> None:
    special = {"queue_id": 7, "queue_name": "q", "queue_type": "user", "vo": "atlas", "queue_function": "Resource"}
    jobs = user_jobs(ALPHA, 1000, "bob", running=9)
    loaded = several({"workqueue_id": 7}, here=("ALPHA",), jedi_work_queue=[special], jobsactive4=jobs)
    assert chosen(decided(database, loaded)) == {ALPHA: 10.0}
