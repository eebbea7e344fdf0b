"""Which decisions a cycle saw again, read back from ``broker.decision_repeats``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.codec.repeats import RepeatsCorruptError, unpack_pattern
from broker.domain.arrays import Ints
from broker.errors import BrokerError

_READ_REPEATS_BETWEEN = text("""
    SELECT agent_run, decided_at, pattern FROM broker.decision_repeats
    WHERE brokerage = :brokerage AND decided_at > :first AND decided_at <= :last ORDER BY decided_at, id""")


class RepeatsUnreadable(BrokerError):
    """A row of repeated decisions that is damaged."""


@dataclass(frozen=True)
class Sightings:
    """How often a decision was seen again, and the last cycle that did; None where none did."""

    times: int = 0
    last_at: datetime | None = None
    last_run: int | None = None


def sightings(
    connection: Connection, decisions: Sequence[tuple[str, int, datetime]], until: datetime
) -> dict[int, Sightings]:
    """How often decisions were seen again up to ``until``.

    Args:
        connection: to read from.
        decisions: brokerage, number and instant of each.
        until: cycles for a later instant do not count.
    """
    found = {identifier: Sightings() for _, identifier, _ in decisions}
    for brokerage in {one for one, _, _ in decisions}:
        own = {identifier: moment for name, identifier, moment in decisions if name == brokerage}
        wanted = np.array(sorted(own), dtype=np.int64)
        values = {"brokerage": brokerage, "first": min(own.values()), "last": until}
        for row in connection.execute(_READ_REPEATS_BETWEEN, values):
            for identifier in np.intersect1d(wanted, pattern_of(row.pattern)).tolist():
                found[identifier] = Sightings(found[identifier].times + 1, row.decided_at, row.agent_run)
    return found


def pattern_of(data: bytes) -> Ints:
    """The pattern of a row.

    Raises:
        RepeatsUnreadable: it is damaged.
    """
    try:
        return unpack_pattern(bytes(data))
    except RepeatsCorruptError as error:
        raise RepeatsUnreadable(str(error), "broker.decision_repeats", "restore the table from a backup") from error
