"""Facts of chunks and candidates."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from broker.domain.facts import JobFacts
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.queues import BARE_NONE, BARE_ONLY
from broker.engine.job.steps import InitialList, RefusedNames
from broker.snapshot.snapshot import Snapshot
from tests.engine.small_work import Dataset, chunk_table, replica
from tests.engine.toy_cycle import cycle, work
from tests.snapshot.raw_grid import NOW, at_site, build, endpoint, jobs, link, queue, small_grid, ucore, uses

# candidates: N_PLAIN, N_UCORE/MCORE, N_UCORE/SCORE, S_PLAIN, S_TEST
HOUR, DAY = 3600.0, 86400.0
NOW_S = NOW.timestamp()


def facts(grid: dict[str, Any] | None = None, datasets: Any = (), **columns: Any) -> JobFacts:
    return cycle(work(1, datasets, **columns), grid=grid).evaluate_block(slice(0, 1)).facts


def row(value: Any) -> list[Any]:
    """The figures of the first chunk."""
    return [None if isinstance(one, float) and math.isnan(one) else one for one in value[0].tolist()]


def initial(snapshot: Snapshot, **columns: Any) -> tuple[list[str], bool, bool, RefusedNames]:
    found = InitialList().candidates(chunk_table(1, **columns), snapshot)
    names = [str(name) for name in snapshot.queues.name[found.initial[0]]]
    return names, bool(found.one_preassigned[0]), bool(found.listed[0]), found.refused[0]


def named_grid() -> Snapshot:
    reading = {"roles": "read_lan", "default_write": "N"}
    return build(
        schedconfig_json=[
            *(queue("A"), queue("B", status="offline"), queue("A_TEST"), queue("ANALY", type="analysis")),
            *(ucore("U"), ucore("V"), queue("NO_CLOUD", cloud=""), queue("FAR")),
        ],
        resource_types=[
            {"resource_name": "SCORE", "mincore": 1, "maxcore": 1},
            {"resource_name": "MCORE", "mincore": 2},
        ],
        ddm_endpoint=[endpoint("D", "S"), endpoint("E", "S")],
        panda_ddm_relation=[
            uses("A", "D"),
            uses("B", "D", **reading),
            uses("U", "D", **reading),
            uses("FAR", "E"),
            uses("FAR", "D", scope="analysis"),
        ],
    )


EVERYBODY = ["A", "B", "FAR", "U/MCORE", "U/SCORE", "V/MCORE", "V/SCORE"]


@pytest.mark.parametrize(
    ("site", "names", "one_preassigned", "listed", "refused"),
    [
        (None, EVERYBODY, False, False, ()),
        ("", EVERYBODY, False, False, ()),
        ("A", ["A"], True, False, ()),
        ("B", ["B"], True, False, ()),
        ("A_TEST", ["A_TEST"], True, False, ()),
        ("A,B", ["A", "B"], False, True, ()),
        (" A , B ,", ["A", "B"], False, True, ()),
        ("U", ["U/MCORE", "U/SCORE"], False, True, ()),
        ("U/SCORE", ["U/SCORE"], True, False, ()),
        ("A,U", ["A", "U/MCORE", "U/SCORE"], False, True, ()),
        ("GONE", [], True, False, (("GONE", "unknown_queue"),)),
        ("A,GONE,U/NONE", ["A"], True, False, (("GONE", "unknown_queue"), ("U/NONE", "unknown_queue"))),
        ("ANALY", [], True, False, (("ANALY", "not_production"),)),
        ("ANALY,GONE", [], True, False, (("ANALY", "not_production"), ("GONE", "unknown_queue"))),
        ("NO_CLOUD", [], True, False, (("NO_CLOUD", "not_production"),)),
        ("A,NO_CLOUD", ["A"], True, False, (("NO_CLOUD", "not_production"),)),
    ],
)
def test_preassigned_queues(
    site: str | None, names: list[str], one_preassigned: bool, listed: bool, refused: tuple[tuple[str, str], ...]
) -> None:
    assert initial(named_grid(), site=site) == (names, one_preassigned, listed, refused)


def test_a_unified_queue_that_serves_no_resource_type_is_refused_with_its_own_reason() -> None:
    grid = build(schedconfig_json=[queue("U", capability="ucore")])
    assert initial(grid, site="U,GONE") == ([], True, False, (("U", "no_pseudo_queue"), ("GONE", "unknown_queue")))


@pytest.mark.parametrize(
    ("master_site", "names"),
    [
        ("A", ["A", "U/MCORE", "U/SCORE"]),
        ("FAR", ["FAR"]),
        ("U", ["U/MCORE", "U/SCORE"]),
        ("V", ["V/MCORE", "V/SCORE"]),
    ],
)
def test_a_merge_goes_near_its_unmerged_files(master_site: str, names: list[str]) -> None:
    assert initial(named_grid(), master_site=master_site, site="B") == (names, False, True, ())


@pytest.mark.parametrize(
    ("modified_s", "created_s", "frozen", "given_up"),
    [
        (NOW_S - DAY - 1, 0.0, 1.0, True),
        (NOW_S - DAY, 0.0, 1.0, False),
        (NOW_S - DAY - 1, NOW_S - DAY - 1, 1.0, False),  # never touched since it was made
        (NOW_S - DAY - 1, 0.0, None, False),  # never failed to broker
        (None, 0.0, 1.0, False),
        (NOW_S - DAY - 1, None, 1.0, False),
    ],
)
def test_until_that_has_failed_for_a_day(
    modified_s: float | None, created_s: float | None, frozen: float | None, given_up: bool
) -> None:
    times = {"master_modificationtime_s": modified_s, "master_creationtime_s": created_s, "frozentime_s": frozen}
    names, one_preassigned, listed, _ = initial(named_grid(), master_site="FAR", **times)
    assert (names, one_preassigned, listed) == ((EVERYBODY, False, False) if given_up else (["FAR"], False, True))


@pytest.mark.parametrize(
    ("columns", "urgent"),
    [
        ({"currentpriority": 1000.0}, True),
        ({"currentpriority": 999.0}, False),
        ({"currentpriority": None}, False),
        ({"processingtype": "urgent", "currentpriority": 1.0}, True),
        ({"processingtype": "Urgent"}, False),
        ({"processingtype": None}, False),
    ],
)
def test_express(columns: dict[str, Any], urgent: bool) -> None:
    assert facts(**columns).urgent.tolist() == [[urgent]]


@pytest.mark.parametrize(
    ("columns", "service", "high"),
    [
        ({"eventservice": 1.0, "currentpriority": 900.0}, True, True),
        ({"eventservice": 1.0, "currentpriority": 899.0}, True, False),
        ({"eventservice": 1.0, "currentpriority": 1.0, "scout": True}, True, True),
        ({"eventservice": 1.0, "currentpriority": 900.0, "job_cloning": True}, False, False),
        ({"eventservice": 0.0, "currentpriority": 900.0}, False, False),
        ({"eventservice": None, "currentpriority": 900.0}, False, False),
        ({"eventservice": 3.0}, False, False),
    ],
)
def test_event_service(columns: dict[str, Any], service: bool, high: bool) -> None:
    found = facts(**columns)
    assert (found.event_service.tolist(), found.es_high.tolist()) == ([[service]], [[high]])


@pytest.mark.parametrize(
    ("walltime", "wall_unit", "cputime", "cpu_unit", "undefined"),
    [
        (None, None, None, None, True),
        (0.0, None, None, None, True),
        (100.0, None, None, None, False),
        (None, "kSI2kseconds", None, None, False),
        (100.0, None, None, "HS06sPerEvent", True),
        (100.0, None, 0.0, "HS06sPerEvent", True),
        (None, None, 5.0, "HS06sPerEvent", False),
        (None, None, 5.0, "mHS06sPerEventFixed", False),
        (100.0, None, 5.0, "seconds", True),
    ],
)
def test_an_undefined_walltime(
    walltime: float | None, wall_unit: str | None, cputime: float | None, cpu_unit: str | None, undefined: bool
) -> None:
    found = facts(walltime=walltime, walltimeunit=wall_unit, cputime=cputime, cputimeunit=cpu_unit)
    assert found.walltime_undefined.tolist() == [[undefined]]


def test_the_nucleus_and_its_links() -> None:
    found = facts()
    assert found.has_nucleus.tolist() == [[True]]
    assert row(found.at_nucleus) == [True, True, True, False, False]
    assert row(found.shares_storage) == [True, True, True, False, False]
    assert row(found.storage_at_nucleus) == [True, True, True, False, False]
    assert row(found.storage_known) == [True, True, True, True, False]
    assert row(found.closeness) == [None, None, None, 4, None]
    assert row(found.link_queued) == [None, None, None, 30, None]
    assert row(found.throughput_mb_per_s) == [None, None, None, 60, None]
    assert found.nucleus_queued.tolist() == [[30]]
    assert found.nucleus_wan.tolist() == [[True]]


def test_express_chunks_look_at_express_files() -> None:
    found = facts(processingtype="urgent")
    assert row(found.link_queued) == [None, None, None, 3, None]
    assert found.nucleus_queued.tolist() == [[3]]


@pytest.mark.parametrize("nucleus", [None, "GONE"])
def test_no_nucleus(nucleus: str | None) -> None:
    found = facts(nucleus=nucleus)
    assert found.has_nucleus.tolist() == [[False]]
    assert (found.nucleus_queued.tolist(), found.nucleus_bare.tolist()) == ([[0]], [[BARE_NONE]])
    assert found.nucleus_wan.tolist() == [[True]]
    for flags in (found.at_nucleus, found.shares_storage, found.storage_at_nucleus):
        assert not flags.any()
    for stats in (found.closeness, found.link_queued, found.throughput_mb_per_s):
        assert np.isnan(stats).all()


def test_a_grid_without_nuclei() -> None:
    found = facts({**small_grid(), "site": []}, nucleus="NUC")
    assert found.has_nucleus.tolist() == [[False]]
    assert found.closeness.shape == found.at_nucleus.shape == (1, 5)


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ({}, None),
        ({"1h": 5}, 5),
        ({"1w": 7}, 7),
        ({"1d": 6, "1w": 7}, 6),
        ({"1h": 5, "1w": 7}, 5),  # a missing day hides nothing
        ({"1h": 0, "1d": 6}, 0),
    ],
)
def test_the_newest_throughput(windows: dict[str, float], expected: float | None) -> None:
    rows = [link("SAT", "NUC", f"dashb_mbps_{window}", value) for window, value in windows.items()]
    assert row(facts({**small_grid(), "network_matrix_kv": rows}).throughput_mb_per_s)[3] == expected


@pytest.mark.parametrize(
    ("activity", "wan"), [("write_wan", False), ("read_wan", False), ("read_lan", True), ("write_lan", True)]
)
def test_the_endpoint_of_the_nucleus(activity: str, wan: bool) -> None:
    grid = small_grid()
    grid["ddm_endpoint"][0]["detailed_status"] = f'{{"{activity}": "OFF"}}'
    assert facts(grid).nucleus_wan.tolist() == [[wan]]


def test_a_bare_nucleus() -> None:
    grid = small_grid()
    grid["schedconfig_json"][1] = queue("N_PLAIN", catchall="bareNucleus=only")
    assert facts(grid).nucleus_bare.tolist() == [[BARE_ONLY]]


@pytest.mark.parametrize(
    ("activity", "fact", "affected"),
    [
        ("read_lan", "can_read", True),
        ("write_lan", "can_write", True),
        ("write_wan", "can_receive", True),
        ("read_wan", "can_send", True),
        ("write_wan", "can_send", False),
        ("read_wan", "can_receive", False),
    ],
)
def test_the_endpoints_of_a_queue(activity: str, fact: str, affected: bool) -> None:
    grid = small_grid()
    grid["ddm_endpoint"][1]["detailed_status"] = f'{{"{activity}": "OFF"}}'
    assert row(getattr(facts(grid), fact))[3] is not affected
    # one good endpoint is enough
    grid["ddm_endpoint"].append(endpoint("S_SECOND", "SAT"))
    grid["panda_ddm_relation"].append(uses("S_PLAIN", "S_SECOND", default_read="N", default_write="N"))
    assert row(getattr(facts(grid), fact))[3] is True
    # but a DATADISK it must be
    grid["ddm_endpoint"][-1]["type"] = "SCRATCHDISK"
    assert row(getattr(facts(grid), fact))[3] is not affected


def test_a_queue_at_the_nucleus_needs_no_transfer_of_what_is_there() -> None:
    grid = small_grid()
    grid["ddm_endpoint"][0]["detailed_status"] = '{"write_wan": "OFF", "read_wan": "OFF"}'
    elsewhere = facts(grid, [Dataset([replica("S_DISK")])])
    assert row(elsewhere.can_receive)[:4] == [False, False, False, True]
    assert row(elsewhere.can_send)[:4] == [True, True, True, True]
    there = facts(grid, [Dataset([replica("N_DISK"), replica("S_DISK")])])
    assert row(there.can_receive)[:4] == [True] * 4
    nothing = facts(grid)
    assert row(nothing.can_receive)[:4] == [True] * 4
    # for another nucleus it is a queue like any other
    assert row(facts(grid, nucleus="SAT").can_send)[:4] == [False, False, False, True]


def test_free_space_of_the_default_output() -> None:
    grid = small_grid()
    grid["ddm_endpoint"][1]["space_free"] = None
    assert row(facts(grid).space_free_gb) == [1000, 1000, 1000, 0, None]


def test_input_at_hand() -> None:
    found = facts(None, [Dataset([replica("S_DISK", 4), replica("N_DISK")])])
    assert row(found.available_files) == [10, 10, 10, 4, 0]
    assert row(found.available_bytes) == [1000, 1000, 1000, 400, 0]
    assert row(found.all_local) == [True, True, True, False, False]
    assert (found.total_bytes.tolist(), found.total_files.tolist()) == ([[1000]], [[10]])
    assert row(facts().all_local) == [True] * 5
    assert row(facts(None, [Dataset([], is_pseudo=True)]).all_local) == [True] * 5


def test_each_status_is_counted_for_all_shares() -> None:
    grid = small_grid()
    grid["job_counts"] = [jobs("S_PLAIN", status, 10.0**n, gshare="Other") for n, status in enumerate(COUNTED_STATUSES)]
    found = facts(grid)
    seen = {name: row(getattr(found, f"all_{name}"))[3] for name in ("activated", "starting", "running")}
    assert seen == {name: 10.0 ** COUNTED_STATUSES.index(name) for name in seen}


def test_counts() -> None:
    found = facts(resource_type="SCORE")
    assert row(found.running) == [0, 7, 7, 0, 0]
    assert row(found.activated) == [0, 0, 0, 3, 0]
    assert row(found.running_cores) == [0, 14, 14, 0, 0]
    assert row(found.all_running) == [0, 7, 7, 0, 0]
    assert row(found.all_activated) == [0, 0, 0, 3, 0]
    assert row(found.all_starting) == [0] * 5
    assert row(found.n_pilots) == [5, 5, 5, 5, 5]
    assert row(found.has_slots) == [False] * 5
    assert facts(gshare="Other").running.tolist() == [[0] * 5]


def test_slots_are_found_by_share_and_type() -> None:
    slots = [{"pandaqueuename": "N_UCORE", "gshare": None, "resourcetype": "MCORE", "numslots": 80}]
    grid = {**small_grid(), "harvester_slots": slots}
    found = facts(grid, resource_type="MCORE")
    assert row(found.has_slots) == [False, True, True, False, False]
    # slots become jobs by the cores of the candidate
    assert row(found.running_equivalent) == [0, 10, 80, 0, 0]
    assert row(facts(grid, resource_type="SCORE").has_slots) == [False] * 5


def test_facts_of_a_block_are_those_of_its_chunks_one_by_one() -> None:
    datasets = [Dataset([replica("N_DISK", 3), replica("S_DISK")])]
    chunks = work(
        6,
        datasets,
        nucleus=["NUC", "SAT", None, "GONE", "NUC", "SAT"],
        gshare=["Simulation", "Other", None, "Simulation", "Other", "Simulation"],
        processingtype=["urgent", "simul", None, "simul", "simul", "urgent"],
        site=[None, "N_UCORE", None, "S_TEST", "N_PLAIN", None],
        master_site=[None, None, "S_PLAIN", None, None, None],
        iointensity=[0.0, 500.0, None, 0.0, 500.0, 0.0],
        workqueue_id=[1.0, None, 7.0, 1.0, 1.0, 7.0],
        resource_type=["SCORE", "MCORE", None, "SCORE", "MCORE", None],
        eventservice=[0.0, 1.0, 2.0, None, 1.0, 0.0],
    )
    found = cycle(chunks)
    whole = found.evaluate_block(slice(0, 6)).facts
    for start, stop in ((0, 1), (1, 2), (2, 6), (5, 6), (0, 3)):
        part = found.evaluate_block(slice(start, stop)).facts
        block = whole.block(np.arange(start, stop), np.arange(5))
        for field in dataclasses.fields(JobFacts):
            mine, theirs = getattr(part, field.name), getattr(block, field.name)
            if isinstance(mine, np.ndarray):
                assert mine.shape[0] in (1, stop - start), field.name
                np.testing.assert_array_equal(mine, theirs, err_msg=field.name)


def test_candidates_of_a_site_that_is_no_nucleus() -> None:
    grid = small_grid()
    grid["panda_site"].append(at_site("S_TEST", "ELSEWHERE"))
    assert row(facts(grid).at_nucleus)[4] is False
