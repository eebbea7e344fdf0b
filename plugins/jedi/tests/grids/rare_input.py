"""Input that is rare: what is to be merged, containers, several datasets, virtual placement, files with limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grids.generator import Grid

Row = dict[str, Any]
FIRST, LAST = 40_000_000, 40_000_100
FIRST_MERGED, FIRST_SECOND = 56_000_000, 57_000_000


def enrich(grid: Grid) -> None:
    """Change the input of a grid that is built."""
    tasks = {row["jeditaskid"]: row for row in grid.tables["jedi_tasks"]}
    inputs = [
        row for row in grid.tables["jedi_datasets"] if row["type"] == "input" and FIRST < row["jeditaskid"] < LAST
    ]
    for dataset in inputs:
        task = tasks[dataset["jeditaskid"]]
        if grid.chance(0.15) and grid.kind != "production_task":
            _to_merge(grid, task, dataset)
        elif grid.chance(0.15):
            _as_container(grid, dataset)
        elif grid.chance(0.1):
            _second(grid, task, dataset)
        elif grid.chance(0.05):
            _pseudo(dataset)
        _events_and_sizes(grid, dataset)
    if grid.kind == "analysis_job":
        _virtual_replicas(grid)


def _name(dataset: Row) -> tuple[str, str]:
    scope, _, name = dataset["datasetname"].partition(":")
    return scope, name


def _files(grid: Grid, dataset: Row) -> list[Row]:
    return [row for row in grid.tables["jedi_dataset_contents"] if row["datasetid"] == dataset["datasetid"]]


def _to_merge(grid: Grid, task: Row, dataset: Row) -> None:
    """The task's files are used; what its jobs made waits to be merged at the queue that made it."""
    dataset["nfilesused"] = dataset["nfiles"]
    for row in _files(grid, dataset):
        row["status"] = "finished"
    task["splitrule"] += ",MO=1" + grid.pick("", ",ZF=5", ",ZF=10,ZE=4000")
    number = FIRST_MERGED + dataset["datasetid"] % 1_000_000
    count, queue = grid.pick(4, 10), grid.dice.choice(grid.queues)["nickname"]
    scope, _ = _name(dataset)
    made = f"{scope}.{number}.HITS.unmerged_tid{number}_00"
    row = {**dataset, "datasetid": number, "datasetname": f"{scope}:{made}", "type": "trn_output", "nfiles": count}
    grid.add("jedi_datasets", **row | {"nfilestobeused": count, "nfilesused": 0, "neventsused": 0, "site": queue,
             "containername": f"{scope}:{made}", "nevents": 1000 * count, "neventstobeused": 1000 * count,
             "modificationtime": grid.ago(hours=grid.pick(1, 30)).isoformat()})  # fmt: skip
    for at in range(count):
        grid.add(
            "jedi_dataset_contents", jeditaskid=task["jeditaskid"], datasetid=number, fileid=number * 100 + at,
            lfn=f"M.{number}._{at:06d}.root", guid=f"m{number}{at}", type="trn_output", status="ready", keeptrack=1,
            fsize=grid.dice.randint(10**7, 10**9), scope=scope, attemptnr=0, maxattempt=5, nevents=1000,
            startevent=None, endevent=None, failedattempt=0, maxfailure=3, ramcount=0,
            creationdate=grid.ago(hours=30),
        )  # fmt: skip
    site = next(one["atlas_site"] for one in grid.queues if one["nickname"] == queue)
    grid.add(
        "dataset_replicas", scope=scope, name=made, rse=f"{site}_DATADISK", is_tape=False, available_files=count,
        total_files=count, available_bytes=count * 10**8, total_bytes=count * 10**8, state="AVAILABLE",
    )  # fmt: skip
    grid.add("dataset_metadata", scope=scope, name=made, did_type="DATASET", length=count, is_open=False,
             rule_groupings=["DATASET"])  # fmt: skip


def _as_container(grid: Grid, dataset: Row) -> None:
    """The dataset becomes a container of two parts, each with the replicas of a half."""
    scope, name = _name(dataset)
    container = f"{name}/"
    dataset["datasetname"] = dataset["containername"] = f"{scope}:{container}"
    total = dataset["nfiles"]
    halves = (total // 2, total - total // 2)
    replicas = [row for row in grid.tables["dataset_replicas"] if row["name"] == name]
    for row in replicas:
        grid.tables["dataset_replicas"].remove(row)
    for row in grid.tables["dataset_metadata"]:
        if row["name"] == name:
            row.update(did_type="CONTAINER", rule_groupings=grid.pick(["DATASET"], ["NONE"], ["ALL"]))
    for part, files in enumerate(halves):
        child = f"{name}_part{part}"
        grid.add("container_contents", scope=scope, name=name, child_scope=scope, child_name=child)
        grid.add("dataset_metadata", scope=scope, name=child, did_type="DATASET", length=files, is_open=False,
                 rule_groupings=["DATASET"])  # fmt: skip
        for row in replicas:
            if grid.chance(0.8):
                here = files if row["available_files"] == row["total_files"] or grid.chance(0.5) else files // 2
                grid.add("dataset_replicas", **row | {"name": child, "total_files": files, "available_files": here,
                         "available_bytes": here * 10**9, "total_bytes": files * 10**9})  # fmt: skip


def _second(grid: Grid, task: Row, dataset: Row) -> None:
    """A secondary dataset, where the first one is or elsewhere."""
    number = FIRST_SECOND + dataset["datasetid"] % 1_000_000
    scope, name = _name(dataset)
    second = f"{scope}.{number}.HITS.second_tid{number}_00"
    count = dataset["nfiles"]
    row = {**dataset, "datasetid": number, "datasetname": f"{scope}:{second}", "masterid": dataset["datasetid"]}
    grid.add("jedi_datasets", **row | {"containername": f"{scope}:{second}", "streamname": "SECOND",
             "attributes": grid.pick(None, "ratio=1", "nosplit", "nosplit,repeat")})  # fmt: skip
    for at in range(count):
        grid.add(
            "jedi_dataset_contents", jeditaskid=task["jeditaskid"], datasetid=number, fileid=number * 100 + at,
            lfn=f"S.{number}._{at:06d}.root", guid=f"s{number}{at}", type="input", status="ready", keeptrack=1,
            fsize=10**8, scope=scope, attemptnr=0, maxattempt=5, nevents=1000, startevent=0, endevent=999,
            failedattempt=0, maxfailure=3, ramcount=0, creationdate=grid.ago(days=3),
        )  # fmt: skip
    of_first = [row for row in grid.tables["dataset_replicas"] if row["name"] == name]
    for row in of_first:
        if grid.chance(0.7):
            rse = row["rse"] if grid.chance(0.7) else f"{grid.dice.choice(grid.sites)}_DATADISK"
            if any(one["name"] == second and one["rse"] == rse for one in grid.tables["dataset_replicas"]):
                continue
            grid.add("dataset_replicas", **row | {"name": second, "rse": rse, "is_tape": rse.endswith("TAPE")})
    grid.add("dataset_metadata", scope=scope, name=second, did_type="DATASET", length=count, is_open=False,
             rule_groupings=["DATASET"])  # fmt: skip


def _pseudo(dataset: Row) -> None:
    dataset.update(type="pseudo_input", datasetname="pseudo_dataset", containername="pseudo_dataset")


def _events_and_sizes(grid: Grid, dataset: Row) -> None:
    files = _files(grid, dataset)
    if dataset["type"] == "pseudo_input":
        for row in files:
            row["type"] = "pseudo_input"
    if grid.chance(0.1):
        memory = grid.pick(1000, 3000)
        for row in files:
            row["ramcount"] = memory if grid.chance(0.5) else 0
    if grid.chance(0.1):
        for row in files:
            row["lumiblocknr"], row["boundaryid"] = row["fileid"] % 3, row["fileid"] % 2
    if grid.chance(0.05):
        for row in files:
            row["ramcount"] = None


def _virtual_replicas(grid: Grid) -> None:
    virtual = [row["ddm_endpoint_name"] for row in grid.tables["ddm_endpoint"] if row["type"] == "VP"]
    if not virtual:
        return
    for row in list(grid.tables["dataset_metadata"]):
        if grid.chance(0.3) and row["did_type"] == "DATASET":
            grid.add(
                "dataset_replicas", scope=row["scope"], name=row["name"], rse=grid.dice.choice(virtual), is_tape=False,
                available_files=None, total_files=None, available_bytes=None, total_bytes=None, state="VP",
            )  # fmt: skip
