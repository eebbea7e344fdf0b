"""Where the specification of the analysis brokerage can be read in two ways: the reading that holds, one test each."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.analysis_grid import (
    ALL,
    SHARE,
    analysis,
    chosen,
    decided,
    decisions,
    finished,
    several,
    user_jobs,
    user_task,
)
from tests.brokerages.small_grid import dataset, queue, replica

pytestmark = pytest.mark.usefixtures("blocks")

ALPHA, BETA, GAMMA = "ALPHA_MCORE", "BETA/SCORE", "GAMMA_MCORE"
ANYWHERE = {"taskpriority": 2000}
"""A task whose input need not be local."""


def with_queues(loaded: Any, names: list[str], **fields: Any) -> Any:
    """The grid with more queues of one core at the site BETA, all like each other."""
    relation = next(row for row in loaded.tables["panda_ddm_relation"] if row["panda_site_name"] == "BETA")
    pilots = next(row for row in loaded.tables["sitedata"] if row["site"] == "BETA")
    for name in names:
        own = {"corecount": 1, "capability": "score", "type": "analysis", **fields}
        loaded.tables["schedconfig_json"].append(queue(name, **own))
        loaded.tables["panda_site"].append({"panda_site_name": name, "site_name": "BETA"})
        loaded.tables["panda_ddm_relation"].append(relation | {"panda_site_name": name})
        loaded.tables["sitedata"].append(pilots | {"site": name})
    return loaded


def test_equal_weights_go_by_name_whatever_the_order_of_the_table(database: Database) -> None:
    names = [f"Q{number:02}" for number in range(12)]
    loaded = with_queues(several({"taskparams": {"includedSite": "Q*"}}), names[::-1])
    decision = decided(database, loaded)
    assert [one["name"] for one in decision["candidates"]] == names[:10]
    assert {decision["rejected"][name] for name in names[10:]} == {"low_weight"}


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ({"ALPHA": 6, "BETA": 5}, {ALPHA}),  # one file is missing
        ({"ALPHA": 6, "BETA": 6}, {ALPHA, BETA}),
        ({"ALPHA": 5, "BETA": 1}, {ALPHA, BETA}),  # nobody has all
        ({"ALPHA": 5}, {ALPHA}),
        ({"ALPHA": 0, "BETA": 5}, {ALPHA, BETA}),  # a replica without files is a partial one
    ],
)
def test_only_all_files_make_a_dataset_complete_at_a_queue(
    database: Database, held: dict[str, int], wanted: set[str]
) -> None:
    replicas = [replica(site, found, 6) for site, found in held.items()]
    assert set(chosen(decided(database, analysis(6, dataset_replicas=replicas)))) == wanted


@pytest.mark.parametrize(
    ("groupings", "found", "outcome"),
    [(["NONE"], 80, "brokered"), (["NONE"], 99, "brokered"), (["ALL"], 80, "pending"), (["ALL"], 90, "brokered")],
)
def test_a_spread_dataset_is_distributed_while_no_queue_has_all_of_it(
    database: Database, groupings: list[str], found: int, outcome: str
) -> None:
    """A distributed one needs no complete replica; GAMMA, which reads from virtual placement, may not have it."""
    metadata = [{"scope": "mc", "name": "mc.input", "rule_groupings": groupings}]
    loaded = analysis(100, dataset_replicas=[replica("ALPHA", found, 100)], dataset_metadata=metadata)
    decision = decided(database, loaded)
    assert (decision["outcome"], decision["reason"]) == (
        outcome,
        "" if outcome == "brokered" else "no_complete_replica",
    )


def test_the_reserve_is_used_when_no_listed_queue_passes_the_filters(database: Database) -> None:
    def included(names: str, **columns: Any) -> dict[str, Any]:
        return columns | {"taskparams": {"includedSite": names}}

    cases: list[tuple[dict[str, Any], set[str]]] = [
        # a listed queue is left, so the reserve is not used
        (included(f"{ALPHA},AUTO"), {ALPHA}),
        # offline, of other cores, of another cloud: each is found out by a filter, an early and a late one
        (included("GAMMA_OFF,AUTO"), ALL),
        (included(f"{ALPHA},AUTO", corecount=8), {"BETA/MCORE"}),
        (included(f"{ALPHA},AUTO", cloud="YY"), {GAMMA}),
        # without AUTO there is none
        (included("GAMMA_OFF"), set()),
        # the reserve is not named, so that it must be online
        (included("GAMMA_OFF,GAMMA_TEST,AUTO"), {"GAMMA_TEST"}),
    ]
    loaded = several(*({"ramcount": 0} | asked for asked, _ in cases))
    loaded.tables["schedconfig_json"][2]["data"]["cloud"] = "YY"
    told = decisions(database, loaded, independent=True)
    assert [set(chosen(one)) for one in told] == [wanted for _, wanted in cases]
    assert {told[0]["rejected"][name] for name in ALL - {ALPHA}} == {"notincluded"}


def test_the_reserve_is_used_before_the_locality_check_is_given_up(database: Database) -> None:
    """BETA is listed, but the input is at ALPHA: of the reserve ALPHA has it. With BETA alone it is read from afar."""
    lists = ["BETA,AUTO", "BETA"]
    loaded = several(*({"taskparams": {"includedSite": one}} for one in lists), here=("ALPHA",))
    assert [set(chosen(one)) for one in decisions(database, loaded, independent=True)] == [{ALPHA}, {BETA}]


def test_a_queue_without_the_files_takes_no_place_of_the_best_ten(database: Database) -> None:
    """Q00 reads only local data and has none; the other ten follow by name."""
    names = [f"Q{number:02}" for number in range(11)]
    loaded = with_queues(several(ANYWHERE | {"taskparams": {"includedSite": "Q*"}}, here=("ALPHA",)), names)
    loaded.tables["schedconfig_json"][5]["data"]["catchall"] = "use_only_local_data"
    decision = decided(database, loaded)
    assert decision["rejected"]["Q00"] == "fileunavailable"
    assert [one["name"] for one in decision["candidates"]] == names[1:]


@pytest.mark.parametrize("independent", [True, False])
@pytest.mark.parametrize(("profile", "last"), [("seed", 11), ("panda", 10)])
def test_a_queue_without_the_files_takes_a_place_in_profile_panda(
    database: Database, profile: str, last: int, independent: bool
) -> None:
    """The second chunk meets what the first has placed, unless it is decided by itself."""
    names = [f"Q{number:02}" for number in range(11)]
    asked = ANYWHERE | {"cloud": None, "taskparams": {"includedSite": "Q*"}}
    shares = [{"name": SHARE, "value": 100, "parent": None}]
    loaded = with_queues(several(asked, asked, here=("ALPHA",), global_shares=shares), names)
    loaded.tables["schedconfig_json"][5]["data"]["catchall"] = "use_only_local_data"
    for decision in decisions(database, loaded, profile=profile, independent=independent):
        assert decision["rejected"]["Q00"] == "fileunavailable"
        assert len(decision["candidates"]) == last - 1


CLONED = {"eventservice": 1}


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        (CLONED | {"splitrule": "NF=1,NS=12"}, 12),
        (CLONED | {"splitrule": "NF=1,NS=11"}, 11),
        (CLONED | {"splitrule": "NF=1,NS=9"}, 10),
        (CLONED | {"splitrule": "NF=1,NS=13"}, 13),  # as many as there are
        (CLONED | {"splitrule": "NF=1,NS=14"}, 0),  # fewer are not enough
        (CLONED | {"splitrule": "NF=1"}, 10),
        # no event service: one place is enough, and ten are the best
        ({"splitrule": "NF=1,NS=12"}, 10),
        ({"eventservice": 0, "splitrule": "NF=1,NS=12"}, 10),
    ],
)
def test_as_many_candidates_as_a_job_has_copies(database: Database, columns: dict[str, Any], count: int) -> None:
    names = [f"Q{number:02}" for number in range(13)]
    loaded = with_queues(several(columns | {"taskparams": {"includedSite": "Q*"}}), names)
    assert [one["name"] for one in decided(database, loaded)["candidates"]] == names[:count]


@pytest.mark.parametrize(
    ("columns", "here", "closed", "wanted"),
    [
        # enough queues have the input
        ({"splitrule": "NF=1,NS=2"}, ("ALPHA", "BETA"), (), {ALPHA, BETA}),
        # too few: those of the second pass come to them
        ({"splitrule": "NF=1,NS=3"}, ("ALPHA", "BETA"), (), ALL),
        ({"splitrule": "NF=1,NS=2"}, ("ALPHA",), (), ALL),
        ({"splitrule": "NF=1,NS=4"}, ("ALPHA",), (), ALL),
        # both passes together have fewer, so it waits, wherever the input is
        ({"splitrule": "NF=1,NS=5"}, ("ALPHA",), (), set()),
        ({"splitrule": "NF=1,NS=5"}, ("ALPHA", "BETA", "GAMMA"), (), set()),
        ({"splitrule": "NF=1,NS=4"}, ("ALPHA", "BETA"), ("GAMMA",), set()),
        # the first pass had none: then the second must have enough
        ({"splitrule": "NF=1,NS=3"}, ("ALPHA",), ("ALPHA",), {BETA, GAMMA, "GAMMA_TEST"}),
        ({"splitrule": "NF=1,NS=4"}, ("ALPHA",), ("ALPHA",), set()),
        # without event service there is no second pass
        ({"splitrule": "NF=1,NS=2", "eventservice": 0}, ("ALPHA",), (), {ALPHA}),
    ],
)
def test_passes_go_on_until_a_job_has_enough_queues(
    database: Database, columns: dict[str, Any], here: tuple[str, ...], closed: tuple[str, ...], wanted: set[str]
) -> None:
    loaded = analysis(here=here, jedi_tasks=[user_task(**(CLONED | columns))])
    for row in loaded.tables["schedconfig_json"]:
        if row["panda_queue"].removesuffix("_MCORE") in closed:
            row["data"]["status"] = "brokeroff"
    assert set(chosen(decided(database, loaded))) == wanted


@pytest.mark.parametrize(
    ("names", "copies", "wanted"),
    [
        # no input has to be looked for, so there is one pass
        ("ALPHA_MCORE", 4, set()),
        ("ALPHA_MCORE,BETA,GAMMA_MCORE", 4, set()),
        ("ALPHA_MCORE,BETA,GAMMA_MCORE", 3, {ALPHA, BETA, GAMMA}),
        ("ALPHA_MCORE,BETA,GAMMA_MCORE,GAMMA_TEST", 4, ALL),
    ],
)
def test_a_chunk_waits_for_as_many_queues_as_its_jobs_have_copies(
    database: Database, names: str, copies: int, wanted: set[str]
) -> None:
    no_input = {"type": "pseudo_input", "datasetname": "pseudo_dataset"}
    loaded = several(CLONED | {"splitrule": f"NF=1,NS={copies}", "taskparams": {"includedSite": names}})
    loaded.tables["jedi_datasets"] = [row | no_input for row in loaded.tables["jedi_datasets"]]
    decision = decided(database, loaded)
    assert set(chosen(decision)) == wanted
    assert (decision["outcome"], decision["reason"]) == (("brokered", "") if wanted else ("pending", "no_candidates"))


@pytest.mark.parametrize(
    ("copies", "profile", "wanted"), [(3, "seed", ALL - {BETA}), (4, "seed", set()), (4, "panda", ALL - {BETA})]
)
def test_nobody_is_sent_fewer_copies_because_a_queue_is_skipped_for_now(
    database: Database, copies: int, profile: str, wanted: set[str]
) -> None:
    """BETA has failed six of its jobs, and five are too many; the other three are no four."""
    own = [row | {"processingtype": "user"} for row in user_jobs("BETA", 3000, activated=101, running=101)]
    failed = finished("BETA", 9000, "failed", 6, piloterrorcode=1099)
    columns = CLONED | {"splitrule": f"NF=1,NS={copies}", "cloud": None}
    shares = [{"name": SHARE, "value": 100, "parent": None}]
    loaded = several(columns, jobsarchived4=failed, jobsactive4=own, global_shares=shares)
    assert set(chosen(decided(database, loaded, profile=profile))) == wanted


def test_the_queues_of_the_first_pass_stay_where_the_second_refuses_them(database: Database) -> None:
    """ALPHA cannot receive over WAN, so only the first pass takes it; all weigh as in the second."""
    loaded = analysis(here=("ALPHA",), jedi_tasks=[user_task(**(CLONED | {"splitrule": "NF=1,NS=2"}))])
    loaded.tables["ddm_endpoint"][0]["detailed_status"] = {"write_wan": "OFF"}
    others = {BETA: 1.0, GAMMA: 1.0, "GAMMA_TEST": 1.0}
    assert chosen(decided(database, loaded)) == pytest.approx({ALPHA: 1.8} | others)


def test_the_type_of_a_config_row_is_read_without_case(database: Database) -> None:
    row = {"app": "jedi", "component": "anal_jobbroker", "key": "STORAGE_MIN_FREE_SIZE_OUTPUT", "vo": "atlas"}
    decision = decided(database, analysis(config=[row | {"value": "5000", "type": "INTEGER"}]))
    assert {decision["rejected"][name] for name in ALL} == {"disk"}


def test_partial_copies_of_the_parts_of_a_container_do_not_count(database: Database) -> None:
    """Two datasets of two files of 2 GiB: ALPHA has one as a whole and half of the other, BETA half of each."""
    names, held = ("mc.one", "mc.two"), {"ALPHA": (2, 1), "BETA": (1, 1), "GAMMA": (2, 2)}
    parts = [(name, site, found) for site, both in held.items() for name, found in zip(names, both, strict=True)]
    loaded = analysis(
        jedi_tasks=[user_task(**ANYWHERE)],
        jedi_datasets=[dataset(4, datasetname="mc:mc.input/")],
        dataset_replicas=[replica(site, found, 2) | {"name": name} for name, site, found in parts],
        dataset_metadata=[],
        container_contents=[
            {"scope": "mc", "name": "mc.input", "child_scope": "mc", "child_name": name} for name in names
        ],
    )
    weights = {ALPHA: 1.4, BETA: 1.0, GAMMA: 1.8, "GAMMA_TEST": 1.8}
    assert chosen(decided(database, loaded)) == pytest.approx(weights)


@pytest.mark.parametrize(("found", "outcome"), [(80, "pending"), (89, "pending"), (90, "brokered"), (100, "brokered")])
def test_a_dataset_without_metadata_is_ordinary(database: Database, found: int, outcome: str) -> None:
    """It is not distributed, so that a complete replica is asked for: all but ten files, or 90 % of them."""
    loaded = analysis(100, dataset_replicas=[replica("ALPHA", found, 100)], dataset_metadata=[])
    assert decided(database, loaded)["outcome"] == outcome


@pytest.mark.parametrize(("maxtime", "code"), [(999, "shortwalltime"), (1000, None)])
def test_the_walltime_of_event_service_is_not_divided(database: Database, maxtime: int, code: str | None) -> None:
    """100 events x 100 HS06 s / 10 HS06 = 1,000 s, not a third of it for each of three attempts."""
    loaded = analysis(jedi_tasks=[user_task(**CLONED)])
    loaded.tables["schedconfig_json"][0]["data"]["maxtime"] = maxtime
    assert decided(database, loaded)["rejected"].get(ALPHA) == code


def test_any_cloud_is_called_world(database: Database) -> None:
    clouds = ["WORLD", "any", "", None, "YY", "XX"]
    loaded = several(*({"cloud": cloud} for cloud in clouds))
    loaded.tables["schedconfig_json"][2]["data"]["cloud"] = "YY"
    found = [set(chosen(one)) for one in decisions(database, loaded, independent=True)]
    assert found == [ALL, ALL, ALL, ALL, {GAMMA}, ALL - {GAMMA}]


@pytest.mark.parametrize(("kind", "code"), [(None, "user_queue_length"), ("pmerge", None)])
def test_jobs_without_a_processing_type_are_no_merge_jobs(
    database: Database, kind: str | None, code: str | None
) -> None:
    """They count for their user, who may have 60 queued: 61 are too many."""
    own = [row | {"processingtype": kind} for row in user_jobs(ALPHA, 3000, activated=61)]
    others = user_jobs(ALPHA, 1000, "bob", running=60, activated=54)
    assert decided(database, analysis(jobsactive4=[*others, *own]))["rejected"].get(ALPHA) == code


@pytest.mark.parametrize(
    ("policy", "code"),
    [("priority>x:0", "zeroshare"), ("priority>x:100,priority>400:0", None), ("priority>600:0", None)],
)
def test_a_priority_that_cannot_be_read_is_met(database: Database, policy: str, code: str | None) -> None:
    """The task has priority 500."""
    loaded = analysis()
    loaded.tables["schedconfig_json"][0]["data"]["fairsharepolicy"] = policy
    assert decided(database, loaded)["rejected"].get(ALPHA) == code
