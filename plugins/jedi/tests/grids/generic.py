"""A synthetic grid of a VO whose tasks PanDA's generic broker takes, made of one for production."""

from __future__ import annotations

import json
import random
from typing import Any

from grids.generator import scenario as production_scenario

Row = dict[str, Any]
VO = "wlcg"
#: Beside a name of a queue in ``site`` of a task: patterns, some of which find nothing or are none.
PATTERNS = ("SITE00[1-5]", "^UK_", "_Q1\\d$", "Q", "no such queue", "FR|DE", "(", "/SCORE$")


def scenario(seed: int, **kind_of_grid: bool) -> dict[str, Any]:
    """A scenario file's content; ``bent`` and ``rich`` as for a grid of production."""
    content = production_scenario(seed, "production_job", **kind_of_grid)
    dice, tables = random.Random(f"generic {seed}"), content["tables"]
    queues = [row["data"] for row in tables["schedconfig_json"]]
    for data in queues:
        _queue(dice, data)
    for table in ("jobsactive4", "jobsdefined4"):
        for row in tables.get(table, []):
            row["vo"] = dice.choice((VO, VO, "atlas"))
    names = [str(row["panda_queue"]) for row in tables["schedconfig_json"]]
    sites = sorted({row["site_name"] for row in tables["site"]})
    asked = {row["jeditaskid"]: row for row in tables["jedi_taskparams"]}
    for task in tables["jedi_tasks"]:
        _task(dice, task, names, [str(data["cloud"]) for data in queues])
        asked[task["jeditaskid"]]["taskparams"] = json.dumps(_parameters(dice, sites, queues))
    inputs = [row for row in tables["jedi_datasets"] if row["type"] == "input"]
    for dataset in inputs:
        dataset["vo"] = VO
        dataset["site"] = dice.choice((*[None] * 12, dice.choice(names), "NOWHERE"))
        if dice.random() < 0.5:
            _without_input(dataset, tables["jedi_dataset_contents"])
    for dataset in tables["jedi_datasets"]:
        if dataset["type"] in ("output", "log") and dice.random() < 0.3:
            dataset["site"] = dice.choice(names)
    return content


def _queue(dice: random.Random, data: Row) -> None:
    # most of them open, so that chunks of few candidates are not all there is
    data["space"] = dice.choice((None, 0, 199, 200, 5000, 5000, 5000))
    types = ("allowed_processing=simul|recon", "excluded_processing=urgent")
    words = dice.choice(("", "", "", "", "allow_no_pilot", *types))
    if words:
        data["catchall"] = ",".join(one for one in (data.get("catchall"), words) if one)
    if dice.random() < 0.1:
        data["params"] = dict(data.get("params") or {}) | {"allow_no_pilot": True}


def _task(dice: random.Random, task: Row, names: list[str], clouds: list[str]) -> None:
    task |= {
        "vo": VO,
        "prodsourcelabel": dice.choice(("managed", "managed", "managed", "user", "test", "ptest")),
        "nucleus": None,
        "cloud": dice.choice((None, None, "WORLD", "NOWHERE", *[dice.choice(clouds)] * 2)),
        "site": dice.choice((*[None] * 7, dice.choice(names), f"{dice.choice(names)}/SCORE", dice.choice(PATTERNS))),
        "corecount": dice.choice((None, 0, 1, 1, 8, 16)),
        "ramunit": dice.choice(("MB", "MBPerCore", "MBPerCoreFixed")),
        "walltime": dice.choice((None, 0, 3600, 43200, 90000, 300000)),
        "workdiskcount": dice.choice((None, 0, 500, 20000)),
    }


def _parameters(dice: random.Random, sites: list[str], queues: list[Row]) -> Row:
    columns: Row = {}
    if dice.random() < 0.15:
        columns["PandaSite"] = dice.choice((*sites, ""))
    if dice.random() < 0.3:
        columns["cloud"] = dice.choice(queues)["cloud"]
    return columns


def _without_input(dataset: Row, files: list[Row]) -> None:
    dataset |= {"type": "pseudo_input", "datasetname": "pseudo_dataset", "containername": "pseudo_dataset"}
    for file in files:
        if file["datasetid"] == dataset["datasetid"]:
            file |= {"type": "pseudo_input", "fsize": 0, "lfn": f"pseudo_lfn.{file['fileid']}"}
