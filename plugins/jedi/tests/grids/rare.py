"""What is rare on grids and in tasks: jumbo jobs, event service, clones, quotas, virtual placement, wishes of users.

Put into a synthetic grid beside what is odd. Every kind of work that PanDA's brokers treat in its own way comes up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grids import rare_input

if TYPE_CHECKING:
    from grids.generator import Grid

Row = dict[str, Any]
FIRST, LAST = 40_000_000, 40_000_100
#: Rules of tasks that few have, in groups of what is rarely asked together.
RULES = (
    "NS=2", "NS=4", "HO=1", "AI=1", "IS=1", "TW=-1", "TW=-2", "TW=50", "CC=8", "IL=2", "IW=1", "AV=1", "OT=1", "LI=1",
    "NG=5", "NG=40", "NE=500", "NE=5000", "MF=3", "MW=6", "RL=1", "MX=5", "GB=1", "DY=100,NE=500", "SE=1", "IP=2",
    "XJ=3", "EC=2", "NJ=3", "NJ=20", "MO=1", "ZF=4", "SW=1", "IK=6", "IK=4",
)  # fmt: skip
CATCHALLS = ("useJumboJobs", "useJumboJobs,minEventsForJumbo=20", "gpu", "grandly_unified", "use_only_local_data")
#: Key, value and component; those of another application than jedi are of pandaserver.
KEYS = (
    ("CAP_RUNNING_USER_JOBS", "3", "prio_mgr"), ("CAP_RUNNING_USER_CORES", "12", "prio_mgr"),
    ("CAP_RUNNING_GROUP_JOBS", "2", "prio_mgr"), ("USER_USAGE_THRESHOLD_A", "20", "analy_eval"),
    ("BASE_QUEUE_LENGTH_PER_PQ", "4", "anal_jobbroker"), ("MIN_BAD_JOBS_TO_SKIP_PQ", "1", "anal_jobbroker"),
    ("BASE_EXPECTED_WAIT_HOUR_ON_PQ", "1", "anal_jobbroker"), ("OVERLOAD_MIN_QUEUE", "3", "anal_jobbroker"),
    ("MAX_MISSING_INPUT_FILES", "0", "anal_jobbroker"), ("MIN_INPUT_COMPLETENESS", "50", "anal_jobbroker"),
    ("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", "1", "anal_jobbroker"), ("MAX_DISKIO_DEFAULT", "50", "jobbroker"),
    ("MIN_WEIGHT_user", "1", "jobbroker"), ("NW_WEIGHT_MULTIPLIER", "3", "jobbroker"),
    ("MAX_PRIO_TO_BOOTSTRAP", "450", "jobbroker"), ("WORK_SHORTAGE", "true", "core"),
    ("NQUEUELIMITSITE_MC Simulation_SCORE", "4", "jobbroker"),
)  # fmt: skip


def enrich(grid: Grid) -> None:
    """Change the rows of a grid that is built."""
    for queue in grid.queues:
        _queue(grid, queue)
    _virtual_placement(grid)
    _slots(grid)
    _policy(grid)
    for row in list(grid.tables["jedi_tasks"]):
        if FIRST < row["jeditaskid"] < LAST:
            (_analysis if grid.kind == "analysis_job" else _production)(grid, row)
    _quotas(grid)
    rare_input.enrich(grid)
    # the first queue of a nucleus and the end of an expansion go by the order of the table: here that of names
    grid.tables["schedconfig_json"].sort(key=lambda row: str(row["panda_queue"]))


def _queue(grid: Grid, data: Row) -> None:
    if grid.chance(0.1):
        data["catchall"] = grid.dice.choice(CATCHALLS)
    if grid.chance(0.2):
        data["jobseed"] = grid.pick("std", "std", "es", "all", "all", "eshigh", None)
    if grid.chance(0.04):
        data["cloud"] = ""
    if grid.chance(0.06):
        _without_output(grid, data)


def _without_output(grid: Grid, data: Row) -> None:
    """A queue with storages, none of them for output in the default scope; most such queues are tests."""
    data["status"] = grid.pick(*["test"] * 9, "online")
    for row in grid.tables["panda_ddm_relation"]:
        if row["panda_site_name"] == data["nickname"] and row["scope"] == "default":
            row["roles"] = row["roles"].replace(",write_lan", "")


def _virtual_placement(grid: Grid) -> None:
    for site in grid.sites:
        if not grid.chance(0.25):
            continue
        name = f"{site}_VP_DISK"
        like = next(row for row in grid.tables["ddm_endpoint"] if row["ddm_endpoint_name"] == f"{site}_DATADISK")
        grid.add("ddm_endpoint", **like | {"ddm_endpoint_name": name, "type": "VP"})
        scopes = grid.pick(("analysis",), ("default",), ("default", "analysis"))
        for queue in grid.queues:
            if queue["atlas_site"] == site and grid.chance(0.6):
                for scope in scopes:
                    grid.add(
                        "panda_ddm_relation", panda_site_name=queue["nickname"], ddm_endpoint_name=name, is_local="Y",
                        roles="read_lan", order_read=9, order_write=None, default_read="N", default_write="N",
                        scope=scope,
                    )  # fmt: skip


def _slots(grid: Grid) -> None:
    for queue in grid.queues:
        if grid.chance(0.1):
            grid.add(
                "harvester_slots", pandaqueuename=queue["nickname"], gshare=grid.pick("User Analysis", "MC Simulation"),
                resourcetype=grid.pick(None, "SCORE", "MCORE"), numslots=grid.pick(0, 8, 100),
                modificationtime=grid.ago(minutes=40), expirationtime=None,
            )  # fmt: skip


def _policy(grid: Grid) -> None:
    table = grid.tables["config"]
    for key, value, component in KEYS:
        if grid.chance(0.08):
            app = "pandaserver" if component in ("prio_mgr", "analy_eval") else "jedi"
            table[:] = [row for row in table if (row["component"], row["key"]) != (component, key)]
            kind = "boolean" if value == "true" else "integer"
            grid.add("config", app=app, component=component, key=key, vo="atlas", value=value, type=kind)


def _task(grid: Grid, row: Row) -> None:
    """What users' tasks and those of production share."""
    if grid.chance(0.6):
        row["splitrule"] += "," + grid.dice.choice(RULES)
    if grid.chance(0.1):
        row["ramunit"] = grid.pick("MB", "MBPerCoreFixed", None)
    if grid.chance(0.08):
        row["walltime"], row["walltimeunit"] = grid.pick(1, 40), "kSI2kseconds"
        row["cputime"], row["cputimeunit"] = None, None
    if grid.chance(0.06):
        row["corecount"] = grid.pick(0, None)
    if grid.chance(0.04):
        row["resource_type"] = None
    if grid.chance(0.03):
        row["gshare"] = "No Such Share"
    if grid.chance(0.05):
        row["iointensity"] = grid.pick(0, 100, 5000)


def _production(grid: Grid, row: Row) -> None:
    _task(grid, row)
    if grid.chance(0.15):
        row["eventservice"], row["splitrule"] = 1, row["splitrule"] + grid.pick(",ES=50", ",ES=50,EC=2,XJ=3", ",SE=1")
    if grid.chance(0.12):
        row["usejumbo"], row["splitrule"] = grid.pick("W", "R", "P", "L", "D"), row["splitrule"] + ",NJ=3"
        for dataset in grid.tables["jedi_datasets"]:
            if dataset["jeditaskid"] == row["jeditaskid"]:
                dataset["nfileswaiting"] = 0
        if grid.chance(0.7):
            _events(grid, row["jeditaskid"], grid.pick(5, 30))
    if grid.chance(0.08):
        row["splitrule"], row["eventservice"] = row["splitrule"] + ",UC=1,NS=2", grid.pick(1, 2)
    if grid.chance(0.06):
        row["prodsourcelabel"] = "test"
    if grid.chance(0.05):
        row["mergecorecount"], row["mergeramcount"] = grid.pick(1, 8), grid.pick(None, 4000)
    if grid.chance(0.08):
        row["parent_tid"] = grid.dice.randint(FIRST + 1, FIRST + 14)


def _events(grid: Grid, task: int, count: int) -> None:
    for number in range(count):
        grid.add(
            "jedi_events", jeditaskid=task, pandaid=1, fileid=1, job_processid=number, datasetid=1, attemptnr=3,
            status=0, def_min_eventid=number, def_max_eventid=number, processed_upto_eventid=number,
        )  # fmt: skip


def _analysis(grid: Grid, row: Row) -> None:
    _task(grid, row)
    if grid.chance(0.1):
        row["workinggroup"] = grid.pick("phys-higgs", "perf-egamma")
    if grid.chance(0.08):
        row["prodsourcelabel"] = "panda"
    if grid.chance(0.1):
        row["taskpriority"] = grid.pick(2000, 1001)
    if grid.chance(0.15):
        _limited_sites(grid, row)
    if grid.chance(0.05):
        row["cloud"] = grid.pick("WORLD", "any", "DE")
    if grid.chance(0.1):
        row["transuses"] = grid.pick("Atlas-24.0.41", "Atlas-25.2.1", None)
    if grid.chance(0.06):
        row["site"] = f"{grid.dice.choice(grid.sites)}_DATADISK"
    if grid.chance(0.5):
        _ended_jobs(grid, row)
    if grid.chance(0.4):
        _used_queues(grid, row)


def _limited_sites(grid: Grid, row: Row) -> None:
    names = [queue["nickname"] for queue in grid.dice.sample(grid.queues, 3)]
    wanted = grid.pick(names, [*names, "AUTO"], [names[0][:4] + "*"], ",".join(names))
    parameters = {"includedSite": wanted, "excludedSite": grid.pick([], names[:1], "*Q1")}
    row["splitrule"] += ",LS=3"
    for params in grid.tables["jedi_taskparams"]:
        if params["jeditaskid"] == row["jeditaskid"]:
            params["taskparams"] = json.dumps(parameters)


def _ended_jobs(grid: Grid, row: Row) -> None:
    """Jobs of the task that have ended within the last hours: what failures are counted from."""
    for number in range(grid.dice.randint(1, 12)):
        queue, at = grid.dice.choice(grid.queues)["nickname"], grid.ago(minutes=grid.dice.randint(1, 600))
        grid.add(
            "jobsarchived4", pandaid=7_000_000_000 + (row["jeditaskid"] - FIRST) * 1000 + number, vo="atlas",
            jeditaskid=row["jeditaskid"], computingsite=queue, prodsourcelabel="user", gshare=row["gshare"],
            jobstatus=grid.pick("finished", "failed", "failed", "closed", "cancelled"), corecount=1, workqueue_id=1,
            processingtype="panda-client", produsername=row["username"], creationtime=at, modificationtime=at,
            statechangetime=at, starttime=at, endtime=at, lockedby="jedi", resource_type="SCORE", currentpriority=400,
        )  # fmt: skip


def _used_queues(grid: Grid, row: Row) -> None:
    for dataset in grid.tables["jedi_datasets"]:
        if dataset["jeditaskid"] == row["jeditaskid"] and dataset["type"] in ("output", "log"):
            dataset["site"] = grid.dice.choice(grid.queues)["nickname"]


def _quotas(grid: Grid) -> None:
    if grid.kind != "analysis_job":
        return
    for user in ("alice", "bob", "carol", "dave", "phys-higgs"):
        for site in grid.dice.sample(grid.sites, 2):
            limit = grid.pick(0, 10**12, 10**12)
            row = {"account": user, "rse": f"{site}_SCRATCHDISK", "bytes_limit": limit}
            grid.add("rucio_local_usage", **row, bytes=grid.pick(10**9, 10**12, 2 * 10**12))
        if grid.chance(0.15):
            row = {"account": user, "rse_expression": "a first line", "bytes_limit": 10**12}
            grid.add("rucio_account_usage", **row, bytes=grid.pick(9 * 10**11, 91 * 10**10, 2 * 10**12, 1))
