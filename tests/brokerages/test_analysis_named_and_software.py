"""More ambiguous points of the analysis brokerage: software, clouds, named queues, shares.

Source: PanDA analysis brokerage, decisions on points that the specification leaves open.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import ALL, analysis, analysis_tasks, decide_one, user_jobs, weights_of
from tests.brokerages.small_grid import FRESH, dataset

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE"


@pytest.mark.parametrize("cloud", ["", None])
@pytest.mark.parametrize("columns", [{}, {"site": GAMMA}, {"taskparams": {"includedSite": "GAMMA*"}}])
def test_a_queue_without_a_cloud_is_unknown(database: Database, cloud: str | None, columns: dict[str, Any]) -> None:
    """A task that names such a queue names none."""
    grid = analysis_tasks(columns)
    grid.tables["schedconfig_json"][2]["data"]["cloud"] = cloud
    expected = {"GAMMA_TEST"} if "taskparams" in columns else ALL - {GAMMA}
    decision = decide_one(database, grid)
    assert set(weights_of(decision)) == expected
    assert GAMMA not in decision["rejected"]


@pytest.mark.parametrize("releases", ["ANY", "AUTO"])
@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("'{\"gpu_spec\": {}}'", ALL),
        ('{"gpu_spec": {', ALL),
        ('"x86_64-el9-gcc13-opt"', ALL),
        ('{"gpu_spec": {}}', set()),
        ("'x86_64-el9-gcc13-opt&nvidia'", set()),
    ],
)
def test_text_that_is_no_json_requires_nothing_of_a_queue_that_takes_anything(
    database: Database, architecture: str, expected: set[str], releases: str
) -> None:
    """It is an old string: the whole text is a platform, which no queue has, and it implies a CPU request."""
    grid = analysis_tasks({"architecture": architecture})
    if releases == "AUTO":
        publish(grid, containers=["any"], cvmfs=["any"])
    assert set(weights_of(decide_one(database, grid))) == (expected if releases == "ANY" else set())


def publish(grid: Any, **software: Any) -> None:
    """Let all queues publish this software."""
    for row in grid.tables["schedconfig_json"]:
        row["data"]["releases"] = ["AUTO"]
    data = {"cmtconfigs": [], "containers": [], "cvmfs": [], "tags": [], "architectures": [{"type": "cpu"}]} | software
    names = [row["panda_queue"] for row in grid.tables["schedconfig_json"]]
    grid.tables["sw_tags"] = [{"panda_queue": name, "data": data, "last_update": FRESH} for name in names]


PLATFORM = "x86_64-el9-gcc13-opt"


@pytest.mark.parametrize(
    ("transhome", "cvmfs", "expected"),
    [
        ("AnalysisTransforms-Athena_rel_3", ["atlas"], set()),
        ("AnalysisTransforms-Athena_rel_3", ["nightlies"], ALL),
        ("AnalysisTransforms-Athena_rel_3", ["any"], ALL),
        ("AnalysisTransforms-Athena_rel_x", ["atlas"], ALL),
        ("AnalysisTransforms-Athena_rel_3-2", ["atlas"], ALL),
        ("AnalysisTransforms-Athena_2026-08-01T1200", ["atlas"], set()),
    ],
)
def test_a_release_name_ending_with_rel_and_a_number_is_a_nightly(
    database: Database, transhome: str, cvmfs: list[str], expected: set[str]
) -> None:
    grid = analysis_tasks({"transhome": transhome, "architecture": PLATFORM + "#"})
    publish(grid, cvmfs=cvmfs, cmtconfigs=[PLATFORM])
    assert set(weights_of(decide_one(database, grid))) == expected


@pytest.mark.parametrize(
    ("base", "containers", "expected"),
    [("", [], ALL), ("@centos7", [], set()), ("@centos7", ["any"], ALL), ("@centos7", ["/cvmfs"], set())],
)
def test_a_tag_alone_does_not_offer_a_base_platform(
    database: Database, base: str, containers: list[str], expected: set[str]
) -> None:
    tag = {"cmtconfig": PLATFORM, "project": "Athena", "release": "25.0.1", "container_name": "", "sources": []}
    grid = analysis_tasks({"transhome": "AnalysisTransforms-Athena_25.0.1", "architecture": f"{PLATFORM}{base}#"})
    publish(grid, containers=containers, tags=[tag | {"tags": "x"}])
    assert set(weights_of(decide_one(database, grid))) == expected


@pytest.mark.parametrize(("status", "expected"), [("online", {"GAMMA_TEST"}), ("brokeroff", set())])
def test_the_reserve_is_not_exempt_from_being_online(database: Database, status: str, expected: set[str]) -> None:
    """Only queues named by the task are exempt: a listed queue need not be online."""
    grid = analysis_tasks({"taskparams": {"includedSite": "GAMMA_OFF,AUTO"}}, sites=("GAMMA",))
    for row in grid.tables["schedconfig_json"]:
        if row["panda_queue"] != "GAMMA_OFF":
            row["data"]["status"] = status if row["panda_queue"] == "GAMMA_TEST" else "brokeroff"
    assert set(weights_of(decide_one(database, grid))) == expected


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
def test_conditions_on_priority_are_skipped_for_merge_chunks(database: Database, policy: str, code: str | None) -> None:
    grid = analysis(jedi_datasets=[dataset(4, type="trn_log")])
    grid.tables["jedi_dataset_contents"] = [row | {"type": "trn_log"} for row in grid.tables["jedi_dataset_contents"]]
    grid.tables["schedconfig_json"][0]["data"]["fairsharepolicy"] = policy
    assert decide_one(database, grid)["rejected"].get(ALPHA) == code


@pytest.mark.parametrize(("workqueue", "code"), [(1, "queue_cap"), (None, "queue_cap"), (7, None)])
def test_jobs_without_a_work_queue_count_as_queued(database: Database, workqueue: int | None, code: str | None) -> None:
    """41 jobs wait where 40 may; only jobs of a Resource work queue do not count."""
    waiting = [row | {"workqueue_id": workqueue} for row in user_jobs(ALPHA, 1000, "bob", activated=41)]
    queues = [{"queue_id": 7, "queue_name": "big", "queue_function": "Resource", "vo": "atlas"}]
    grid = analysis(jobsactive4=waiting, jedi_work_queue=queues)
    assert decide_one(database, grid)["rejected"].get(ALPHA) == code
