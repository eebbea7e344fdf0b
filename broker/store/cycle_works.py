"""The decisions of a stored cycle without what is only to be shown: outcome, jobs, and the work to decide on again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.domain.decisions import Outcome
from broker.store.stored_cycles import CycleKey

_WORKS = text("""
    SELECT outcome, reason, assigned, work FROM broker.decisions
    WHERE agent_run IS NOT DISTINCT FROM :agent_run AND brokerage = :brokerage AND decided_at = :decided_at
      AND snapshot IS NOT DISTINCT FROM :snapshot AND tuning IS NOT DISTINCT FROM :tuning
      AND seed IS NOT DISTINCT FROM :seed AND engine IS NOT DISTINCT FROM :engine
    ORDER BY id""")


@dataclass(frozen=True)
class DecidedWork:
    """One decision: what came of it and why, and its work; None where it was stored without."""

    outcome: Outcome
    reason: str
    assigned: Mapping[str, int]
    work: bytes | None = field(repr=False)


def decided_works(connection: Connection, key: CycleKey) -> list[DecidedWork]:
    """The decisions of a cycle, in the order in which they were made; none if they were cleared away meanwhile."""
    origin = key.origin
    values = {
        "agent_run": origin.agent_run,
        "brokerage": key.brokerage,
        "decided_at": origin.decided_at,
        "snapshot": origin.snapshot,
        "tuning": origin.tuning,
        "seed": origin.seed,
        "engine": origin.engine,
    }
    return [
        DecidedWork(row.outcome, row.reason or "", row.assigned or {}, None if row.work is None else bytes(row.work))
        for row in connection.execute(_WORKS, values)
    ]
