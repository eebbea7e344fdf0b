"""The location of chunk input, against a plain reading of the specification chunk by chunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.domain.work import Work
from broker.engine.job.data_facts import DataFacts, DataFactsLater, InputLimits, gather_data
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.snapshot.snapshot import Snapshot
from tests.engine.small_work import Dataset, Replica, replica, work_of
from tests.snapshot.raw_grid import build, endpoint, queue, uses

LIMITS = InputLimits(max_missing_files=1, min_completeness_percent=90, io_intensity_cutoff_kbps=200)
OFF = {"read_lan": '{"read_lan": "OFF"}', "read_wan": '{"read_wan": "OFF"}'}
CLOSED = '{"read_lan": "OFF", "read_wan": "TEST"}'


def grid() -> Snapshot:
    """A and B read DISK_A (B also TAPE_B and DISK_B), C reads DISK_C, D reads nothing."""
    reading = {"roles": "read_lan", "default_write": "N"}
    return build(
        schedconfig_json=[queue(name) for name in "ABCD"],
        ddm_endpoint=[
            endpoint("DISK_A", "S"),
            endpoint("DISK_B", "S", detailed_status=OFF["read_wan"]),
            endpoint("TAPE_B", "S", type="DATATAPE", is_tape="Y"),
            endpoint("DISK_C", "S", detailed_status=CLOSED),
            endpoint("ALONE", "S"),
        ],
        panda_ddm_relation=[
            uses("A", "DISK_A"),
            uses("A", "ALONE", roles="write_lan"),
            uses("B", "DISK_A", **reading),
            uses("B", "DISK_B"),
            uses("B", "TAPE_B", **reading),
            uses("C", "DISK_C"),
            uses("C", "DISK_A", scope="analysis"),
        ],
    )


GRID = grid()
NAMES = list(GRID.unified.name)


def available(facts: DataFacts, chunk: int = 0) -> dict[str, tuple[float, float]]:
    """Files on disk, and on disk or tape, by queue."""
    rows = np.flatnonzero(facts.chunk == chunk)
    return {NAMES[facts.unified[row]]: (facts.disk_files[row], facts.any_files[row]) for row in rows}


def queues_with_input(facts: DataFacts, chunk: int = 0) -> set[str]:
    return {NAMES[queue] for queue in facts.here_unified[facts.here_chunk == chunk]}


def gather(*datasets: Sequence[Dataset], **chunks: Any) -> DataFacts:
    return gather_data(work_of(*datasets, chunks=chunks), GRID, LIMITS)


def test_no_work() -> None:
    facts = gather()
    assert all(getattr(facts, field.name).shape == (0,) for field in dataclasses.fields(facts))


def test_a_complete_replica_is_available_to_every_queue_that_reads_it() -> None:
    facts = gather([Dataset([replica("DISK_A")])], [Dataset([replica("DISK_C")])])
    assert available(facts, 0) == {"A": (10, 10), "B": (10, 10)}
    assert available(facts, 1) == {"C": (10, 10)}
    assert (queues_with_input(facts, 0), queues_with_input(facts, 1)) == ({"A", "B"}, set())


def test_bytes_go_with_files() -> None:
    facts = gather([Dataset([replica("DISK_A", 4), replica("TAPE_B", 7, is_tape=True)])])
    assert facts.disk_bytes.tolist() == [400, 400]
    assert facts.any_bytes.tolist() == [400, 700]


def test_tape_counts_separately() -> None:
    facts = gather([Dataset([replica("TAPE_B", is_tape=True), replica("DISK_B", 3)])])
    assert available(facts) == {"B": (3, 10)}


def test_single_files_on_a_tape_endpoint_are_on_tape_and_make_no_replica() -> None:
    alone = Dataset([replica("TAPE_B", 0, float("nan"), files=2), replica("DISK_A", 0, float("nan"), files=3)])
    facts = gather([alone])
    assert available(facts) == {"A": (3, 3), "B": (3, 3)}
    facts = gather([Dataset([replica("TAPE_B", 0, float("nan"), files=2)])])
    assert available(facts) == {"B": (0, 2)}
    assert (queues_with_input(facts), facts.no_locations.tolist(), facts.fault.tolist()) == (set(), [True], [2])


def test_the_largest_part_of_a_queue_counts() -> None:
    facts = gather([Dataset([replica("DISK_A", 3), replica("DISK_B", 8)])])
    assert available(facts) == {"A": (3, 3), "B": (8, 8)}


def test_datasets_add_up() -> None:
    facts = gather([Dataset([replica("DISK_A")]), Dataset([replica("DISK_B")], is_master=False)])
    assert available(facts) == {"A": (10, 10), "B": (20, 20)}
    assert queues_with_input(facts) == set()  # no place holds both


def test_files_in_two_datasets_count_once() -> None:
    """Both datasets hold the same 10 files of 100 bytes."""
    twice = [Dataset([replica("DISK_A")]), Dataset([replica("DISK_B"), replica("TAPE_B")], is_master=False)]
    facts = gather(twice, total_files=[10.0], total_bytes=[1000.0])
    assert available(facts) == {"A": (10, 10), "B": (10, 10)}
    assert (facts.disk_bytes.tolist(), facts.any_bytes.tolist()) == ([1000, 1000], [1000, 1000])


@pytest.mark.parametrize(
    ("is_master", "intensity", "prestaging", "holds_all", "counts"),
    [
        (True, 200, False, False, True),
        (True, 200.1, False, False, False),
        (True, 200.1, True, False, True),
        (True, 200.1, False, True, True),
        (True, None, False, False, True),
        (False, 0, False, False, False),
        (False, 0, True, False, False),
        (False, 0, False, True, True),
    ],
)
def test_when_only_a_whole_dataset_counts(
    is_master: bool, intensity: float | None, prestaging: bool, holds_all: bool, counts: bool
) -> None:
    dataset = Dataset([replica("DISK_A", 5, holds_all=holds_all)], is_master=is_master)
    facts = gather([dataset], iointensity=[intensity], input_prestaging=[prestaging])
    assert bool(available(facts)) is counts


def test_a_complete_replica_that_is_shorter_than_the_dataset_is_a_part() -> None:
    facts = gather([Dataset([replica("DISK_A", 5, 5, holds_all=False)], is_master=False)])
    assert available(facts) == {}


def test_an_endpoint_that_is_not_on_record_serves_no_queue() -> None:
    facts = gather([Dataset([replica("GONE")])])
    assert available(facts) == {}
    assert facts.no_locations.tolist() == [False]
    assert facts.remote_source.tolist() == [True]
    assert facts.fault.tolist() == [0]


@pytest.mark.parametrize(
    ("found", "total", "complete"),
    [
        (10, 10, True),
        (9, 10, True),
        (8, 10, False),
        (90, 100, True),
        (89, 100, False),
        (99, 100, True),
        (0, 0, True),
        (0, 1, False),  # one file is missing, but no file is present
        (1, 2, True),
    ],
)
def test_complete_enough(found: float, total: float, complete: bool) -> None:
    facts = gather([Dataset([replica("DISK_A", found, total)])])
    assert INPUT_FAULTS[facts.fault[0]] == ("" if complete else "no_complete_replica")
    assert (queues_with_input(facts) == {"A", "B"}) is complete


@pytest.mark.parametrize(("found", "total", "complete"), [(0, 7, False), (1, 7, True), (0, 0, True)])
def test_a_replica_without_files_is_no_copy_even_if_any_share_is_enough(
    found: float, total: float, complete: bool
) -> None:
    limits = dataclasses.replace(LIMITS, min_completeness_percent=0, max_missing_files=10)
    facts = gather_data(work_of([Dataset([replica("DISK_A", found, total)])]), GRID, limits)
    assert INPUT_FAULTS[facts.fault[0]] == ("" if complete else "no_complete_replica")


def test_an_unknown_dataset_is_no_fault_where_no_files_are_wanted() -> None:
    """Nor is its lack of copies: a dataset unknown to the catalogue counts as distributed."""
    work = work_of([Dataset([replica("DISK_A")]), Dataset(catalogued=False, distributed=True, is_master=False)])
    faults = [gather_data(work, GRID, LIMITS, files_wanted=wanted).fault.tolist() for wanted in (True, False)]
    assert faults == [[INPUT_FAULTS.index("unknown_dataset")], [0]]


def test_unknown_counts_are_complete_and_a_virtual_placement_is_not() -> None:
    assert gather([Dataset([replica("DISK_A", np.nan, np.nan, complete=False, files=0)])]).fault[0] == 0
    facts = gather([Dataset([replica("DISK_A", is_vp=True)])])
    assert INPUT_FAULTS[facts.fault[0]] == "no_complete_replica"
    assert facts.no_locations.tolist() == [True]
    assert available(facts) == {"A": (10, 10), "B": (10, 10)}


@pytest.mark.parametrize(
    ("rses", "fault", "remote", "places"),
    [
        (["DISK_A"], "", True, {"A", "B"}),
        (["DISK_B"], "", False, {"B"}),  # only LAN
        (["DISK_C"], "replica_unreadable", True, set()),
        (["DISK_C", "DISK_A"], "", True, {"A", "B"}),
        (["DISK_C", "DISK_B"], "", False, {"B"}),
        (["DISK_B", "ALONE"], "", True, {"B"}),
        (["TAPE_B"], "", True, set()),  # a readable place, but not a DATADISK
        ([], "no_complete_replica", True, set()),
    ],
)
def test_readable_replicas(rses: list[str], fault: str, remote: bool, places: set[str]) -> None:
    facts = gather([Dataset([replica(rse) for rse in rses])])
    assert INPUT_FAULTS[facts.fault[0]] == fault
    assert facts.remote_source.tolist() == [remote]
    assert queues_with_input(facts) == places
    assert facts.no_locations.tolist() == [rses in ([], ["DISK_C"])]


@pytest.mark.parametrize(
    ("columns", "prestaging", "fault"),
    [
        ({}, False, "no_complete_replica"),
        ({}, True, ""),
        ({"distributed": True}, False, ""),
        ({"is_pseudo": True}, False, ""),
        ({"is_pseudo": True, "catalogued": False}, False, ""),
        ({"catalogued": False}, False, "unknown_dataset"),
        ({"catalogued": False, "asked": False}, False, "dataset_not_asked"),
        ({"asked": False}, False, "dataset_not_asked"),
        ({"is_pseudo": True, "asked": False}, False, ""),
        ({"catalogued": False, "distributed": True}, False, "unknown_dataset"),
    ],
)
def test_which_datasets_are_checked_for_replicas(columns: dict[str, Any], prestaging: bool, fault: str) -> None:
    facts = gather([Dataset([replica("DISK_A", 2)], **columns)], input_prestaging=[prestaging])
    assert INPUT_FAULTS[facts.fault[0]] == fault
    assert facts.remote_source.tolist() == [True]


def test_the_worst_fault_of_several_datasets() -> None:
    good, poor, closed = Dataset([replica("DISK_A")]), Dataset([]), Dataset([replica("DISK_C")])
    unknown = Dataset([], catalogued=False)
    faults = gather([good, closed, poor], [poor, unknown, closed], [closed, good], [good]).fault
    names = [INPUT_FAULTS[fault] for fault in faults]
    assert names == ["no_complete_replica", "unknown_dataset", "replica_unreadable", ""]


def test_a_grid_without_storage() -> None:
    facts = gather_data(work_of([Dataset([replica("DISK_A")])]), build(schedconfig_json=[queue("A")]), LIMITS)
    assert (facts.fault.tolist(), facts.remote_source.tolist(), len(facts.chunk)) == ([0], [True], 0)
    empty = gather_data(work_of([Dataset([replica("DISK_A")])]), build(), LIMITS)
    assert len(empty.here_chunk) == 0


RSES = st.sampled_from(["DISK_A", "DISK_B", "TAPE_B", "DISK_C", "ALONE", "GONE"])
REPLICAS = st.builds(
    Replica,
    rse=RSES,
    found=st.integers(0, 10).map(float),
    total=st.sampled_from([10.0, 12.0, 0.0]),
    is_tape=st.booleans(),
    is_vp=st.booleans(),
    holds_all=st.booleans(),
)
DATASETS = st.builds(
    Dataset,
    replicas=st.lists(REPLICAS, max_size=4, unique_by=lambda one: one.rse),
    is_master=st.booleans(),
    is_pseudo=st.booleans(),
    distributed=st.booleans(),
    catalogued=st.booleans(),
)
LAN = {"DISK_A": True, "DISK_B": True, "TAPE_B": True, "DISK_C": False, "ALONE": True, "GONE": True}
WAN = {**LAN, "DISK_B": False}
READS = {"A": ["DISK_A"], "B": ["DISK_A", "DISK_B", "TAPE_B"], "C": ["DISK_C"], "D": []}
DISKS = {"DISK_A", "DISK_B", "DISK_C", "ALONE"}


def enough(copy: Replica) -> bool:
    if copy.is_vp:
        return False
    share = copy.found / copy.total * 100 if copy.total else float("nan")
    return copy.found == copy.total or (copy.found > 0 and (copy.total - copy.found <= 1 or share >= 90))


def naive(datasets: Sequence[Dataset], prestaging: bool, intensity: float) -> dict[str, Any]:
    """A literal reading of the specification for one chunk."""
    fault, remote, places = 0, True, []
    for dataset in datasets:
        if dataset.is_pseudo:
            continue
        good = [copy.rse for copy in dataset.replicas if enough(copy)]
        open_ = [rse for rse in good if LAN[rse] or WAN[rse]]
        if not dataset.distributed:
            places.append(set(open_))
        if not dataset.catalogued:
            fault = 1
        elif dataset.distributed or prestaging:
            continue
        elif not good:
            fault = 2 if fault != 1 else 1
        elif not open_:
            fault = fault or 3
        if not (dataset.distributed or prestaging) and open_ and not any(WAN[rse] for rse in open_):
            remote = False
    common = set.intersection(*places) if places else set()
    files: dict[str, tuple[float, float]] = {}
    total = sum(dataset.files for dataset in datasets if not dataset.is_pseudo)
    for name, rses in READS.items():
        disk = anywhere = 0.0
        for dataset in datasets:
            parts = [
                copy
                for copy in dataset.replicas
                if copy.rse in rses
                and copy.found
                and (copy.holds_all or (dataset.is_master and (intensity <= 200 or prestaging)))
            ]
            disk += max((copy.found for copy in parts if not copy.is_tape), default=0.0)
            anywhere += max((copy.found for copy in parts), default=0.0)
        if anywhere:
            files[name] = (min(disk, total), min(anywhere, total))
    at = {name for name, rses in READS.items() if common & set(rses) & DISKS}
    return {"fault": fault, "remote": remote, "none": not common, "here": at, "available": files}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(DATASETS, max_size=3), st.booleans(), st.sampled_from([0.0, 500.0])), max_size=4))
def test_against_a_plain_reading(chunks: list[tuple[list[Dataset], bool, float]]) -> None:
    work: Work = work_of(
        *(datasets for datasets, _, _ in chunks),
        chunks={
            "input_prestaging": [prestaging for _, prestaging, _ in chunks],
            "iointensity": [intensity for _, _, intensity in chunks],
        },
    )
    facts = gather_data(work, GRID, LIMITS)
    for row, (datasets, prestaging, intensity) in enumerate(chunks):
        assert {
            "fault": facts.fault[row],
            "remote": facts.remote_source[row],
            "none": facts.no_locations[row],
            "here": queues_with_input(facts, row),
            "available": available(facts, row),
        } == naive(datasets, prestaging, intensity)
    pairs = list(zip(facts.chunk.tolist(), facts.unified.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


def test_a_failure_to_gather_repeats_at_each_read() -> None:
    answers: list[Any] = []

    def make() -> DataFacts:
        if not answers:
            raise ValueError("replicas of no input")
        return answers[0]  # type: ignore[no-any-return]

    later = DataFactsLater(np.zeros(1, dtype=np.bool_), make)
    for _ in range(2):
        with pytest.raises(ValueError, match="replicas of no input"):
            later.fault  # noqa: B018 - read
    answers.append(gather_data(work_of([Dataset()]), GRID, LIMITS))
    assert later.fault.tolist() == answers[0].fault.tolist()
    with pytest.raises(AttributeError, match="no column colour"):
        later.colour  # type: ignore[attr-defined]  # noqa: B018
