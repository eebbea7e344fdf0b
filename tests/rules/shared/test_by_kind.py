"""Comparing once per kind of queue gives the same result as comparing every queue."""

from __future__ import annotations

import numpy as np
import pytest

from broker.domain.arrays import Bools, spread
from broker.domain.queues import QueueTable
from broker.rules.shared.by_kind import keep_by_kind
from tests.rules.builders import make_queues

CHUNKS, QUEUES = 5, 40


@pytest.mark.parametrize("kind_count", [1, 3, QUEUES])
def test_alike_queues_are_compared_once(kind_count: int) -> None:
    rng = np.random.default_rng(kind_count)
    figures = np.append(rng.random(kind_count - 1), np.nan)
    queues = make_queues(QUEUES, cores=rng.choice([1.0, 8.0], QUEUES), maxrss_mb=rng.choice(figures, QUEUES))
    needs = rng.random((CHUNKS, 1))

    def fits(kinds: QueueTable) -> Bools:
        return np.asarray(~(needs * kinds.cores > kinds.maxrss_mb))

    shapes: list[tuple[int, ...]] = []

    def recorded_fits(kinds: QueueTable) -> Bools:
        shapes.append(kinds.cores.shape)
        return fits(kinds)

    assert keep_by_kind(queues, ("cores", "maxrss_mb"), recorded_fits).tolist() == fits(queues).tolist()
    assert shapes == [(1, len(set(zip(queues.cores[0].tolist(), map(str, queues.maxrss_mb[0].tolist()), strict=True))))]


def test_a_comparison_sees_only_the_columns_that_it_names() -> None:
    with pytest.raises(AttributeError):
        keep_by_kind(make_queues(2), ("cores",), lambda some: np.asarray(some.maxrss_mb > 0))


@pytest.mark.parametrize("kinds", [1, 8, 64, 65])
def test_columns_are_spread_over_candidates(kinds: int) -> None:
    rng = np.random.default_rng(kinds)
    mask, kind = rng.random((7, kinds)) < 0.5, rng.integers(0, kinds, QUEUES)
    mask[3:] = mask[:1]
    assert spread(mask, kind).tolist() == mask[:, kind].tolist()


def test_a_mask_of_the_wrong_shape_is_refused() -> None:
    queues = make_queues(3, maxrss_mb=[1.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="compare the columns given"):
        keep_by_kind(queues, ("maxrss_mb",), lambda some: np.ones((2, 3), dtype=np.bool_))
