"""The decisions of a stored cycle without what is only to be shown: outcome, jobs, and the work to decide on again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from broker.domain.decisions import Outcome
from broker.store.decisions.stored_cycles import CycleKey, plain_rows, read_cycle


@dataclass(frozen=True)
class DecidedWork:
    """One decision: what came of it and why, and its work; None where it was stored without."""

    outcome: Outcome
    reason: str
    assigned: Mapping[str, int]
    work: bytes | None = field(repr=False)


def decided_works(connection: Connection, key: CycleKey) -> list[DecidedWork]:
    """The decisions of a cycle, in the order in which they were made; none if they were cleared away meanwhile."""
    rows = plain_rows(connection, key)
    if rows is not None:
        return [
            DecidedWork(
                row.outcome, row.reason or "", row.assigned or {}, None if row.work is None else bytes(row.work)
            )
            for row in rows
        ]
    return [
        DecidedWork(one.record.decision.outcome, one.record.decision.reason, one.record.assigned, one.record.work)
        for one in read_cycle(connection, key).decisions
    ]
