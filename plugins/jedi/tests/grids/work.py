"""Tasks of a synthetic grid with their datasets, files and replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grids.generator import Grid

PRODUCTION_SHARES = ("MC Simulation", "MC Derivations", "Reprocessing", "Express")
ANALYSIS_SHARES = ("User Analysis", "Express Analysis")
FIRST_TASK, FIRST_DATASET = 40_000_000, 50_000_000


def build_work(grid: Grid) -> None:
    """A dozen tasks for the brokerage of the grid, and the remaining work of others at the nuclei."""
    for number in range(1, 13):
        _task(grid, number)
    if grid.kind == "production_task":
        for number in range(100, 112):
            _running_elsewhere(grid, number)


def _task(grid: Grid, number: int) -> None:
    analysis = grid.kind == "analysis_job"
    task = FIRST_TASK + number
    cores = grid.pick(1, 8)
    memory = grid.pick(1500, 1900, 2000, 2500, 3900)
    himem = "_HIMEM" if memory * 0.9 > 2000 else ""
    columns: dict[str, Any] = {
        "jeditaskid": task, "taskname": f"task.{task}", "vo": "atlas", "parent_tid": task, "attemptnr": 1,
        "status": {"production_task": "assigning"}.get(grid.kind, grid.pick("ready", "running", "scouting")),
        "username": grid.pick("alice", "bob", "carol", "dave"), "creationdate": grid.ago(days=3),
        "modificationtime": grid.ago(hours=2), "frozentime": grid.pick(None, None, None, grid.ago(hours=30)),
        "prodsourcelabel": "user" if analysis else "managed", "corecount": cores,
        "tasktype": "anal" if analysis else "prod", "taskpriority": (priority := grid.pick(100, 400, 900, 1000)),
        "currentpriority": priority + grid.pick(0, 0, 5),
        "processingtype": "panda-client-1.5-jedi-athena" if analysis else grid.pick("simul", "recon", "urgent"),
        "architecture": grid.pick("x86_64-el9-gcc13-opt", "x86_64-centos7-gcc11-opt", "x86_64-el9-gcc13-opt#x86_64"),
        "transhome": "AnalysisTransforms-Athena_24.0.41.1" if analysis else grid.pick("AtlasOffline-24.0.41", None),
        "transpath": "x.py", "splitrule": _split_rule(grid, analysis), "outdiskcount": grid.pick(200, 2000, None),
        "outdiskunit": "kB", "workdiskcount": grid.pick(500, 0, None), "workdiskunit": "MB", "ramcount": memory,
        "ramunit": "MBPerCore", "baseramcount": grid.pick(0, 0, 500), "iointensity": grid.pick(20, 150, 600, None),
        "iointensityunit": "kBPerS", "workqueue_id": 1, "cloud": None if analysis else "WORLD",
        "eventservice": 0, "cputime": grid.pick(1, 1, 60, 60, 600), "cputimeunit": "HS06sPerEvent",
        "cpuefficiency": grid.pick(90, 90, 0), "basewalltime": grid.pick(0, 600), "goal": 1000,
        "nucleus": grid.dice.choice(grid.nuclei) if grid.kind == "production_job" else None,
        "gshare": grid.dice.choice(ANALYSIS_SHARES if analysis else PRODUCTION_SHARES),
        "resource_type": ("SCORE" if cores == 1 else "MCORE") + himem, "diskio": grid.pick(None, 100, 1000),
        "diskiounit": "kBPerS", "superstatus": "running", "campaign": "mc23", "reqid": 1,
    }  # fmt: skip
    grid.add("jedi_tasks", **columns)
    grid.add("jedi_taskparams", jeditaskid=task, taskparams="{}")
    if analysis and grid.chance(0.5):
        row = {"jeditaskid": task, "metric": "analy_task_eval", "value_json": {"class": grid.pick(-1, 0, 1, 2)}}
        grid.add("task_evaluation", **row, timestamp=grid.ago(minutes=6))
    dataset = FIRST_DATASET + 3 * number
    _input(grid, task, dataset)
    for position, kind in enumerate(("output", "log"), start=1):
        grid.add(
            "jedi_datasets", jeditaskid=task, datasetid=dataset + position, datasetname=f"x.{dataset + position}",
            type=kind, vo="atlas", status="defined", nfiles=0, nfilestobeused=0, nfilesused=0, nfilesfinished=0,
            nfilesfailed=0, nfilesonhold=0, storagetoken="ATLASDATADISK", creationtime=grid.ago(days=3),
            modificationtime=grid.ago(days=2), streamname=kind.upper(),
        )  # fmt: skip


def _split_rule(grid: Grid, analysis: bool) -> str:
    tokens = [f"NF={grid.pick(1, 5, 10)}"]
    for token, probability in (("TW=1", 0.1), ("LI=1", 0.1), ("IL=1", 0.15), ("IP=1", 0.1), ("IW=1", 0.1)):
        if grid.chance(probability):
            tokens.append(token)
    if grid.chance(0.2):
        tokens.append(grid.pick("US=2", "US=1", "US=3"))
    if not analysis and grid.chance(0.1):
        tokens.append(grid.pick("FU=1", "FU=3"))
    return ",".join(tokens)


def _input(grid: Grid, task: int, dataset: int) -> None:
    files, scope = grid.pick(3, 11, 12, 60), "mc23_13p6TeV"
    name = f"{scope}.{dataset}.AOD.e1_tid{dataset}_00"
    grid.add(
        "jedi_datasets", jeditaskid=task, datasetid=dataset, datasetname=f"{scope}:{name}",
        containername=f"{scope}:{name}", type="input", vo="atlas", status="ready", state="closed", nfiles=files,
        nfilestobeused=files, nfilesused=0, nfilesfinished=0, nfilesfailed=0, nfilesonhold=0, nfilesmissing=0,
        nevents=1000 * files, neventstobeused=1000 * files, neventsused=0, streamname="IN",
        creationtime=grid.ago(days=3), modificationtime=grid.ago(days=1),
    )  # fmt: skip
    for at in range(files):
        grid.add(
            "jedi_dataset_contents", jeditaskid=task, datasetid=dataset, fileid=dataset * 100 + at,
            lfn=f"F.{dataset}._{at:06d}.root", guid=f"g{dataset}{at}", type="input", status="ready",
            fsize=grid.dice.randint(10**7, 3 * 10**9), scope=scope, attemptnr=0, maxattempt=5, nevents=1000,
            keeptrack=1, startevent=0, endevent=999, failedattempt=0, maxfailure=3, ramcount=0,
            creationdate=grid.ago(days=3),
        )  # fmt: skip
    places = grid.dice.sample(grid.sites, grid.pick(1, 2, 4))
    for place, site in enumerate(places):
        here = files if place == 0 or grid.chance(0.6) else grid.dice.randint(0, files)
        kind = "DATATAPE" if site in grid.nuclei and grid.chance(0.15) else "DATADISK"
        grid.add(
            "dataset_replicas", scope=scope, name=name, rse=f"{site}_{kind}", is_tape=kind == "DATATAPE",
            available_files=here, total_files=files, available_bytes=here * 10**9, total_bytes=files * 10**9,
            state="AVAILABLE",
        )  # fmt: skip
    grid.add(
        "dataset_metadata", scope=scope, name=name, did_type="DATASET", length=files, is_open=False,
        rule_groupings=grid.pick(["DATASET"], ["DATASET"], ["DATASET"], ["NONE"]),
    )  # fmt: skip


def _running_elsewhere(grid: Grid, number: int) -> None:
    task, dataset = FIRST_TASK + number, FIRST_DATASET + 3 * number
    grid.add(
        "jedi_tasks", jeditaskid=task, taskname=f"task.{task}", status=grid.pick("running", "ready", "pending"),
        vo="atlas", prodsourcelabel="managed", cloud="WORLD", nucleus=grid.dice.choice(grid.nuclei), workqueue_id=1,
        gshare=grid.dice.choice(PRODUCTION_SHARES), currentpriority=grid.pick(100, 900), taskpriority=400,
        cputime=grid.pick(10, 600), cputimeunit="HS06sPerEvent", creationdate=grid.ago(days=9), parent_tid=task,
        modificationtime=grid.ago(hours=2), attemptnr=1,
    )  # fmt: skip
    grid.add(
        "jedi_datasets", jeditaskid=task, datasetid=dataset, datasetname=f"mc23_13p6TeV:x.{dataset}", type="input",
        vo="atlas", status="ready", nfiles=100, nfilestobeused=100, nfilesused=50, nfilesfinished=10, nfilesfailed=0,
        nfilesonhold=0, nevents=1_000_000, neventstobeused=1_000_000, neventsused=grid.pick(0, 500_000),
        creationtime=grid.ago(days=9), modificationtime=grid.ago(days=1),
    )  # fmt: skip
