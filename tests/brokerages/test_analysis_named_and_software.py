"""More places where the analysis brokerage can be read in two ways: software, clouds, named queues, shares.

Source: PanDA analysis brokerage, decisions on what the specification leaves open.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import ALL, analysis, chosen, decided, several, user_jobs
from tests.brokerages.small_grid import FRESH, dataset

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE"


@pytest.mark.parametrize("cloud", ["", None])
@pytest.mark.parametrize("columns", [{}, {"site": GAMMA}, {"taskparams": {"includedSite": "GAMMA*"}}])
def test_a_queue_without_a_cloud_is_not_on_the_map(
    database: Database, cloud: str | None, columns: dict[str, Any]
) -> None:
    """A task that names it names no queue."""
    loaded = several(columns)
    loaded.tables["schedconfig_json"][2]["data"]["cloud"] = cloud
    wanted = {"GAMMA_TEST"} if "taskparams" in columns else ALL - {GAMMA}
    decision = decided(database, loaded)
    assert set(chosen(decision)) == wanted
    assert GAMMA not in decision["rejected"]


@pytest.mark.parametrize("releases", ["ANY", "AUTO"])
@pytest.mark.parametrize(
    ("architecture", "wanted"),
    [
        ("'{\"gpu_spec\": {}}'", ALL),
        ('{"gpu_spec": {', ALL),
        ('"x86_64-el9-gcc13-opt"', ALL),
        ('{"gpu_spec": {}}', set()),
        ("'x86_64-el9-gcc13-opt&nvidia'", set()),
    ],
)
def test_what_is_no_json_asks_nothing_of_a_queue_that_takes_anything(
    database: Database, architecture: str, wanted: set[str], releases: str
) -> None:
    """It is an old string: the whole text a platform, which no queue has, and a CPU that nobody asked for."""
    loaded = several({"architecture": architecture})
    if releases == "AUTO":
        publish(loaded, containers=["any"], cvmfs=["any"])
    assert set(chosen(decided(database, loaded))) == (wanted if releases == "ANY" else set())


def publish(loaded: Any, **software: Any) -> None:
    """All queues publish this software."""
    for row in loaded.tables["schedconfig_json"]:
        row["data"]["releases"] = ["AUTO"]
    data = {"cmtconfigs": [], "containers": [], "cvmfs": [], "tags": [], "architectures": [{"type": "cpu"}]} | software
    names = [row["panda_queue"] for row in loaded.tables["schedconfig_json"]]
    loaded.tables["sw_tags"] = [{"panda_queue": name, "data": data, "last_update": FRESH} for name in names]


PLATFORM = "x86_64-el9-gcc13-opt"


@pytest.mark.parametrize(
    ("transhome", "cvmfs", "wanted"),
    [
        ("AnalysisTransforms-Athena_rel_3", ["atlas"], set()),
        ("AnalysisTransforms-Athena_rel_3", ["nightlies"], ALL),
        ("AnalysisTransforms-Athena_rel_3", ["any"], ALL),
        ("AnalysisTransforms-Athena_rel_x", ["atlas"], ALL),
        ("AnalysisTransforms-Athena_rel_3-2", ["atlas"], ALL),
        ("AnalysisTransforms-Athena_2026-08-01T1200", ["atlas"], set()),
    ],
)
def test_a_name_that_ends_with_rel_and_a_number_is_a_nightly(
    database: Database, transhome: str, cvmfs: list[str], wanted: set[str]
) -> None:
    loaded = several({"transhome": transhome, "architecture": PLATFORM + "#"})
    publish(loaded, cvmfs=cvmfs, cmtconfigs=[PLATFORM])
    assert set(chosen(decided(database, loaded))) == wanted


@pytest.mark.parametrize(
    ("base", "containers", "wanted"),
    [("", [], ALL), ("@centos7", [], set()), ("@centos7", ["any"], ALL), ("@centos7", ["/cvmfs"], set())],
)
def test_a_tag_alone_is_no_place_for_a_base_platform(
    database: Database, base: str, containers: list[str], wanted: set[str]
) -> None:
    tag = {"cmtconfig": PLATFORM, "project": "Athena", "release": "25.0.1", "container_name": "", "sources": []}
    loaded = several({"transhome": "AnalysisTransforms-Athena_25.0.1", "architecture": f"{PLATFORM}{base}#"})
    publish(loaded, containers=containers, tags=[tag | {"tags": "x"}])
    assert set(chosen(decided(database, loaded))) == wanted


@pytest.mark.parametrize(("status", "wanted"), [("online", {"GAMMA_TEST"}), ("brokeroff", set())])
def test_the_reserve_is_not_exempt_from_being_online(database: Database, status: str, wanted: set[str]) -> None:
    """Only what the task names is: a listed queue need not be online."""
    loaded = several({"taskparams": {"includedSite": "GAMMA_OFF,AUTO"}}, here=("GAMMA",))
    for row in loaded.tables["schedconfig_json"]:
        if row["panda_queue"] != "GAMMA_OFF":
            row["data"]["status"] = status if row["panda_queue"] == "GAMMA_TEST" else "brokeroff"
    assert set(chosen(decided(database, loaded))) == wanted


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("priority<=500:0%", None),
        ("priority<600:0", None),
        ("type=any:priority>0:0%", None),
        ("priority<=500:0%,type=any:0%", "zeroshare"),
        ("type=any:0%", "zeroshare"),
    ],
)
def test_conditions_on_priority_are_passed_over_for_merge_chunks(
    database: Database, policy: str, code: str | None
) -> None:
    loaded = analysis(jedi_datasets=[dataset(4, type="trn_log")])
    loaded.tables["jedi_dataset_contents"] = [
        row | {"type": "trn_log"} for row in loaded.tables["jedi_dataset_contents"]
    ]
    loaded.tables["schedconfig_json"][0]["data"]["fairsharepolicy"] = policy
    assert decided(database, loaded)["rejected"].get(ALPHA) == code


@pytest.mark.parametrize(("workqueue", "code"), [(1, "queue_cap"), (None, "queue_cap"), (7, None)])
def test_jobs_without_a_work_queue_count_as_queued(database: Database, workqueue: int | None, code: str | None) -> None:
    """41 wait where 40 may; only those of a Resource work queue are left out."""
    waiting = [row | {"workqueue_id": workqueue} for row in user_jobs(ALPHA, 1000, "bob", activated=41)]
    queues = [{"queue_id": 7, "queue_name": "big", "queue_function": "Resource", "vo": "atlas"}]
    loaded = analysis(jobsactive4=waiting, jedi_work_queue=queues)
    assert decided(database, loaded)["rejected"].get(ALPHA) == code
