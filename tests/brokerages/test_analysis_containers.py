"""Analysis input in containers, in parts and by virtual placement, tested through whole cycles.

Source: PanDA analysis brokerage, decisions on points that the specification leaves open.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.scenarios.load_dump import load
from tests.brokerages.analysis_grid import SHARE, analysis, decide_one, user_task, weights_of
from tests.brokerages.small_grid import dataset, replica

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE"
ANYWHERE = {"taskpriority": 2000}
PARTS = ("mc.one", "mc.two")
SHARES = [{"name": SHARE, "value": 100, "parent": None}]


def container(
    available_at: dict[str, tuple[int, int]],
    sizes: tuple[int, int],
    groupings: list[str] | None = None,
    columns: dict[str, Any] | None = None,
    **tables: Any,
) -> Any:
    """Make a container of two datasets of ``sizes`` files of 2 GiB; ``available_at`` gives the files at each site."""
    rows = [
        replica(site, available, size) | {"name": name}
        for site, counts in available_at.items()
        for name, available, size in zip(PARTS, counts, sizes, strict=True)
        if available
    ]
    metadata = [{"scope": "mc", "name": "mc.input", "did_type": "CONTAINER", "rule_groupings": groupings}]
    contents = [{"scope": "mc", "name": "mc.input", "child_scope": "mc", "child_name": name} for name in PARTS]
    defaults = {
        "jedi_tasks": [user_task(**(columns or {}))],
        "jedi_datasets": [dataset(sum(sizes), datasetname="mc:mc.input/")],
        "dataset_replicas": rows,
        "dataset_metadata": metadata if groupings is not None else [],
        "container_contents": contents,
    }
    return analysis(sum(sizes), **(defaults | tables))


@pytest.mark.parametrize("groupings", [["DATASET"], ["NONE"], []])
@pytest.mark.parametrize(
    ("available_at", "expected"),
    [
        # only incomplete constituents
        ({"ALPHA": (10, 10)}, set()),
        ({"ALPHA": (19, 0), "BETA": (0, 19)}, set()),
        # complete constituents at different sites
        ({"ALPHA": (20, 0), "BETA": (0, 20)}, {ALPHA, BETA}),
        ({"ALPHA": (20, 0), "BETA": (0, 10)}, {ALPHA, BETA}),
        # all at one site: the container is not distributed, whatever its rules say
        ({"ALPHA": (20, 20), "BETA": (0, 20)}, {ALPHA}),
    ],
)
def test_constituents_of_a_distributed_container_must_be_complete(
    database: Database, available_at: dict[str, tuple[int, int]], expected: set[str], groupings: list[str]
) -> None:
    decision = decide_one(database, container(available_at, (20, 20), groupings))
    assert set(weights_of(decision)) == expected
    assert decision["reason"] == ("" if expected else "no_complete_replica")


@pytest.mark.parametrize(
    ("available_at", "profile", "expected"),
    [
        # BETA has only incomplete constituents
        ({"ALPHA": (20, 0), "BETA": (10, 10)}, "seed", {ALPHA, BETA}),
        ({"ALPHA": (20, 0), "BETA": (10, 10)}, "panda", {ALPHA}),
        ({"ALPHA": (20, 0), "BETA": (0, 20)}, "panda", {ALPHA, BETA}),
        ({"ALPHA": (20, 20), "BETA": (0, 20)}, "panda", {ALPHA}),
    ],
)
def test_every_container_is_distributed_in_profile_panda(
    database: Database, available_at: dict[str, tuple[int, int]], profile: str, expected: set[str]
) -> None:
    rules = ["ALL"] if profile == "panda" else ["DATASET"]
    grid = container(available_at, (20, 20), rules, {"cloud": None}, global_shares=SHARES)
    assert set(weights_of(decide_one(database, grid, profile=profile))) == expected


def test_a_virtual_placement_in_a_container_is_one_file_in_profile_panda(database: Database) -> None:
    """GAMMA_TEST reads the placement, ALPHA has the other constituent; neither has all 21 files of the container."""
    grid = vp_grid("GAMMA_VP_DISK")
    parts = container({"ALPHA": (20, 0)}, (20, 1), ["DATASET"], {"cloud": None}).tables
    placement = grid.tables["dataset_replicas"][1] | {"name": PARTS[1], "total_files": 1}
    grid.tables.update(
        {name: rows for name, rows in parts.items() if name.startswith(("jedi_", "container", "dataset_m"))}
    )
    grid.tables["dataset_replicas"] = [*parts["dataset_replicas"], placement]
    grid.tables["global_shares"] = SHARES
    decision = decide_one(database, grid, profile="panda")
    # a complete copy there would be the only one; distributed input avoids queues with virtual placement
    assert (set(weights_of(decision)), decision["rejected"]["GAMMA_TEST"]) == ({ALPHA}, "avoid_vp")


@pytest.mark.parametrize(
    ("available_at", "expected"), [({"ALPHA": 20, "BETA": 10}, {ALPHA}), ({"ALPHA": 10, "BETA": 10}, {ALPHA, BETA})]
)
def test_a_dataset_that_is_complete_at_one_site_is_not_distributed(
    database: Database, available_at: dict[str, int], expected: set[str]
) -> None:
    metadata = [{"scope": "mc", "name": "mc.input", "rule_groupings": ["NONE"]}]
    copies = [replica(site, available, 20) for site, available in available_at.items()]
    assert (
        set(weights_of(decide_one(database, analysis(20, dataset_replicas=copies, dataset_metadata=metadata))))
        == expected
    )


@pytest.mark.parametrize(
    ("available_at", "gib"),
    [
        # the first three files belong to the first constituent
        ({"ALPHA": (3, 0), "BETA": (3, 5)}, 6),
        # the last five, files 4 to 8, belong to the second; the chunk has files 4 to 6 of them
        ({"ALPHA": (0, 5), "BETA": (3, 5)}, 6),
        # an incomplete constituent counts as empty
        ({"ALPHA": (3, 4), "BETA": (3, 5)}, 6),
        ({"ALPHA": (2, 5), "BETA": (3, 5)}, 6),
        ({"ALPHA": (2, 4), "BETA": (3, 5)}, 0),
        ({"ALPHA": (3, 5), "BETA": (3, 5)}, 12),
    ],
)
def test_files_of_a_container_belong_to_its_constituents_in_order(
    database: Database, available_at: dict[str, tuple[int, int]], gib: int
) -> None:
    """The last two of eight files are not ready; ``gib`` GiB of the chunk are at ALPHA."""
    grid = container(available_at, (3, 5), ["DATASET"], ANYWHERE)
    for row in grid.tables["jedi_dataset_contents"][6:]:
        row["status"] = "finished"
    available = weights_of(decide_one(database, grid))
    assert (available[ALPHA], available[BETA]) == (pytest.approx(1 + gib / 10), pytest.approx(2.2))


def vp_grid(endpoint: str) -> Any:
    """Make a grid with a virtual placement at an endpoint that only GAMMA_TEST reads; ALPHA has most files on tape."""
    grid = analysis(
        20,
        jedi_tasks=[user_task(cloud=None)],
        dataset_replicas=[
            replica("ALPHA", 19, 20) | {"rse": "ALPHA_TAPE"},
            replica("BETA", 0, 20) | {"rse": endpoint, "state": "VP", "available_files": None},
        ],
    )
    storage, tape = ({**grid.tables["ddm_endpoint"][0], "ddm_endpoint_name": name} for name in (endpoint, "ALPHA_TAPE"))
    tape |= {"type": "DATATAPE", "is_tape": "Y"}
    grid.tables["ddm_endpoint"] += [storage, tape]
    reads = {**grid.tables["panda_ddm_relation"][0], "roles": "read_lan", "order_read": 2, "default_read": "N"}
    reads |= {"default_write": "N", "order_write": None}
    grid.tables["panda_ddm_relation"] += [
        reads | {"panda_site_name": "GAMMA_TEST", "ddm_endpoint_name": endpoint},
        reads | {"panda_site_name": ALPHA, "ddm_endpoint_name": "ALPHA_TAPE"},
    ]
    return grid


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [("GAMMA_VP_DISK", {"GAMMA_TEST"}), ("GAMMA_VIRTUAL", {ALPHA}), ("GAMMA_VP_DISK_2", {ALPHA})],
)
def test_virtual_placements_count_only_at_vp_endpoints(database: Database, endpoint: str, expected: set[str]) -> None:
    """Otherwise the tape of ALPHA, with one file missing, is the only copy."""
    assert set(weights_of(decide_one(database, vp_grid(endpoint)))) == expected


@pytest.mark.parametrize(
    ("files_at", "is_tape", "code"),
    [
        ({"BETA_DATADISK": (0, 1), "BETA_MORE": (2, 3)}, "N", None),
        ({"BETA_DATADISK": (0, 1), "BETA_MORE": (1, 2)}, "N", "fileunavailable"),
        # disk and tape are not combined
        ({"BETA_DATADISK": (0, 1), "BETA_MORE": (2, 3)}, "Y", "fileunavailable"),
        ({"BETA_DATADISK": (0,), "BETA_MORE": (0, 1, 2, 3)}, "Y", None),
        ({}, "N", "fileunavailable"),
    ],
)
def test_files_at_several_endpoints_of_a_queue_are_combined(
    database: Database, files_at: dict[str, tuple[int, ...]], is_tape: str, code: str | None
) -> None:
    """BETA reads only local data and has two of four files at each of two endpoints; ALPHA has all."""
    grid = analysis(
        jedi_tasks=[user_task(**ANYWHERE)],
        dataset_replicas=[
            *(replica("ALPHA", 4, 4), replica("BETA", 2, 4), replica("BETA", 2, 4) | {"rse": "BETA_MORE"}),
        ],
        file_replicas=[
            {"scope": "mc", "name": f"file.{number:04d}", "rse": rse}
            for rse, files in files_at.items()
            for number in files
        ],
    )
    grid.tables["schedconfig_json"][1]["data"]["catchall"] = "use_only_local_data"
    beta = next(row for row in grid.tables["ddm_endpoint"] if row["site_name"] == "BETA")
    grid.tables["ddm_endpoint"].append(beta | {"ddm_endpoint_name": "BETA_MORE", "is_tape": is_tape})
    reads = next(row for row in grid.tables["panda_ddm_relation"] if row["panda_site_name"] == "BETA")
    changes = {"ddm_endpoint_name": "BETA_MORE", "roles": "read_lan", "order_read": 2, "default_read": "N"}
    grid.tables["panda_ddm_relation"].append(reads | changes | {"default_write": "N", "order_write": None})
    assert decide_one(database, grid)["rejected"].get(BETA) == code


def test_a_replica_of_a_container_is_refused_with_a_note(database: Database) -> None:
    """ALPHA has all constituents; the replica row of the container is at BETA."""
    grid = container({"ALPHA": (2, 2)}, (2, 2), ["DATASET"])
    grid.tables["dataset_replicas"].append(replica("BETA", 4, 4) | {"name": "mc.input/"})
    load(database, grid)
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        work = load_work(connection, catalogue, WorkSelection(labels_excluded=False))
    assert work.work.replicas.rse.tolist() == ["ALPHA_DATADISK"]
    (note,) = work.work.dropped_rows
    assert (note.source, note.identifier, note.code) == (
        "dataset_replicas",
        "mc:mc.input/ at BETA_DATADISK",
        "container_replica",
    )
