"""Rows of job counts as columns: which are used, and that their numbers are those of reading them one by one."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from broker.domain.work import DroppedRow
from broker.snapshot.counted_rows import NUMBER_COLUMNS, read_columns, usable_counts
from broker.snapshot.raw import EMPTY, BadValueError, Rows, not_negative, text, zero_if_null
from broker.snapshot.sources.jobs import COUNT_COLUMNS

ODD = (None, 0, 3, 2.5, "7", "", "x", True, -1, math.nan, math.inf, 10**400)
SHARES = (None, "", "Simulation", "Évgen", "a\0b", "\ud800", 7)


def rows_of(seed: int, size: int = 60) -> Rows:
    """Rows of which some have an odd number or share."""
    drawn = random.Random(seed)
    values = []
    for at in range(size):
        row: dict[str, Any] = dict.fromkeys(COUNT_COLUMNS) | {"computingsite": f"Q{at % 4}", "jobstatus": "running"}
        row |= {name: drawn.choice(ODD) if drawn.random() < 0.1 else at for name in NUMBER_COLUMNS}
        row["gshare"] = drawn.choice(SHARES if drawn.random() < 0.3 else ("Simulation",))
        values.append(tuple(row.values()))
    return Rows(COUNT_COLUMNS, tuple(values))


def read_one_by_one(rows: Rows, unified: dict[str, int]) -> tuple[list[dict[str, Any]], list[DroppedRow]]:
    """The rows at known queues with their numbers, and those that cannot be used."""
    used, dropped = [], []
    for row in rows.records():
        if row["computingsite"] in unified:
            try:
                numbers = {name: zero_if_null(not_negative(row[name], name)) for name in NUMBER_COLUMNS}
                text(row["gshare"], "gshare")
            except BadValueError as bad:
                dropped.append(DroppedRow("jobs", str(row["computingsite"]), bad.code, str(bad)))
            else:
                used.append({**row, **numbers, "unified": unified[row["computingsite"]]})
    return used, dropped


@pytest.mark.parametrize("seed", range(8))
def test_columns_are_read_as_single_values_are(seed: int) -> None:
    unified, rows = {"Q1": 1, "Q0": 0, "Q3": 2}, rows_of(seed)
    dropped: list[DroppedRow] = []
    found = usable_counts(read_columns(rows), unified, dropped)
    used, refused = read_one_by_one(rows, unified)
    assert dropped == refused and refused
    assert len(found) == len(used)
    assert sorted(map(repr, map(sorted, map(dict.items, map(dict, found))))) == sorted(
        repr(sorted(row.items())) for row in used
    )
    for name in NUMBER_COLUMNS:
        assert found.numbers[name].tolist() == [row[name] for row in used]


def test_nothing_was_read() -> None:
    found = usable_counts(read_columns(EMPTY), {"Q0": 0}, [])
    assert len(found) == 0 and list(found) == [] and found.read.pairs("vo", "gshare")[0] == []
