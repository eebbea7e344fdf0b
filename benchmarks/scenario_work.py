"""The work of a synthetic grid: tasks of many kinds with one input dataset each, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIRST_TASK = 50_000_000
FIRST_DATASET = 70_000_000
FIRST_FILE = 900_000_000
EVENTS_A_FILE = 1000
FILE_BYTES = 400_000_000
DAYS_AGO = "2026-07-29T12:00:00"
HOUR_AGO = "2026-08-01T11:00:00"
SCOPE = "mc23_13p6TeV"
PROCESSING = ("simul", "simul", "evgen", "pile", "recon", "deriv", "reprocessing", "group", "merge", "urgent")
# more split rule tokens, and how often each occurs
RULES = ("", "IL=1", "IP=1", "IP=2", "IK=6", "CC=8", "TW=2", "TW=-1", "IL=2", "MO=1", "FU=3", "US=2")
RULE_WEIGHTS = (0.55, 0.12, 0.05, 0.05, 0.04, 0.04, 0.03, 0.01, 0.03, 0.03, 0.02, 0.03)

Columns = Mapping[str, Sequence[Any]]
Ints = NDArray[np.int64]


def work_tables(
    nuclei: Sequence[str],
    sites: Sequence[str],
    queues: Sequence[str],
    shares: Sequence[str],
    tasks: int,
    jobs: int,
    rng: np.random.Generator,
) -> dict[str, Columns]:
    """Make the tables of tasks, datasets, files and replicas.

    Args:
        nuclei: the sites that may be the nucleus of a task.
        sites: the sites that may hold replicas.
        queues: the names for the few tasks with a list of pre-assigned queues.
        shares: the leaf shares.
        tasks: the number of tasks.
        jobs: the jobs of all tasks together; one in five tasks has two files per job, the others one.
        rng: the random generator.
    """
    jobs_of = np.full(tasks, jobs // tasks, dtype=np.int64)
    jobs_of[: jobs % tasks] += 1
    files_a_job = np.where(np.arange(tasks) % 5 == 4, 2, 1)
    files_of = jobs_of * files_a_job
    task = _task_columns(nuclei, queues, shares, files_a_job, rng)
    pseudo = np.array([kind == "evgen" for kind in task["processingtype"]])
    return {
        "jedi_tasks": task,
        "jedi_datasets": _dataset_columns(files_of, pseudo),
        "jedi_dataset_contents": _file_columns(files_of, pseudo),
        "dataset_replicas": _replica_columns(sites, task["nucleus"], files_of, pseudo, rng),
        "dataset_metadata": _metadata_columns(files_of, pseudo),
    }


def _task_columns(
    nuclei: Sequence[str], queues: Sequence[str], shares: Sequence[str], files_a_job: Ints, rng: np.random.Generator
) -> Columns:
    tasks = len(files_a_job)
    ids = range(FIRST_TASK, FIRST_TASK + tasks)
    cores = rng.choice([8, 1, 0], size=tasks, p=[0.3, 0.1, 0.6])
    ram = rng.choice([0, 1500, 1900, 2400], size=tasks, p=[0.68, 0.14, 0.12, 0.06])
    share = rng.integers(len(shares), size=tasks)
    rules = rng.choice(len(RULES), size=tasks, p=RULE_WEIGHTS)
    is_scout = [RULES[rule] == "US=2" for rule in rules]
    is_pinned = (rng.random(tasks) < 0.02) & (rules == 0)
    # queues 0, 7, 14, 21 are generous, queue 11 is at the nucleus without remote writes (60 characters fit)
    pinned_queues = ",".join([*queues[: 7 * 4 : 7], *queues[11:12]])
    return {
        "jeditaskid": ids,
        "taskname": [f"bench.{number}" for number in ids],
        "status": ["scouting" if flag else "running" for flag in is_scout],
        "username": ["bench"] * tasks,
        "creationdate": [DAYS_AGO] * tasks,
        "modificationtime": [HOUR_AGO] * tasks,
        "prodsourcelabel": ["managed"] * tasks,
        "workinggroup": _draw(("AP_PROD", "AP_SUSY", "AP_HIGG"), tasks, rng),
        "vo": ["atlas"] * tasks,
        "tasktype": ["prod"] * tasks,
        "processingtype": _draw(PROCESSING, tasks, rng),
        "currentpriority": rng.choice([140, 250, 400, 550, 700, 820, 930], size=tasks).tolist(),
        "taskpriority": [400] * tasks,
        "corecount": cores.tolist(),
        "ramcount": ram.tolist(),
        "ramunit": ["MBPerCore"] * tasks,
        "baseramcount": [300] * tasks,
        **_demand(tasks, rng),
        "architecture": ["x86_64-el9-gcc13-opt"] * tasks,
        "transhome": ["Athena-24.0.62"] * tasks,
        "splitrule": [
            f"NF={number}" + (f",{RULES[rule]}" if RULES[rule] else "")
            for number, rule in zip(files_a_job, rules, strict=True)
        ],
        "workqueue_id": (share + 9001).tolist(),
        "gshare": [shares[number] for number in share],
        "resource_type": ["SCORE" if number == 1 else "MCORE" for number in cores],
        "cloud": ["WORLD"] * tasks,
        "site": [pinned_queues if flag else None for flag in is_pinned],
        "nucleus": _draw(nuclei, tasks, rng),
        "parent_tid": ids,
        "eventservice": ((rng.random(tasks) < 0.06) & (cores == 8)).astype(int).tolist(),
        "attemptnr": [1] * tasks,
    }


def _demand(tasks: int, rng: np.random.Generator) -> Columns:
    """Make the demands of one job of each task; some tasks have no estimate of their CPU time."""
    return {
        "cputime": [None if number > 1000 else number for number in rng.integers(5, 1030, size=tasks).tolist()],
        "cputimeunit": ["HS06sPerEvent"] * tasks,
        "cpuefficiency": [90] * tasks,
        "basewalltime": [600] * tasks,
        "outdiskcount": rng.integers(50, 900, size=tasks).tolist(),
        "outdiskunit": ["kBPerEvent"] * tasks,
        "workdiskcount": rng.integers(100, 9000, size=tasks).tolist(),
        "workdiskunit": ["MB"] * tasks,
        "iointensity": rng.choice([0, 80, 190, 400], size=tasks, p=[0.3, 0.3, 0.3, 0.1]).tolist(),
        "diskio": rng.choice([0, 10, 100, 300], size=tasks).tolist(),
    }


def _draw(values: Sequence[str], size: int, rng: np.random.Generator) -> list[str]:
    return [values[number] for number in rng.integers(len(values), size=size)]


def _name(number: int) -> str:
    return f"{SCOPE}.{number}.bench.input.e1_tid{number}_00"


def _dataset_columns(files_of: Ints, pseudo: NDArray[np.bool_]) -> Columns:
    tasks = len(files_of)
    ids = range(FIRST_TASK, FIRST_TASK + tasks)
    names = ["pseudo_dataset" if flag else f"{SCOPE}:{_name(number)}" for number, flag in zip(ids, pseudo, strict=True)]
    return {
        "jeditaskid": ids,
        "datasetid": range(FIRST_DATASET, FIRST_DATASET + tasks),
        "datasetname": names,
        "containername": names,
        "type": ["pseudo_input" if flag else "input" for flag in pseudo],
        "vo": ["atlas"] * tasks,
        "status": ["ready"] * tasks,
        # the input may still grow, so that scouting tasks make scout jobs from it
        "state": ["mutable"] * tasks,
        "streamname": ["IN"] * tasks,
        "nfiles": files_of.tolist(),
        "nfilestobeused": files_of.tolist(),
        "nfilesused": [0] * tasks,
        "nfilesfinished": [0] * tasks,
        "nfilesfailed": [0] * tasks,
        "nevents": (files_of * EVENTS_A_FILE).tolist(),
        "neventstobeused": (files_of * EVENTS_A_FILE).tolist(),
        "neventsused": [0] * tasks,
        "creationtime": [DAYS_AGO] * tasks,
        "modificationtime": [DAYS_AGO] * tasks,
    }


def _file_columns(files_of: Ints, pseudo: NDArray[np.bool_]) -> Columns:
    files = int(files_of.sum())
    task = np.repeat(np.arange(len(files_of)), files_of)
    is_pseudo = pseudo[task]
    return {
        "jeditaskid": (task + FIRST_TASK).tolist(),
        "datasetid": (task + FIRST_DATASET).tolist(),
        "fileid": range(FIRST_FILE, FIRST_FILE + files),
        "lfn": [f"EVNT.{number:09d}.root" for number in range(files)],
        "type": np.where(is_pseudo, "pseudo_input", "input").tolist(),
        "status": ["ready"] * files,
        "fsize": [None if flag else FILE_BYTES for flag in is_pseudo],
        "scope": [SCOPE] * files,
        "attemptnr": [0] * files,
        "maxattempt": [5] * files,
        "failedattempt": [0] * files,
        "maxfailure": [3] * files,
        "keeptrack": [1] * files,
        "nevents": [EVENTS_A_FILE] * files,
        "startevent": [0] * files,
        "endevent": [EVENTS_A_FILE - 1] * files,
        "ramcount": [0] * files,
        "creationdate": [DAYS_AGO] * files,
    }


def _replica_columns(
    sites: Sequence[str], nucleus: Sequence[str], files_of: Ints, pseudo: NDArray[np.bool_], rng: np.random.Generator
) -> Columns:
    """Make a complete replica at the nucleus, and for some tasks a partial one at another site."""
    rows: list[tuple[str, str, int, int]] = []
    for task, files in enumerate(files_of.tolist()):
        if pseudo[task]:
            continue
        rows.append((_name(FIRST_TASK + task), nucleus[task], files, files))
        second_site = sites[int(rng.integers(len(sites)))]
        if second_site != nucleus[task]:
            rows.append((_name(FIRST_TASK + task), second_site, int(rng.integers(files + 1)), files))
    return {
        "scope": [SCOPE] * len(rows),
        "name": [row[0] for row in rows],
        "rse": [f"{row[1]}_DATADISK" for row in rows],
        "is_tape": [False] * len(rows),
        "available_files": [row[2] for row in rows],
        "total_files": [row[3] for row in rows],
        "available_bytes": [row[2] * FILE_BYTES for row in rows],
        "total_bytes": [row[3] * FILE_BYTES for row in rows],
        "state": ["AVAILABLE" if row[2] == row[3] else "UNAVAILABLE" for row in rows],
    }


def _metadata_columns(files_of: Ints, pseudo: NDArray[np.bool_]) -> Columns:
    datasets = np.flatnonzero(~pseudo)
    return {
        "scope": [SCOPE] * len(datasets),
        "name": [_name(FIRST_TASK + int(task)) for task in datasets],
        "did_type": ["DATASET"] * len(datasets),
        "length": files_of[datasets].tolist(),
        "is_open": [False] * len(datasets),
        "rule_groupings": [["DATASET"]] * len(datasets),
    }
