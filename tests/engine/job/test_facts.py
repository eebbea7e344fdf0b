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
    return [None if isinstance(figure, float) and math.isnan(figure) else figure for figure in value[0].tolist()]


def initial(snapshot: Snapshot, **columns: Any) -> tuple[list[str], bool, bool, RefusedNames]:
    candidates = InitialList().candidates(chunk_table(1, **columns), snapshot)
    names = [str(name) for name in snapshot.queues.name[candidates.initial[0]]]
    return names, bool(candidates.one_preassigned[0]), bool(candidates.listed[0]), candidates.refused[0]


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


ALL_QUEUES = ["A", "B", "FAR", "U/MCORE", "U/SCORE", "V/MCORE", "V/SCORE"]


@pytest.mark.parametrize(
    ("site", "names", "one_preassigned", "listed", "refused"),
    [
        (None, ALL_QUEUES, False, False, ()),
        ("", ALL_QUEUES, False, False, ()),
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
        (NOW_S - DAY - 1, NOW_S - DAY - 1, 1.0, False),  # not modified since its creation
        (NOW_S - DAY - 1, 0.0, None, False),  # never failed to broker
        (None, 0.0, 1.0, False),
        (NOW_S - DAY - 1, None, 1.0, False),
    ],
)
def test_a_merge_goes_anywhere_after_it_failed_for_a_day(
    modified_s: float | None, created_s: float | None, frozen: float | None, given_up: bool
) -> None:
    times = {"master_modificationtime_s": modified_s, "master_creationtime_s": created_s, "frozentime_s": frozen}
    names, one_preassigned, listed, _ = initial(named_grid(), master_site="FAR", **times)
    assert (names, one_preassigned, listed) == ((ALL_QUEUES, False, False) if given_up else (["FAR"], False, True))


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
    job_facts = facts(**columns)
    assert (job_facts.event_service.tolist(), job_facts.es_high.tolist()) == ([[service]], [[high]])


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
    job_facts = facts(walltime=walltime, walltimeunit=wall_unit, cputime=cputime, cputimeunit=cpu_unit)
    assert job_facts.walltime_undefined.tolist() == [[undefined]]


def test_the_nucleus_and_its_links() -> None:
    job_facts = facts()
    assert job_facts.has_nucleus.tolist() == [[True]]
    assert row(job_facts.at_nucleus) == [True, True, True, False, False]
    assert row(job_facts.shares_storage) == [True, True, True, False, False]
    assert row(job_facts.storage_at_nucleus) == [True, True, True, False, False]
    assert row(job_facts.storage_known) == [True, True, True, True, False]
    assert row(job_facts.closeness) == [None, None, None, 4, None]
    assert row(job_facts.link_queued) == [None, None, None, 30, None]
    assert row(job_facts.throughput_mb_per_s) == [None, None, None, 60, None]
    assert job_facts.nucleus_queued.tolist() == [[30]]
    assert job_facts.nucleus_wan.tolist() == [[True]]


def test_express_chunks_count_express_files_on_links() -> None:
    job_facts = facts(processingtype="urgent")
    assert row(job_facts.link_queued) == [None, None, None, 3, None]
    assert job_facts.nucleus_queued.tolist() == [[3]]


@pytest.mark.parametrize("nucleus", [None, "GONE"])
def test_no_nucleus(nucleus: str | None) -> None:
    job_facts = facts(nucleus=nucleus)
    assert job_facts.has_nucleus.tolist() == [[False]]
    assert (job_facts.nucleus_queued.tolist(), job_facts.nucleus_bare.tolist()) == ([[0]], [[BARE_NONE]])
    assert job_facts.nucleus_wan.tolist() == [[True]]
    for flags in (job_facts.at_nucleus, job_facts.shares_storage, job_facts.storage_at_nucleus):
        assert not flags.any()
    for stats in (job_facts.closeness, job_facts.link_queued, job_facts.throughput_mb_per_s):
        assert np.isnan(stats).all()


def test_a_grid_without_nuclei() -> None:
    job_facts = facts({**small_grid(), "site": []}, nucleus="NUC")
    assert job_facts.has_nucleus.tolist() == [[False]]
    assert job_facts.closeness.shape == job_facts.at_nucleus.shape == (1, 5)


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
    # but it must be a DATADISK
    grid["ddm_endpoint"][-1]["type"] = "SCRATCHDISK"
    assert row(getattr(facts(grid), fact))[3] is not affected


def test_a_queue_at_the_nucleus_needs_no_transfer_of_local_input() -> None:
    grid = small_grid()
    grid["ddm_endpoint"][0]["detailed_status"] = '{"write_wan": "OFF", "read_wan": "OFF"}'
    elsewhere = facts(grid, [Dataset([replica("S_DISK")])])
    assert row(elsewhere.can_receive)[:4] == [False, False, False, True]
    assert row(elsewhere.can_send)[:4] == [True, True, True, True]
    local = facts(grid, [Dataset([replica("N_DISK"), replica("S_DISK")])])
    assert row(local.can_receive)[:4] == [True] * 4
    without_input = facts(grid)
    assert row(without_input.can_receive)[:4] == [True] * 4
    # for another nucleus it is an ordinary queue
    assert row(facts(grid, nucleus="SAT").can_send)[:4] == [False, False, False, True]


def test_free_space_of_the_default_output() -> None:
    grid = small_grid()
    grid["ddm_endpoint"][1]["space_free"] = None
    assert row(facts(grid).space_free_gb) == [1000, 1000, 1000, 0, None]


def test_available_input() -> None:
    job_facts = facts(None, [Dataset([replica("S_DISK", 4), replica("N_DISK")])])
    assert row(job_facts.available_files) == [10, 10, 10, 4, 0]
    assert row(job_facts.available_bytes) == [1000, 1000, 1000, 400, 0]
    assert row(job_facts.all_local) == [True, True, True, False, False]
    assert (job_facts.total_bytes.tolist(), job_facts.total_files.tolist()) == ([[1000]], [[10]])
    assert row(facts().all_local) == [True] * 5
    assert row(facts(None, [Dataset([], is_pseudo=True)]).all_local) == [True] * 5


def test_each_status_is_counted_for_all_shares() -> None:
    grid = small_grid()
    grid["job_counts"] = [jobs("S_PLAIN", status, 10.0**n, gshare="Other") for n, status in enumerate(COUNTED_STATUSES)]
    job_facts = facts(grid)
    totals = {name: row(getattr(job_facts, f"all_{name}"))[3] for name in ("activated", "starting", "running")}
    assert totals == {name: 10.0 ** COUNTED_STATUSES.index(name) for name in totals}


def test_counts() -> None:
    job_facts = facts(resource_type="SCORE")
    assert row(job_facts.running) == [0, 7, 7, 0, 0]
    assert row(job_facts.activated) == [0, 0, 0, 3, 0]
    assert row(job_facts.running_cores) == [0, 14, 14, 0, 0]
    assert row(job_facts.all_running) == [0, 7, 7, 0, 0]
    assert row(job_facts.all_activated) == [0, 0, 0, 3, 0]
    assert row(job_facts.all_starting) == [0] * 5
    assert row(job_facts.n_pilots) == [5, 5, 5, 5, 5]
    assert row(job_facts.has_slots) == [False] * 5
    assert facts(gshare="Other").running.tolist() == [[0] * 5]


def test_slots_are_found_by_share_and_type() -> None:
    slots = [{"pandaqueuename": "N_UCORE", "gshare": None, "resourcetype": "MCORE", "numslots": 80}]
    grid = {**small_grid(), "harvester_slots": slots}
    job_facts = facts(grid, resource_type="MCORE")
    assert row(job_facts.has_slots) == [False, True, True, False, False]
    # slots become jobs by the cores of the candidate
    assert row(job_facts.running_equivalent) == [0, 10, 80, 0, 0]
    assert row(facts(grid, resource_type="SCORE").has_slots) == [False] * 5


def test_facts_of_a_block_equal_those_of_its_chunks() -> None:
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
    toy_cycle = cycle(chunks)
    whole = toy_cycle.evaluate_block(slice(0, 6)).facts
    for start, stop in ((0, 1), (1, 2), (2, 6), (5, 6), (0, 3)):
        part = toy_cycle.evaluate_block(slice(start, stop)).facts
        block = whole.block(np.arange(start, stop), np.arange(5))
        for field in dataclasses.fields(JobFacts):
            actual, expected = getattr(part, field.name), getattr(block, field.name)
            if isinstance(actual, np.ndarray):
                assert actual.shape[0] in (1, stop - start), field.name
                np.testing.assert_array_equal(actual, expected, err_msg=field.name)


def test_candidates_of_a_site_that_is_no_nucleus() -> None:
    grid = small_grid()
    grid["panda_site"].append(at_site("S_TEST", "ELSEWHERE"))
    assert row(facts(grid).at_nucleus)[4] is False
