"""Comparisons with queue limits, computed once for all queues with equal limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints, kinds_of, spread
from broker.domain.queues import QueueTable


class _Columns:
    """Columns of candidates, one column for each kind; other columns are absent."""

    def __init__(self, columns: dict[str, AnyArray], at: Ints) -> None:
        vars(self).update({name: column.take(at, axis=1) for name, column in columns.items()})


def keep_by_kind(candidates: QueueTable, names: tuple[str, ...], keep: Callable[[QueueTable], Bools]) -> Bools:
    """(T, Q), or (1, Q): the result of a comparison.

    Args:
        candidates: columns (1, Q).
        names: of the columns that the comparison reads; it gets no others.
        keep: the comparison; returns (T, K) for candidates with columns (1, K).

    Raises:
        ValueError: its result has another number of columns.
    """
    columns: dict[str, AnyArray] = {name: getattr(candidates, name) for name in names}
    kinds = kinds_of(tuple(columns.values()))
    compared = keep(cast(QueueTable, _Columns(columns, kinds.first)))
    if compared.shape[1:] != kinds.first.shape:
        raise ValueError(f"compared in shape {compared.shape}, not (T, {len(kinds.first)}); compare the columns given")
    return np.asarray(spread(compared, kinds.kind))
