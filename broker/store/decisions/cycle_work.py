"""The decisions of a stored cycle without what is only to be shown: outcome, jobs, and the work to decide on again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy.engine import Connection

from broker.codec.work_texts import read_json
from broker.domain.decisions import Outcome
from broker.store.decisions.stored_cycles import CycleKey, plain_rows, read_cycle


class DecidedWork(NamedTuple):
    """One decision: what came of it and why, and its work; None where it was stored without."""

    outcome: Outcome
    reason: str
    assigned: Mapping[str, int]
    work: bytes | None

    def __repr__(self) -> str:
        """Without the bytes of the work."""
        return f"DecidedWork({self.outcome}, {self.reason!r}, {self.assigned}, work of {len(self.work or b'')} bytes)"


def decided_works(connection: Connection, key: CycleKey) -> list[DecidedWork]:
    """The decisions of a cycle, in the order in which they were made; none if they were cleared away meanwhile."""
    rows = plain_rows(connection, key)
    if rows is not None:
        # the server makes these texts of what it stores as JSON
        assigned = read_json(("[" + ",".join([row.assigned or "{}" for row in rows]) + "]").encode())
        return [
            DecidedWork(row.outcome, row.reason or "", jobs or {}, None if row.work is None else bytes(row.work))
            for row, jobs in zip(rows, assigned, strict=True)
        ]
    return [
        DecidedWork(one.record.decision.outcome, one.record.decision.reason, one.record.assigned, one.record.work)
        for one in read_cycle(connection, key).decisions
    ]
