"""Parts of one dataset at several endpoints of a queue, tested through a whole cycle.

Source: PanDA production brokerage, available files: all endpoints of a queue count.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import SHARE, one_cycle, scenario
from tests.brokerages.test_production_readings import copy, tape_at_beta, with_input

DISK, OTHER = "BETA_DATADISK", "BETA_TAPE"


def file_replicas(files: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """Make the catalogue rows of the files, by number, at each endpoint."""
    return [
        {"scope": "mc", "name": f"file.{number:04d}", "rse": rse}
        for rse, numbers in files.items()
        for number in numbers
    ]


@pytest.mark.parametrize("profile", ["seed", "panda"])
@pytest.mark.parametrize(
    ("files_at", "counts", "is_tape", "misses"),
    [
        # files of 2 GB: each endpoint has two of the four, both together have all
        ({DISK: (0, 1), OTHER: (2, 3)}, (2, 2), "N", 0),
        ({DISK: (0, 1), OTHER: (1, 2)}, (2, 2), "N", 1),
        ({DISK: (0, 1), OTHER: (0, 1)}, (2, 2), "N", 2),
        ({DISK: (0, 1, 2), OTHER: (1,)}, (3, 1), "N", 1),
        # files on tape do not count as on disk
        ({DISK: (0, 1), OTHER: (2, 3)}, (2, 2), "Y", 2),
        ({DISK: (3,), OTHER: (0, 1, 2)}, (1, 3), "Y", 3),
        # only the numbers of files are known: the first files are assumed
        ({}, (2, 3), "N", 1),
        ({}, (2, 2), "N", 2),
        # the second endpoint has a file, but no replica of the dataset
        ({DISK: (0, 1), OTHER: (3,)}, (2, None), "N", 1),
        # some files are named, the others are assumed to be the first ones
        ({OTHER: (3,)}, (3, 1), "N", 0),
    ],
)
def test_files_at_all_endpoints_of_a_queue_are_united(
    database: Database,
    files_at: dict[str, tuple[int, ...]],
    counts: tuple[int, int | None],
    is_tape: str,
    misses: int,
    profile: str,
) -> None:
    copies = [copy(rse, count, 4) for rse, count in zip((DISK, OTHER), counts, strict=True) if count is not None]
    tables = with_input(
        dataset_replicas=[*copies, copy("GAMMA_DATADISK", 4, 4)],
        file_replicas=file_replicas(files_at),
        **tape_at_beta(is_tape),
    )
    tables["resource_types"] = [{"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000}]
    tables["global_shares"] = [{"name": SHARE, "value": 100, "parent": None}]
    record, decisions = one_cycle(database, scenario(**tables), profile=profile)
    assert record.outcome == "done", record.error
    (decision,) = decisions
    assert decision["candidates"], (decision["reason"], decision["rejected"])
    # 4 files: (total + available) / total / (1 + missing / 100)
    (factor,) = (
        candidate["factors"]["data_availability"]
        for candidate in decision["candidates"]
        if candidate["name"] == "BETA/MCORE"
    )
    assert (
        next(missing for missing in range(5) if factor == pytest.approx((2 - missing / 4) / (1 + missing / 100)))
        == misses
    )
