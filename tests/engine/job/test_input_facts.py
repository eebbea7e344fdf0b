"""The input of a block by unified queue gives the same figures as by chunk and candidate."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import RowsByKind
from tests.engine.small_work import Dataset, replica
from tests.engine.toy_cycle import cycle, work

AVAILABLE = ("available_bytes", "available_files", "available_tape_bytes", "available_tape_files", "all_local")


def test_the_input_of_candidates_equals_that_of_their_unified_queues() -> None:
    datasets = [Dataset([replica("N_DISK", 3), replica("S_DISK")])]
    toy = cycle(work(3, datasets))
    facts, unified = toy.evaluate_block(slice(1, 3)).facts, toy.snapshot.queues.unified
    for name in AVAILABLE:
        by_kind = facts.by_kind(name)
        assert by_kind.table.shape == (2, len(toy.snapshot.unified)), name
        assert by_kind.table.dtype == (np.bool_ if name == "all_local" else np.float64)
        every = getattr(facts, name)
        assert every.shape == (2, 5)
        for chunk in range(2):
            for candidate, queue in enumerate(unified.tolist()):
                assert every[chunk, candidate] == by_kind.table[chunk, queue]
        np.testing.assert_array_equal(facts.rows(name, np.array([1])), every[[1]])
    assert facts.available_files.any()
    assert len(unified) > len(toy.snapshot.unified)


def test_a_table_by_kind_expands_to_the_rows_and_columns_of_pairs() -> None:
    table = np.arange(24).reshape(2, 3, 4)
    kind, column = np.array([2, 0, 2, 1]), np.array([3, 3, 0])
    for kinds in (kind, None):
        for columns in (column, None):
            by_kind = RowsByKind(table, kinds, columns)
            rows = table if kinds is None else table[:, kinds]
            every = rows if columns is None else rows[:, :, columns]
            np.testing.assert_array_equal(by_kind.every, every)
            np.testing.assert_array_equal(by_kind.of(np.array([1, 0])).every, every[:, [1, 0]])
            np.testing.assert_array_equal(by_kind.layer(1).at(1, np.array([2, 0])), every[1, 1, [2, 0]])
            np.testing.assert_array_equal(by_kind.of_table(-table).every, -every)
            np.testing.assert_array_equal(by_kind.of_chunks(-by_kind.by_chunk).every, -every)
