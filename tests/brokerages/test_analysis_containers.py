"""Input of analysis in containers, in parts, and by virtual placement, each seen in the outcome of a whole cycle.

Source: PanDA analysis brokerage, decisions on what the specification leaves open.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.scenarios.load_dump import load
from tests.brokerages.analysis_grid import SHARE, analysis, chosen, decided, user_task
from tests.brokerages.small_grid import dataset, replica

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE"
ANYWHERE = {"taskpriority": 2000}
PARTS = ("mc.one", "mc.two")
SHARES = [{"name": SHARE, "value": 100, "parent": None}]


def container(
    held: dict[str, tuple[int, int]],
    sizes: tuple[int, int],
    groupings: list[str] | None = None,
    columns: dict[str, Any] | None = None,
    **tables: Any,
) -> Any:
    """A container of two datasets with so many files of 2 GiB, of which each site holds so many of either."""
    rows = [
        replica(site, found, size) | {"name": name}
        for site, both in held.items()
        for name, found, size in zip(PARTS, both, sizes, strict=True)
        if found
    ]
    metadata = [{"scope": "mc", "name": "mc.input", "did_type": "CONTAINER", "rule_groupings": groupings}]
    contents = [{"scope": "mc", "name": "mc.input", "child_scope": "mc", "child_name": name} for name in PARTS]
    own = {
        "jedi_tasks": [user_task(**(columns or {}))],
        "jedi_datasets": [dataset(sum(sizes), datasetname="mc:mc.input/")],
        "dataset_replicas": rows,
        "dataset_metadata": metadata if groupings is not None else [],
        "container_contents": contents,
    }
    return analysis(sum(sizes), **(own | tables))


@pytest.mark.parametrize("groupings", [["DATASET"], ["NONE"], []])
@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        # only parts of constituents, anywhere
        ({"ALPHA": (10, 10)}, set()),
        ({"ALPHA": (19, 0), "BETA": (0, 19)}, set()),
        # complete ones at different places
        ({"ALPHA": (20, 0), "BETA": (0, 20)}, {ALPHA, BETA}),
        ({"ALPHA": (20, 0), "BETA": (0, 10)}, {ALPHA, BETA}),
        # all at one place: it is not distributed, whatever its rules say
        ({"ALPHA": (20, 20), "BETA": (0, 20)}, {ALPHA}),
    ],
)
def test_a_container_is_distributed_by_complete_constituents(
    database: Database, held: dict[str, tuple[int, int]], wanted: set[str], groupings: list[str]
) -> None:
    decision = decided(database, container(held, (20, 20), groupings))
    assert set(chosen(decision)) == wanted
    assert decision["reason"] == ("" if wanted else "no_complete_replica")


@pytest.mark.parametrize(
    ("held", "profile", "wanted"),
    [
        # BETA has nothing but parts of constituents
        ({"ALPHA": (20, 0), "BETA": (10, 10)}, "seed", {ALPHA, BETA}),
        ({"ALPHA": (20, 0), "BETA": (10, 10)}, "panda", {ALPHA}),
        ({"ALPHA": (20, 0), "BETA": (0, 20)}, "panda", {ALPHA, BETA}),
        ({"ALPHA": (20, 20), "BETA": (0, 20)}, "panda", {ALPHA}),
    ],
)
def test_every_container_is_distributed_in_profile_panda(
    database: Database, held: dict[str, tuple[int, int]], profile: str, wanted: set[str]
) -> None:
    rules = ["ALL"] if profile == "panda" else ["DATASET"]
    loaded = container(held, (20, 20), rules, {"cloud": None}, global_shares=SHARES)
    assert set(chosen(decided(database, loaded, profile=profile))) == wanted


def test_a_virtual_placement_in_a_container_is_one_file_in_profile_panda(database: Database) -> None:
    """GAMMA_TEST reads it, ALPHA has the other constituent: with one file of 21 the container is incomplete at both."""
    loaded = at_vp("GAMMA_VP_DISK")
    parts = container({"ALPHA": (20, 0)}, (20, 1), ["DATASET"], {"cloud": None}).tables
    placement = loaded.tables["dataset_replicas"][1] | {"name": PARTS[1], "total_files": 1}
    loaded.tables.update(
        {name: rows for name, rows in parts.items() if name.startswith(("jedi_", "container", "dataset_m"))}
    )
    loaded.tables["dataset_replicas"] = [*parts["dataset_replicas"], placement]
    loaded.tables["global_shares"] = SHARES
    decision = decided(database, loaded, profile="panda")
    # a complete copy there would be the only one; distributed input keeps away from queues of virtual placement
    assert (set(chosen(decision)), decision["rejected"]["GAMMA_TEST"]) == ({ALPHA}, "avoid_vp")


@pytest.mark.parametrize(
    ("held", "wanted"), [({"ALPHA": 20, "BETA": 10}, {ALPHA}), ({"ALPHA": 10, "BETA": 10}, {ALPHA, BETA})]
)
def test_a_dataset_that_is_complete_at_one_place_is_not_distributed(
    database: Database, held: dict[str, int], wanted: set[str]
) -> None:
    metadata = [{"scope": "mc", "name": "mc.input", "rule_groupings": ["NONE"]}]
    copies = [replica(site, found, 20) for site, found in held.items()]
    assert set(chosen(decided(database, analysis(20, dataset_replicas=copies, dataset_metadata=metadata)))) == wanted


@pytest.mark.parametrize(
    ("held", "gib"),
    [
        # the first three files are those of the first constituent
        ({"ALPHA": (3, 0), "BETA": (3, 5)}, 6),
        # the last five those of the second: files 4 to 8, of which the chunk has 4 to 6
        ({"ALPHA": (0, 5), "BETA": (3, 5)}, 6),
        # a partial one holds none of its files
        ({"ALPHA": (3, 4), "BETA": (3, 5)}, 6),
        ({"ALPHA": (2, 5), "BETA": (3, 5)}, 6),
        ({"ALPHA": (2, 4), "BETA": (3, 5)}, 0),
        ({"ALPHA": (3, 5), "BETA": (3, 5)}, 12),
    ],
)
def test_files_of_a_container_belong_to_its_constituents_in_order(
    database: Database, held: dict[str, tuple[int, int]], gib: int
) -> None:
    """Eight files, of which the last two are not ready: so many GiB of the chunk are at ALPHA."""
    loaded = container(held, (3, 5), ["DATASET"], ANYWHERE)
    for row in loaded.tables["jedi_dataset_contents"][6:]:
        row["status"] = "finished"
    found = chosen(decided(database, loaded))
    assert (found[ALPHA], found[BETA]) == (pytest.approx(1 + gib / 10), pytest.approx(2.2))


def at_vp(endpoint: str) -> Any:
    """A grid with one more endpoint, which only GAMMA_TEST reads, and a virtual placement there; ALPHA has a part."""
    loaded = analysis(
        20,
        jedi_tasks=[user_task(cloud=None)],
        dataset_replicas=[
            replica("ALPHA", 19, 20) | {"rse": "ALPHA_TAPE"},
            replica("BETA", 0, 20) | {"rse": endpoint, "state": "VP", "available_files": None},
        ],
    )
    storage, tape = (
        {**loaded.tables["ddm_endpoint"][0], "ddm_endpoint_name": name} for name in (endpoint, "ALPHA_TAPE")
    )
    tape |= {"type": "DATATAPE", "is_tape": "Y"}
    loaded.tables["ddm_endpoint"] += [storage, tape]
    reads = {**loaded.tables["panda_ddm_relation"][0], "roles": "read_lan", "order_read": 2, "default_read": "N"}
    reads |= {"default_write": "N", "order_write": None}
    loaded.tables["panda_ddm_relation"] += [
        reads | {"panda_site_name": "GAMMA_TEST", "ddm_endpoint_name": endpoint},
        reads | {"panda_site_name": ALPHA, "ddm_endpoint_name": "ALPHA_TAPE"},
    ]
    return loaded


@pytest.mark.parametrize(
    ("endpoint", "wanted"),
    [("GAMMA_VP_DISK", {"GAMMA_TEST"}), ("GAMMA_VIRTUAL", {ALPHA}), ("GAMMA_VP_DISK_2", {ALPHA})],
)
def test_virtual_placements_count_at_endpoints_for_them(database: Database, endpoint: str, wanted: set[str]) -> None:
    """Else the tape of ALPHA, of which one file is missing, is all that there is."""
    assert set(chosen(decided(database, at_vp(endpoint)))) == wanted


@pytest.mark.parametrize(
    ("named", "is_tape", "code"),
    [
        ({"BETA_DATADISK": (0, 1), "BETA_MORE": (2, 3)}, "N", None),
        ({"BETA_DATADISK": (0, 1), "BETA_MORE": (1, 2)}, "N", "fileunavailable"),
        # on disk and on tape are two places
        ({"BETA_DATADISK": (0, 1), "BETA_MORE": (2, 3)}, "Y", "fileunavailable"),
        ({"BETA_DATADISK": (0,), "BETA_MORE": (0, 1, 2, 3)}, "Y", None),
        ({}, "N", "fileunavailable"),
    ],
)
def test_files_at_several_endpoints_of_a_queue_are_there_together(
    database: Database, named: dict[str, tuple[int, ...]], is_tape: str, code: str | None
) -> None:
    """BETA reads only what is local, and has two files of four at each of two endpoints; ALPHA has all."""
    loaded = analysis(
        jedi_tasks=[user_task(**ANYWHERE)],
        dataset_replicas=[
            *(replica("ALPHA", 4, 4), replica("BETA", 2, 4), replica("BETA", 2, 4) | {"rse": "BETA_MORE"}),
        ],
        file_replicas=[
            {"scope": "mc", "name": f"file.{at:04d}", "rse": rse} for rse, files in named.items() for at in files
        ],
    )
    loaded.tables["schedconfig_json"][1]["data"]["catchall"] = "use_only_local_data"
    beta = next(row for row in loaded.tables["ddm_endpoint"] if row["site_name"] == "BETA")
    loaded.tables["ddm_endpoint"].append(beta | {"ddm_endpoint_name": "BETA_MORE", "is_tape": is_tape})
    reads = next(row for row in loaded.tables["panda_ddm_relation"] if row["panda_site_name"] == "BETA")
    more = {"ddm_endpoint_name": "BETA_MORE", "roles": "read_lan", "order_read": 2, "default_read": "N"}
    loaded.tables["panda_ddm_relation"].append(reads | more | {"default_write": "N", "order_write": None})
    assert decided(database, loaded)["rejected"].get(BETA) == code


def test_a_replica_of_a_container_is_refused_with_a_note(database: Database) -> None:
    """Of its constituents ALPHA has all; the row says BETA."""
    loaded = container({"ALPHA": (2, 2)}, (2, 2), ["DATASET"])
    loaded.tables["dataset_replicas"].append(replica("BETA", 4, 4) | {"name": "mc.input/"})
    load(database, loaded)
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
