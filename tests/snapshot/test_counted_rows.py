"""Job counts read by column: the same rows are used, with the same numbers, as when read row by row."""

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
    """Rows, some of them with an odd number or share."""
    generator = random.Random(seed)
    values = []
    for number in range(size):
        row: dict[str, Any] = dict.fromkeys(COUNT_COLUMNS) | {"computingsite": f"Q{number % 4}", "jobstatus": "running"}
        row |= {name: generator.choice(ODD) if generator.random() < 0.1 else number for name in NUMBER_COLUMNS}
        row["gshare"] = generator.choice(SHARES if generator.random() < 0.3 else ("Simulation",))
        values.append(tuple(row.values()))
    return Rows(COUNT_COLUMNS, tuple(values))


def read_one_by_one(rows: Rows, unified: dict[str, int]) -> tuple[list[dict[str, Any]], list[DroppedRow]]:
    """The usable rows at known queues with their numbers, and the dropped rows."""
    used_rows, dropped_rows = [], []
    for row in rows.records():
        if row["computingsite"] in unified:
            try:
                numbers = {name: zero_if_null(not_negative(row[name], name)) for name in NUMBER_COLUMNS}
                text(row["gshare"], "gshare")
            except BadValueError as error:
                dropped_rows.append(DroppedRow("jobs", str(row["computingsite"]), error.code, str(error)))
            else:
                used_rows.append({**row, **numbers, "unified": unified[row["computingsite"]]})
    return used_rows, dropped_rows


@pytest.mark.parametrize("seed", range(8))
def test_columns_are_read_like_single_values(seed: int) -> None:
    unified, rows = {"Q1": 1, "Q0": 0, "Q3": 2}, rows_of(seed)
    dropped_rows: list[DroppedRow] = []
    counts = usable_counts(read_columns(rows), unified, dropped_rows)
    used_rows, refused_rows = read_one_by_one(rows, unified)
    assert dropped_rows == refused_rows and refused_rows
    assert len(counts) == len(used_rows)
    assert sorted(map(repr, map(sorted, map(dict.items, map(dict, counts))))) == sorted(
        repr(sorted(row.items())) for row in used_rows
    )
    for name in NUMBER_COLUMNS:
        assert counts.numbers[name].tolist() == [row[name] for row in used_rows]


def test_no_rows_give_no_counts() -> None:
    counts = usable_counts(read_columns(EMPTY), {"Q0": 0}, [])
    assert len(counts) == 0 and list(counts) == [] and counts.read.pairs("vo", "gshare")[0] == []
