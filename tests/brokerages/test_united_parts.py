"""Parts of one dataset at several endpoints of a queue, seen in the outcome of a whole cycle.

Source: PanDA production brokerage, available files: every endpoint of a queue counts.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import SHARE, one_cycle, scenario
from tests.brokerages.test_production_readings import copy, tape_at_beta, with_input

DISK, OTHER = "BETA_DATADISK", "BETA_TAPE"


def dealt(files: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """The catalogue names these files, by number, at each endpoint."""
    return [
        {"scope": "mc", "name": f"file.{number:04d}", "rse": rse}
        for rse, numbers in files.items()
        for number in numbers
    ]


@pytest.mark.parametrize("profile", ["seed", "panda"])
@pytest.mark.parametrize(
    ("named", "found", "is_tape", "misses"),
    [
        # files of 2 GB: each endpoint has two of the four, all of them together
        ({DISK: (0, 1), OTHER: (2, 3)}, (2, 2), "N", 0),
        ({DISK: (0, 1), OTHER: (1, 2)}, (2, 2), "N", 1),
        ({DISK: (0, 1), OTHER: (0, 1)}, (2, 2), "N", 2),
        ({DISK: (0, 1, 2), OTHER: (1,)}, (3, 1), "N", 1),
        # what lies on tape is not on disk
        ({DISK: (0, 1), OTHER: (2, 3)}, (2, 2), "Y", 2),
        ({DISK: (3,), OTHER: (0, 1, 2)}, (1, 3), "Y", 3),
        # only numbers are known: the first files
        ({}, (2, 3), "N", 1),
        ({}, (2, 2), "N", 2),
        # the second endpoint has no replica of the dataset, only a file
        ({DISK: (0, 1), OTHER: (3,)}, (2, None), "N", 1),
        # some files are named, the others are the first ones
        ({OTHER: (3,)}, (3, 1), "N", 0),
    ],
)
def test_the_endpoints_of_a_queue_hold_together_what_each_holds(
    database: Database,
    named: dict[str, tuple[int, ...]],
    found: tuple[int, int | None],
    is_tape: str,
    misses: int,
    profile: str,
) -> None:
    copies = [copy(rse, count, 4) for rse, count in zip((DISK, OTHER), found, strict=True) if count is not None]
    tables = with_input(
        dataset_replicas=[*copies, copy("GAMMA_DATADISK", 4, 4)], file_replicas=dealt(named), **tape_at_beta(is_tape)
    )
    tables["resource_types"] = [{"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000}]
    tables["global_shares"] = [{"name": SHARE, "value": 100, "parent": None}]
    record, told = one_cycle(database, scenario(**tables), profile=profile)
    assert record.outcome == "done", record.error
    (decision,) = told
    assert decision["candidates"], (decision["reason"], decision["rejected"])
    # 4 files: (total + available) / total / (1 + missing / 100)
    (factor,) = (one["factors"]["data_availability"] for one in decision["candidates"] if one["name"] == "BETA/MCORE")
    assert next(n for n in range(5) if factor == pytest.approx((2 - n / 4) / (1 + n / 100))) == misses
