"""Where the input of analysis is: which queues have it, what they weigh, and when there is no use in waiting."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import RowsByKind
from broker.engine.analysis.data_facts import AnalysisData, gather_analysis_data
from broker.engine.analysis.queue_attributes import scope_in_use, vp_queues
from broker.engine.job.data_facts import InputLimits
from tests.engine.analysis.analysis_requests import READS, reading_grid, requests
from tests.engine.small_work import Dataset, Replica, replica, work_of
from tests.snapshot.raw_grid import endpoint, queue, uses

LIMITS = InputLimits(max_missing_files=2, min_completeness_percent=90, io_intensity_cutoff_kbps=np.inf)
GRID = reading_grid()
NAMES = [str(name) for name in GRID.unified.name]
TAPE = replica("TAPE_A", is_tape=True)
VP = replica("B_VP_DISK", is_vp=True)


def gathered(
    *datasets: Dataset, among: str = "ABCU", chunks: dict[str, Any] | None = None, **asked: Any
) -> AnalysisData:
    """The data of one chunk whose candidates are the queues ``among``."""
    work = work_of(datasets, chunks=chunks)
    initial = np.array([[name in among for name in NAMES]])
    return gather_analysis_data(work, requests(**asked), RowsByKind(initial), GRID, LIMITS)


def having(found: AnalysisData) -> str:
    return "".join(name for name, flag in zip(NAMES, found.has_input.every[0], strict=True) if flag)


def weights(found: AnalysisData) -> dict[str, float]:
    values = zip(NAMES, found.datasets_weight.every[0].tolist(), strict=True)
    return {name: value for name, value in values if value}


A, B, C = (replica(f"DISK_{name}") for name in "ABC")


@pytest.mark.parametrize(
    ("replicas", "wanted", "weight"),
    [
        ([A], "A", {"A": 1}),
        ([A, C], "ACU", {"A": 1, "C": 1, "U": 1}),
        # all files, not nearly all: a part counts only where nobody has the whole
        ([A, replica("DISK_B", 9)], "A", {"A": 1}),
        ([replica("DISK_A", 9), replica("DISK_B", 1)], "AB", {"A": 1, "B": 1}),
        ([replica("DISK_A", np.nan, np.nan), B], "B", {"B": 1}),
        # tape only where there is no disk
        ([TAPE], "A", {"A": 0.001}),
        ([TAPE, C], "CU", {"A": 0.001, "C": 1, "U": 1}),
        ([TAPE, replica("DISK_C", 1)], "CU", {"A": 0.001, "C": 1, "U": 1}),
        # virtual placement, and beside a real copy
        ([VP], "B", {"B": 1}),
        ([VP, A], "A", {"A": 1}),
        # B has both, and a queue with a virtual placement is out where anybody has a real copy
        ([VP, B], "", {}),
        # an endpoint that no queue reads
        ([replica("ELSEWHERE")], "", {}),
    ],
)
def test_one_dataset(replicas: Sequence[Replica], wanted: str, weight: dict[str, float]) -> None:
    found = gathered(Dataset(replicas))
    assert (having(found), weights(found)) == (wanted, weight)


@pytest.mark.parametrize(
    ("datasets", "wanted", "union", "weight"),
    [
        (([A, B], [A]), "A", False, {"A": 2, "B": 1}),
        # all datasets anywhere goes before some on disk
        (([TAPE], [A, B]), "A", False, {"A": 1.001, "B": 1}),
        # nobody has all
        (([A], [B]), "AB", True, {"A": 1, "B": 1}),
        (([TAPE], [B]), "B", True, {"A": 0.001, "B": 1}),
    ],
)
def test_several_datasets(
    datasets: Sequence[Sequence[Replica]], wanted: str, union: bool, weight: dict[str, float]
) -> None:
    found = gathered(*(Dataset(replicas, is_master=not at) for at, replicas in enumerate(datasets)))
    assert (having(found), found.union.tolist(), weights(found)) == (wanted, [union], weight)


def test_only_candidates_are_looked_at_but_the_flags_are_those_of_all() -> None:
    """B alone may have the chunk and has a part of it; A has all, so the dataset is not distributed."""
    spread = Dataset([A, replica("DISK_B", 3)], distributed=True)
    found = gathered(spread, among="B")
    assert (having(found), found.distributed.tolist()) == ("B", [False])
    assert gathered(Dataset([replica("DISK_A", 9), replica("DISK_B", 3)], distributed=True)).distributed.tolist() == [
        True
    ]


@pytest.mark.parametrize(
    ("replicas", "distributed", "asked", "lost"),
    [
        ([A], False, {}, False),
        # all but two of ten are enough for not waiting, three are not; nor is nothing
        ([replica("DISK_A", 8)], False, {}, False),
        ([replica("DISK_A", 7)], False, {}, True),
        ([replica("DISK_A", 0, 1)], False, {}, True),
        ([replica("DISK_A", 0, 0)], False, {}, False),
        # 90 % of many files
        ([replica("DISK_A", 90, 100)], False, {}, False),
        ([replica("DISK_A", 89, 100)], False, {}, True),
        ([TAPE], False, {}, False),
        ([VP], False, {}, True),
        ([], False, {}, True),
        ([replica("DISK_A", 1)], True, {}, False),
        # distributed needs a queue that has some of it
        ([replica("ELSEWHERE", 1)], True, {}, True),
        ([replica("DISK_A", 1)], False, {"allow_incomplete": True}, False),
    ],
)
def test_a_dataset_that_is_nowhere_complete(
    replicas: Sequence[Replica], distributed: bool, asked: dict[str, Any], lost: bool
) -> None:
    assert gathered(Dataset(replicas, distributed=distributed), **asked).lost.tolist() == [lost]


@pytest.mark.parametrize("name", ["avoid_vp", "merging", "scout", "use_local_io"])
def test_who_may_not_use_virtual_placement(name: str) -> None:
    """The placement then counts like tape: there, but not on disk."""
    asked = {name: True} if name == "avoid_vp" else {}
    found = gathered(Dataset([VP]), chunks={} if asked else {name: True}, **asked)
    assert (having(found), weights(found)) == ("B", {"B": 0.001})


def test_databases_are_never_distributed() -> None:
    work = work_of([Dataset([replica("DISK_A", 1)], distributed=True)])
    named = dataclasses.replace(work.inputs, name=np.array(["ddo.000001"], dtype=object))
    initial = np.ones((1, len(NAMES)), dtype=np.bool_)
    found = gather_analysis_data(dataclasses.replace(work, inputs=named), requests(), RowsByKind(initial), GRID, LIMITS)
    assert (found.distributed.tolist(), found.lost.tolist()) == ([False], [True])


@pytest.mark.parametrize(
    ("wan", "found_files", "remote"), [("ON", 10, True), ("OFF", 10, False), ("TEST", 10, False), ("ON", 7, False)]
)
def test_a_source_over_wan(wan: str, found_files: int, remote: bool) -> None:
    """A replica that is regarded as complete at an endpoint that is read over WAN."""
    status = f'{{"read_wan": "{wan}"}}'
    grid = reading_grid(
        ddm_endpoint=[endpoint("DISK_A", "S", detailed_status=status)], panda_ddm_relation=[uses("A", "DISK_A")]
    )
    work = work_of([Dataset([replica("DISK_A", found_files)])])
    initial = np.ones((1, len(grid.unified)), dtype=np.bool_)
    found = gather_analysis_data(work, requests(), RowsByKind(initial), grid, LIMITS)
    assert found.remote_source.tolist() == [remote]


def test_whole_gib_on_disk_and_whole_copies_of_secondaries() -> None:
    """A job's files are 100 bytes here: 2**30 of them for each GiB."""
    many = 2.0**30 / 100
    master = Dataset([replica("DISK_A", files=2.5 * many, holds_all=False), replica("DISK_C", files=3 * many)])
    secondary = Dataset(
        [replica("DISK_A", 9, files=many, holds_all=False), replica("DISK_C", files=many)], is_master=False
    )
    found = gathered(master, secondary)
    assert dict(zip(NAMES, found.disk_gb.every[0].tolist(), strict=True)) == {"A": 2, "B": 0, "C": 4, "P": 0, "U": 4}


@pytest.mark.parametrize(("scout", "gib"), [(False, 3), (True, 0)])
def test_virtual_placement_is_no_disk_of_chunks_that_may_not_use_it(scout: bool, gib: int) -> None:
    virtual = replica("B_VP_DISK", is_vp=True, files=3 * 2.0**30 / 100)
    found = gathered(Dataset([virtual]), chunks={"scout": scout})
    assert found.disk_gb.every[0][NAMES.index("B")] == gib


@pytest.mark.parametrize(("files", "big"), [(2.0**30 / 100, True), (2.0**30 / 100 - 1, False)])
def test_input_of_a_gib_is_big(files: float, big: bool) -> None:
    assert gathered(Dataset([A], files=files)).big.tolist() == [big]


@pytest.mark.parametrize(
    ("replicas", "distributed", "lacks", "lacks_parts"),
    [
        ([C], False, True, False),
        ([A, C], False, False, False),
        # another queue may read from elsewhere
        ([A], False, False, False),
        ([replica("DISK_A", 9), C], False, True, False),
        # disk and tape are looked at each by itself
        ([replica("DISK_A", 9), replica("TAPE_A", 10, is_tape=True), C], False, False, False),
        # without a complete replica on disk anywhere nobody is asked
        ([replica("DISK_C", 9)], False, False, False),
        ([TAPE], False, False, False),
    ],
)
def test_queues_for_local_data_only(
    replicas: Sequence[Replica], distributed: bool, lacks: bool, lacks_parts: bool
) -> None:
    grid = reading_grid(
        schedconfig_json=[queue("A", type="analysis", catchall="use_only_local_data"), queue("C", type="analysis")],
        panda_ddm_relation=[uses("A", "DISK_A"), uses("A", "TAPE_A", **READS), uses("C", "DISK_C")],
    )
    work = work_of([Dataset(replicas, distributed=distributed)])
    found = gather_analysis_data(work, requests(), RowsByKind(np.ones((1, 2), dtype=np.bool_)), grid, LIMITS)
    lacking = found.lacks_files.every.tolist(), found.lacks_parts.every.tolist()
    assert lacking == ([[lacks, False]], [[lacks_parts, False]])


def test_without_real_input_everybody_has_it() -> None:
    found = gathered(Dataset(is_pseudo=True))
    assert (having(found), found.real.tolist(), found.lost.tolist()) == ("".join(NAMES), [False], [False])


def test_the_scope_of_analysis_goes_before_the_default_one() -> None:
    """By role: A defines it for reading only."""
    grid = reading_grid(
        panda_ddm_relation=[uses("A", "DISK_A"), uses("A", "DISK_B", scope="analysis", **READS), uses("B", "DISK_B")]
    )

    def endpoints(inputs: bool) -> set[tuple[str, str]]:
        rows = np.flatnonzero(scope_in_use(grid, inputs))
        queues, storages = grid.relations.unified[rows], grid.relations.storage[rows]
        names = zip(grid.unified.name[queues].tolist(), grid.storages.name[storages].tolist(), strict=True)
        return {(str(queue_name), str(storage)) for queue_name, storage in names}

    assert endpoints(True) == {("A", "DISK_B"), ("B", "DISK_B")}
    assert endpoints(False) == {("A", "DISK_A"), ("B", "DISK_B")}


def test_queues_with_virtual_placement() -> None:
    assert dict(zip(NAMES, vp_queues(GRID).tolist(), strict=True)) == {
        "A": False, "B": True, "C": False, "P": False, "U": False
    }  # fmt: skip
