"""Ambiguous points of the specification of the analysis brokerage: one test for each interpretation that holds."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import (
    ALL,
    SHARE,
    analysis,
    analysis_tasks,
    decide_all,
    decide_one,
    ended_jobs,
    user_jobs,
    user_task,
    weights_of,
)
from tests.brokerages.small_grid import dataset, queue, replica

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE"
ANYWHERE = {"taskpriority": 2000}
"""A task whose input need not be local."""


def with_queues(grid: Any, names: list[str], **fields: Any) -> Any:
    """Add identical single-core queues at the site BETA to the grid."""
    relation = next(row for row in grid.tables["panda_ddm_relation"] if row["panda_site_name"] == "BETA")
    pilots = next(row for row in grid.tables["sitedata"] if row["site"] == "BETA")
    for name in names:
        columns = {"corecount": 1, "capability": "score", "type": "analysis", **fields}
        grid.tables["schedconfig_json"].append(queue(name, **columns))
        grid.tables["panda_site"].append({"panda_site_name": name, "site_name": "BETA"})
        grid.tables["panda_ddm_relation"].append(relation | {"panda_site_name": name})
        grid.tables["sitedata"].append(pilots | {"site": name})
    return grid


def test_equal_weights_are_ordered_by_name_not_by_table_order(database: Database) -> None:
    names = [f"Q{number:02}" for number in range(12)]
    grid = with_queues(analysis_tasks({"taskparams": {"includedSite": "Q*"}}), names[::-1])
    decision = decide_one(database, grid)
    assert [candidate["name"] for candidate in decision["candidates"]] == names[:10]
    assert {decision["rejected"][name] for name in names[10:]} == {"low_weight"}


@pytest.mark.parametrize(
    ("available_at", "expected"),
    [
        ({"ALPHA": 6, "BETA": 5}, {ALPHA}),  # one file is missing
        ({"ALPHA": 6, "BETA": 6}, {ALPHA, BETA}),
        ({"ALPHA": 5, "BETA": 1}, {ALPHA, BETA}),  # no queue has all files
        ({"ALPHA": 5}, {ALPHA}),
        ({"ALPHA": 0, "BETA": 5}, {ALPHA, BETA}),  # a replica without files is incomplete
    ],
)
def test_only_all_files_make_a_dataset_complete_at_a_queue(
    database: Database, available_at: dict[str, int], expected: set[str]
) -> None:
    replicas = [replica(site, available, 6) for site, available in available_at.items()]
    assert set(weights_of(decide_one(database, analysis(6, dataset_replicas=replicas)))) == expected


@pytest.mark.parametrize(
    ("groupings", "available", "outcome"),
    [(["NONE"], 80, "brokered"), (["NONE"], 99, "brokered"), (["ALL"], 80, "pending"), (["ALL"], 90, "brokered")],
)
def test_a_spread_dataset_is_distributed_while_no_queue_has_all_of_it(
    database: Database, groupings: list[str], available: int, outcome: str
) -> None:
    """A distributed dataset needs no complete replica; others need one, with 90 % of the files."""
    metadata = [{"scope": "mc", "name": "mc.input", "rule_groupings": groupings}]
    grid = analysis(100, dataset_replicas=[replica("ALPHA", available, 100)], dataset_metadata=metadata)
    decision = decide_one(database, grid)
    assert (decision["outcome"], decision["reason"]) == (
        outcome,
        "" if outcome == "brokered" else "no_complete_replica",
    )


def test_the_reserve_is_used_when_no_listed_queue_passes_the_filters(database: Database) -> None:
    def included(names: str, **columns: Any) -> dict[str, Any]:
        return columns | {"taskparams": {"includedSite": names}}

    cases: list[tuple[dict[str, Any], set[str]]] = [
        # a listed queue remains, so the reserve is not used
        (included(f"{ALPHA},AUTO"), {ALPHA}),
        # offline, wrong number of cores, another cloud: rejected by early and late filters
        (included("GAMMA_OFF,AUTO"), ALL),
        (included(f"{ALPHA},AUTO", corecount=8), {"BETA/MCORE"}),
        (included(f"{ALPHA},AUTO", cloud="YY"), {GAMMA}),
        # without AUTO there is no reserve
        (included("GAMMA_OFF"), set()),
        # reserve queues are not named, so they must be online
        (included("GAMMA_OFF,GAMMA_TEST,AUTO"), {"GAMMA_TEST"}),
    ]
    grid = analysis_tasks(*({"ramcount": 0} | task_columns for task_columns, _ in cases))
    grid.tables["schedconfig_json"][2]["data"]["cloud"] = "YY"
    decisions = decide_all(database, grid, independent=True)
    assert [set(weights_of(decision)) for decision in decisions] == [expected for _, expected in cases]
    assert {decisions[0]["rejected"][name] for name in ALL - {ALPHA}} == {"notincluded"}


def test_the_reserve_is_used_before_the_locality_check_is_given_up(database: Database) -> None:
    """BETA is listed, but the input is at ALPHA in the reserve. Without a reserve, BETA reads it remotely."""
    lists = ["BETA,AUTO", "BETA"]
    grid = analysis_tasks(*({"taskparams": {"includedSite": names}} for names in lists), sites=("ALPHA",))
    assert [set(weights_of(names)) for names in decide_all(database, grid, independent=True)] == [{ALPHA}, {BETA}]


def test_a_queue_without_the_files_takes_no_place_of_the_best_ten(database: Database) -> None:
    """Q00 reads only local data and has none; the best ten are the other queues by name."""
    names = [f"Q{number:02}" for number in range(11)]
    grid = with_queues(analysis_tasks(ANYWHERE | {"taskparams": {"includedSite": "Q*"}}, sites=("ALPHA",)), names)
    grid.tables["schedconfig_json"][5]["data"]["catchall"] = "use_only_local_data"
    decision = decide_one(database, grid)
    assert decision["rejected"]["Q00"] == "fileunavailable"
    assert [candidate["name"] for candidate in decision["candidates"]] == names[1:]


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize(("profile", "last"), [("seed", 11), ("panda", 10)])
def test_a_queue_without_the_files_takes_a_place_in_profile_panda(
    database: Database, profile: str, last: int, independent: bool
) -> None:
    """The second chunk sees the placements of the first, unless the cycle is independent."""
    names = [f"Q{number:02}" for number in range(11)]
    columns = ANYWHERE | {"cloud": None, "taskparams": {"includedSite": "Q*"}}
    shares = [{"name": SHARE, "value": 100, "parent": None}]
    grid = with_queues(analysis_tasks(columns, columns, sites=("ALPHA",), global_shares=shares), names)
    grid.tables["schedconfig_json"][5]["data"]["catchall"] = "use_only_local_data"
    for decision in decide_all(database, grid, profile=profile, independent=independent):
        assert decision["rejected"]["Q00"] == "fileunavailable"
        assert len(decision["candidates"]) == last - 1


CLONED = {"eventservice": 1}


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        (CLONED | {"splitrule": "NF=1,NS=12"}, 12),
        (CLONED | {"splitrule": "NF=1,NS=11"}, 11),
        (CLONED | {"splitrule": "NF=1,NS=9"}, 10),
        (CLONED | {"splitrule": "NF=1,NS=13"}, 13),  # as many as there are queues
        (CLONED | {"splitrule": "NF=1,NS=14"}, 0),  # too few queues
        (CLONED | {"splitrule": "NF=1"}, 10),
        # no event service: one queue is enough, and the best ten are kept
        ({"splitrule": "NF=1,NS=12"}, 10),
        ({"eventservice": 0, "splitrule": "NF=1,NS=12"}, 10),
    ],
)
def test_as_many_candidates_as_a_job_has_copies(database: Database, columns: dict[str, Any], count: int) -> None:
    names = [f"Q{number:02}" for number in range(13)]
    grid = with_queues(analysis_tasks(columns | {"taskparams": {"includedSite": "Q*"}}), names)
    assert [candidate["name"] for candidate in decide_one(database, grid)["candidates"]] == names[:count]


@pytest.mark.parametrize(
    ("columns", "sites", "closed", "expected"),
    [
        # enough queues have the input
        ({"splitrule": "NF=1,NS=2"}, ("ALPHA", "BETA"), (), {ALPHA, BETA}),
        # too few: queues of the second pass are added
        ({"splitrule": "NF=1,NS=3"}, ("ALPHA", "BETA"), (), ALL),
        ({"splitrule": "NF=1,NS=2"}, ("ALPHA",), (), ALL),
        ({"splitrule": "NF=1,NS=4"}, ("ALPHA",), (), ALL),
        # both passes together have too few, so the task waits, wherever its input is
        ({"splitrule": "NF=1,NS=5"}, ("ALPHA",), (), set()),
        ({"splitrule": "NF=1,NS=5"}, ("ALPHA", "BETA", "GAMMA"), (), set()),
        ({"splitrule": "NF=1,NS=4"}, ("ALPHA", "BETA"), ("GAMMA",), set()),
        # the first pass has none, so the second must have enough
        ({"splitrule": "NF=1,NS=3"}, ("ALPHA",), ("ALPHA",), {BETA, GAMMA, "GAMMA_TEST"}),
        ({"splitrule": "NF=1,NS=4"}, ("ALPHA",), ("ALPHA",), set()),
        # without event service there is no second pass
        ({"splitrule": "NF=1,NS=2", "eventservice": 0}, ("ALPHA",), (), {ALPHA}),
    ],
)
def test_passes_continue_until_a_job_has_enough_queues(
    database: Database, columns: dict[str, Any], sites: tuple[str, ...], closed: tuple[str, ...], expected: set[str]
) -> None:
    grid = analysis(sites=sites, jedi_tasks=[user_task(**(CLONED | columns))])
    for row in grid.tables["schedconfig_json"]:
        if row["panda_queue"].removesuffix("_MCORE") in closed:
            row["data"]["status"] = "brokeroff"
    assert set(weights_of(decide_one(database, grid))) == expected


@pytest.mark.parametrize(
    ("names", "copies", "expected"),
    [
        # without input there is a single pass
        ("ALPHA_MCORE", 4, set()),
        ("ALPHA_MCORE,BETA,GAMMA_MCORE", 4, set()),
        ("ALPHA_MCORE,BETA,GAMMA_MCORE", 3, {ALPHA, BETA, GAMMA}),
        ("ALPHA_MCORE,BETA,GAMMA_MCORE,GAMMA_TEST", 4, ALL),
    ],
)
def test_a_chunk_waits_for_as_many_queues_as_its_jobs_have_copies(
    database: Database, names: str, copies: int, expected: set[str]
) -> None:
    no_input = {"type": "pseudo_input", "datasetname": "pseudo_dataset"}
    grid = analysis_tasks(CLONED | {"splitrule": f"NF=1,NS={copies}", "taskparams": {"includedSite": names}})
    grid.tables["jedi_datasets"] = [row | no_input for row in grid.tables["jedi_datasets"]]
    decision = decide_one(database, grid)
    assert set(weights_of(decision)) == expected
    assert (decision["outcome"], decision["reason"]) == (("brokered", "") if expected else ("pending", "no_candidates"))


@pytest.mark.parametrize(
    ("copies", "profile", "expected"), [(3, "seed", ALL - {BETA}), (4, "seed", set()), (4, "panda", ALL - {BETA})]
)
def test_a_temporarily_skipped_queue_does_not_reduce_the_copies(
    database: Database, copies: int, profile: str, expected: set[str]
) -> None:
    """BETA failed six jobs of the task where five are too many; three other queues remain, fewer than four."""
    queued = [row | {"processingtype": "user"} for row in user_jobs("BETA", 3000, activated=101, running=101)]
    failed = ended_jobs("BETA", 9000, "failed", 6, piloterrorcode=1099)
    columns = CLONED | {"splitrule": f"NF=1,NS={copies}", "cloud": None}
    shares = [{"name": SHARE, "value": 100, "parent": None}]
    grid = analysis_tasks(columns, jobsarchived4=failed, jobsactive4=queued, global_shares=shares)
    assert set(weights_of(decide_one(database, grid, profile=profile))) == expected


def test_queues_of_the_first_pass_stay_even_if_the_second_rejects_them(database: Database) -> None:
    """ALPHA cannot receive over WAN, so only the first pass accepts it; all queues are weighed as in the second."""
    grid = analysis(sites=("ALPHA",), jedi_tasks=[user_task(**(CLONED | {"splitrule": "NF=1,NS=2"}))])
    grid.tables["ddm_endpoint"][0]["detailed_status"] = {"write_wan": "OFF"}
    others = {BETA: 1.0, GAMMA: 1.0, "GAMMA_TEST": 1.0}
    assert weights_of(decide_one(database, grid)) == pytest.approx({ALPHA: 1.8} | others)


def test_the_type_of_a_config_row_is_case_insensitive(database: Database) -> None:
    row = {"app": "jedi", "component": "anal_jobbroker", "key": "STORAGE_MIN_FREE_SIZE_OUTPUT", "vo": "atlas"}
    decision = decide_one(database, analysis(config=[row | {"value": "5000", "type": "INTEGER"}]))
    assert {decision["rejected"][name] for name in ALL} == {"disk"}


def test_partial_copies_of_the_parts_of_a_container_do_not_count(database: Database) -> None:
    """Of two datasets of two files of 2 GiB, ALPHA has one and half of the other, BETA half of each."""
    names, available_at = ("mc.one", "mc.two"), {"ALPHA": (2, 1), "BETA": (1, 1), "GAMMA": (2, 2)}
    parts = [
        (name, site, available)
        for site, counts in available_at.items()
        for name, available in zip(names, counts, strict=True)
    ]
    grid = analysis(
        jedi_tasks=[user_task(**ANYWHERE)],
        jedi_datasets=[dataset(4, datasetname="mc:mc.input/")],
        dataset_replicas=[replica(site, available, 2) | {"name": name} for name, site, available in parts],
        dataset_metadata=[],
        container_contents=[
            {"scope": "mc", "name": "mc.input", "child_scope": "mc", "child_name": name} for name in names
        ],
    )
    weights = {ALPHA: 1.4, BETA: 1.0, GAMMA: 1.8, "GAMMA_TEST": 1.8}
    assert weights_of(decide_one(database, grid)) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("available", "outcome"), [(80, "pending"), (89, "pending"), (90, "brokered"), (100, "brokered")]
)
def test_a_dataset_without_metadata_is_ordinary(database: Database, available: int, outcome: str) -> None:
    """It is not distributed, so it needs a complete replica: all but ten files, or 90 % of them."""
    grid = analysis(100, dataset_replicas=[replica("ALPHA", available, 100)], dataset_metadata=[])
    assert decide_one(database, grid)["outcome"] == outcome


@pytest.mark.parametrize(("maxtime", "code"), [(999, "shortwalltime"), (1000, None)])
def test_the_walltime_of_event_service_is_not_divided(database: Database, maxtime: int, code: str | None) -> None:
    """A job takes 100 events x 100 HS06 s / 10 HS06 = 1,000 s, not a third of it for each of three attempts."""
    grid = analysis(jedi_tasks=[user_task(**CLONED)])
    grid.tables["schedconfig_json"][0]["data"]["maxtime"] = maxtime
    assert decide_one(database, grid)["rejected"].get(ALPHA) == code


def test_world_and_its_synonyms_mean_any_cloud(database: Database) -> None:
    clouds = ["WORLD", "any", "", None, "YY", "XX"]
    grid = analysis_tasks(*({"cloud": cloud} for cloud in clouds))
    grid.tables["schedconfig_json"][2]["data"]["cloud"] = "YY"
    names = [set(weights_of(decision)) for decision in decide_all(database, grid, independent=True)]
    assert names == [ALL, ALL, ALL, ALL, {GAMMA}, ALL - {GAMMA}]


@pytest.mark.parametrize(("kind", "code"), [(None, "user_queue_length"), ("pmerge", None)])
def test_jobs_without_a_processing_type_are_no_merge_jobs(
    database: Database, kind: str | None, code: str | None
) -> None:
    """Jobs without a processing type count for their user, who may have 60 queued: 61 are too many."""
    alice_jobs = [row | {"processingtype": kind} for row in user_jobs(ALPHA, 3000, activated=61)]
    bob_jobs = user_jobs(ALPHA, 1000, "bob", running=60, activated=54)
    assert decide_one(database, analysis(jobsactive4=[*bob_jobs, *alice_jobs]))["rejected"].get(ALPHA) == code


@pytest.mark.parametrize(
    ("policy", "code"),
    [("priority>x:0", "zeroshare"), ("priority>x:100,priority>400:0", None), ("priority>600:0", None)],
)
def test_an_unreadable_priority_condition_is_met(database: Database, policy: str, code: str | None) -> None:
    """The task has priority 500."""
    grid = analysis()
    grid.tables["schedconfig_json"][0]["data"]["fairsharepolicy"] = policy
    assert decide_one(database, grid)["rejected"].get(ALPHA) == code
