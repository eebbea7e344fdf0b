"""Brokerages by name, of this and of other installed distributions, and the replay of cycles that they decided.

:func:`brokerage` finds and loads a brokerage by its entry point. :func:`replay_decisions` decides stored work again,
with any tuning and rules; it is pure. Each decision was stored with what its replay needs: the work of its chunk or
task, how the chunk is cut into jobs, and the load that the cycle had counted before it. Unpacking is a separate step,
so that several values can be tried on the same work::

    batches = decode_batches(brokerage, [stored.record.work, ...])  # once, in the order in which they were decided
    replay_decisions(brokerage, snapshot, published.tuning, batches, seed, rules)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from itertools import groupby
from typing import Any

from broker.brokerages.base import Brokerage, ReplayedDecision, Rules, StoredBatch, TuningOf
from broker.brokerages.offered import GROUP, offered
from broker.codec.work_codec import Body, unpacked, unpacked_for_many
from broker.snapshot.snapshot import Snapshot

__all__ = ["GROUP", "AnyBrokerage", "BrokerageError", "brokerage", "load", "offered"]

AnyBrokerage = Brokerage[Any, Any]


class BrokerageError(Exception):
    """A brokerage is missing or cannot be loaded; the message names it and what to do."""


@cache
def brokerage(name: str) -> AnyBrokerage:
    """The brokerage ``name``.

    Raises:
        BrokerageError: no installed distribution offers it, or it cannot be loaded.
    """
    points = offered()
    if name not in points:
        raise BrokerageError(f"no installed distribution offers the brokerage {name}; there are {', '.join(points)}")
    return load(points[name])


def load(point: EntryPoint) -> AnyBrokerage:
    """The brokerage of an entry point.

    Raises:
        BrokerageError: it cannot be loaded, or is no brokerage.
    """
    try:
        loaded = point.load()()
    except Exception as error:  # whatever an outside module raises on import is a fault of that distribution
        raise BrokerageError(
            f"brokerage {point.name}: {point.value} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, Brokerage):
        raise BrokerageError(
            f"brokerage {point.name}: {point.value} gave a {type(loaded).__name__}, not a Brokerage; "
            "install the distribution that offers it anew"
        )
    return loaded


def decode_batches(
    brokerage: AnyBrokerage,
    data: Sequence[bytes],
    *,
    older: bool = False,
    unpack: Callable[[bytes], Body] = unpacked_for_many,
) -> tuple[StoredBatch, ...]:
    """Stored work of one cycle, in the order in which it was decided: a part for each VO, as each has its own tuning.

    Args:
        brokerage: that decided.
        data: the stored work.
        older: the work is of another engine version; columns that it lacks hold NULL, see :func:`columns_not_stored`.
        unpack: returns the body of a piece, which must not be changed.

    Raises:
        WorkCorruptError: a piece is damaged, of another brokerage, or lacks columns of this version.
    """
    bodies = [unpack(one) for one in data]
    by_vo = groupby(bodies, brokerage.read_vo)
    return tuple(brokerage.decode(vo, list(group), older=older) for vo, group in by_vo)


def columns_not_stored(brokerage: AnyBrokerage, data: bytes) -> tuple[str, ...]:
    """The columns of this version that stored work does not have.

    Raises:
        WorkCorruptError: it is damaged.
    """
    return brokerage.columns_not_stored(unpacked(data))


def replay_decisions(
    brokerage: AnyBrokerage,
    snapshot: Snapshot,
    tuning_of: TuningOf,
    batches: Sequence[StoredBatch],
    seed: int,
    rules: Rules,
    *,
    as_stored: bool = False,
) -> list[ReplayedDecision]:
    """Decide stored work again, in its order; one result for each piece.

    Args:
        brokerage: that decided.
        snapshot: the grid.
        tuning_of: the tuning for each VO.
        batches: of one cycle, see :func:`decode_batches`.
        seed: of the cycle.
        rules: of the brokerage.
        as_stored: count before each chunk or task the load that was stored with it, regardless of what is assigned
            now. Otherwise count what this replay assigns, as a real cycle does.

    Raises:
        WorkCorruptError: the work is of a kind that the brokerage does not decide.
    """
    replayed: list[ReplayedDecision] = []
    for batch in batches:
        replayed += brokerage.replay(snapshot, tuning_of(batch.vo), batch, seed, rules, as_stored=as_stored)
    return replayed
