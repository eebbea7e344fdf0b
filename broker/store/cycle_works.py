"""The decisions of a stored cycle without what is only to be shown: outcome, jobs, and the work to decide on again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.domain.decisions import Outcome
from broker.store.stored_cycles import IN_CYCLE, CycleKey, values_of

_WORKS = text(
    f"SELECT outcome, reason, assigned, work FROM broker.decisions WHERE {IN_CYCLE} ORDER BY id"  # noqa: S608 - a constant
)


@dataclass(frozen=True)
class DecidedWork:
    """One decision: what came of it and why, and its work; None where it was stored without."""

    outcome: Outcome
    reason: str
    assigned: Mapping[str, int]
    work: bytes | None = field(repr=False)


def decided_works(connection: Connection, key: CycleKey) -> list[DecidedWork]:
    """The decisions of a cycle, in the order in which they were made; none if they were cleared away meanwhile."""
    return [
        DecidedWork(row.outcome, row.reason or "", row.assigned or {}, None if row.work is None else bytes(row.work))
        for row in connection.execute(_WORKS, values_of(key))
    ]
