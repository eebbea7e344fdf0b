"""Analysis input: which queues have it, their weights, and when waiting for it is pointless."""

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


def gather(
    *datasets: Dataset, among: str = "ABCU", chunks: dict[str, Any] | None = None, **request_columns: Any
) -> AnalysisData:
    """The data of one chunk whose candidates are the queues ``among``."""
    work = work_of(datasets, chunks=chunks)
    initial = np.array([[name in among for name in NAMES]])
    return gather_analysis_data(work, requests(**request_columns), RowsByKind(initial), GRID, LIMITS)


def queues_with_input(data: AnalysisData) -> str:
    return "".join(name for name, flag in zip(NAMES, data.has_input.every[0], strict=True) if flag)


def weights(data: AnalysisData) -> dict[str, float]:
    values = zip(NAMES, data.datasets_weight.every[0].tolist(), strict=True)
    return {name: value for name, value in values if value}


A, B, C = (replica(f"DISK_{name}") for name in "ABC")


@pytest.mark.parametrize(
    ("replicas", "expected", "weight"),
    [
        ([A], "A", {"A": 1}),
        ([A, C], "ACU", {"A": 1, "C": 1, "U": 1}),
        # all files, not nearly all: a partial copy counts only if no queue has a complete one
        ([A, replica("DISK_B", 9)], "A", {"A": 1}),
        ([replica("DISK_A", 9), replica("DISK_B", 1)], "AB", {"A": 1, "B": 1}),
        ([replica("DISK_A", np.nan, np.nan), B], "B", {"B": 1}),
        # tape only where there is no disk
        ([TAPE], "A", {"A": 0.001}),
        ([TAPE, C], "CU", {"A": 0.001, "C": 1, "U": 1}),
        ([TAPE, replica("DISK_C", 1)], "CU", {"A": 0.001, "C": 1, "U": 1}),
        # virtual placement, alone and next to a real copy
        ([VP], "B", {"B": 1}),
        ([VP, A], "A", {"A": 1}),
        # B has both, and a queue with a virtual placement is out if any queue has a real copy
        ([VP, B], "", {}),
        # an endpoint that no queue reads
        ([replica("ELSEWHERE")], "", {}),
    ],
)
def test_one_dataset(replicas: Sequence[Replica], expected: str, weight: dict[str, float]) -> None:
    data = gather(Dataset(replicas))
    assert (queues_with_input(data), weights(data)) == (expected, weight)


@pytest.mark.parametrize(
    ("datasets", "expected", "union", "weight"),
    [
        (([A, B], [A]), "A", False, {"A": 2, "B": 1}),
        # having all datasets anywhere takes precedence over some on disk
        (([TAPE], [A, B]), "A", False, {"A": 1.001, "B": 1}),
        # no queue has all
        (([A], [B]), "AB", True, {"A": 1, "B": 1}),
        (([TAPE], [B]), "B", True, {"A": 0.001, "B": 1}),
    ],
)
def test_several_datasets(
    datasets: Sequence[Sequence[Replica]], expected: str, union: bool, weight: dict[str, float]
) -> None:
    data = gather(*(Dataset(replicas, is_master=not at) for at, replicas in enumerate(datasets)))
    assert (queues_with_input(data), data.union.tolist(), weights(data)) == (expected, [union], weight)


def test_only_candidates_have_input_but_the_flags_consider_all_queues() -> None:
    """B alone may have the chunk and has a part of it; A has all, so the dataset is not distributed."""
    spread = Dataset([A, replica("DISK_B", 3)], distributed=True)
    data = gather(spread, among="B")
    assert (queues_with_input(data), data.distributed.tolist()) == ("B", [False])
    assert gather(Dataset([replica("DISK_A", 9), replica("DISK_B", 3)], distributed=True)).distributed.tolist() == [
        True
    ]


@pytest.mark.parametrize(
    ("replicas", "distributed", "request_columns", "lost"),
    [
        ([A], False, {}, False),
        # 8 of 10 files are enough not to wait; 7 files or none are not
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
    replicas: Sequence[Replica], distributed: bool, request_columns: dict[str, Any], lost: bool
) -> None:
    assert gather(Dataset(replicas, distributed=distributed), **request_columns).lost.tolist() == [lost]


@pytest.mark.parametrize("name", ["avoid_vp", "merging", "scout", "use_local_io"])
def test_chunks_that_may_not_use_virtual_placement(name: str) -> None:
    """The placement then counts like tape: present, but not on disk."""
    request_columns = {name: True} if name == "avoid_vp" else {}
    data = gather(Dataset([VP]), chunks={} if request_columns else {name: True}, **request_columns)
    assert (queues_with_input(data), weights(data)) == ("B", {"B": 0.001})


def test_databases_are_never_distributed() -> None:
    work = work_of([Dataset([replica("DISK_A", 1)], distributed=True)])
    inputs = dataclasses.replace(work.inputs, name=np.array(["ddo.000001"], dtype=object))
    initial = np.ones((1, len(NAMES)), dtype=np.bool_)
    data = gather_analysis_data(dataclasses.replace(work, inputs=inputs), requests(), RowsByKind(initial), GRID, LIMITS)
    assert (data.distributed.tolist(), data.lost.tolist()) == ([False], [True])


@pytest.mark.parametrize(
    ("wan", "found_files", "remote"), [("ON", 10, True), ("OFF", 10, False), ("TEST", 10, False), ("ON", 7, False)]
)
def test_a_source_over_wan(wan: str, found_files: int, remote: bool) -> None:
    """The replica counts as complete, and its endpoint is read over WAN."""
    status = f'{{"read_wan": "{wan}"}}'
    grid = reading_grid(
        ddm_endpoint=[endpoint("DISK_A", "S", detailed_status=status)], panda_ddm_relation=[uses("A", "DISK_A")]
    )
    work = work_of([Dataset([replica("DISK_A", found_files)])])
    initial = np.ones((1, len(grid.unified)), dtype=np.bool_)
    data = gather_analysis_data(work, requests(), RowsByKind(initial), grid, LIMITS)
    assert data.remote_source.tolist() == [remote]


def test_whole_gib_on_disk_and_whole_copies_of_secondaries() -> None:
    """A job's files are 100 bytes here: 2**30 of them for each GiB."""
    many = 2.0**30 / 100
    master = Dataset([replica("DISK_A", files=2.5 * many, holds_all=False), replica("DISK_C", files=3 * many)])
    secondary = Dataset(
        [replica("DISK_A", 9, files=many, holds_all=False), replica("DISK_C", files=many)], is_master=False
    )
    data = gather(master, secondary)
    assert dict(zip(NAMES, data.disk_gb.every[0].tolist(), strict=True)) == {"A": 2, "B": 0, "C": 4, "P": 0, "U": 4}


@pytest.mark.parametrize(("scout", "gib"), [(False, 3), (True, 0)])
def test_virtual_placement_is_not_disk_for_chunks_that_may_not_use_it(scout: bool, gib: int) -> None:
    virtual = replica("B_VP_DISK", is_vp=True, files=3 * 2.0**30 / 100)
    data = gather(Dataset([virtual]), chunks={"scout": scout})
    assert data.disk_gb.every[0][NAMES.index("B")] == gib


@pytest.mark.parametrize(("files", "big"), [(2.0**30 / 100, True), (2.0**30 / 100 - 1, False)])
def test_input_of_a_gib_is_big(files: float, big: bool) -> None:
    assert gather(Dataset([A], files=files)).big.tolist() == [big]


@pytest.mark.parametrize(
    ("replicas", "distributed", "lacks", "lacks_parts"),
    [
        ([C], False, True, False),
        ([A, C], False, False, False),
        # another queue may read remotely
        ([A], False, False, False),
        ([replica("DISK_A", 9), C], False, True, False),
        # disk and tape are checked separately
        ([replica("DISK_A", 9), replica("TAPE_A", 10, is_tape=True), C], False, False, False),
        # without a complete replica on disk anywhere no queue is checked
        ([replica("DISK_C", 9)], False, False, False),
        ([TAPE], False, False, False),
        # a complete replica that no queue reads
        ([replica("ELSEWHERE"), replica("DISK_C", 9)], False, True, False),
        ([replica("ELSEWHERE"), replica("DISK_C", 9)], True, False, True),
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
    data = gather_analysis_data(work, requests(), RowsByKind(np.ones((1, 2), dtype=np.bool_)), grid, LIMITS)
    lacking = data.lacks_files.every.tolist(), data.lacks_parts.every.tolist()
    assert lacking == ([[lacks, False]], [[lacks_parts, False]])


def test_without_real_input_every_queue_has_it() -> None:
    data = gather(Dataset(is_pseudo=True))
    assert (queues_with_input(data), data.real.tolist(), data.lost.tolist()) == ("".join(NAMES), [False], [False])


def test_the_analysis_scope_takes_precedence_over_the_default_scope() -> None:
    """By role: A defines the scope for reading only."""
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
