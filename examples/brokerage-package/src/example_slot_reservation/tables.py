"""Where requests are read and reservations are written: all I/O of the brokerage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa

from agents.brokerage.tables import BrokerageOptions, BrokerageTables, Reading, Skipped
from broker.domain.arrays import Bools, floats, texts
from broker.store.connection.tables import Names
from example_slot_reservation.brokerage import RETRY_AFTER
from example_slot_reservation.requests import RequestTable

_DUE = sa.text("""
    SELECT requestid, vo, slots, walltime_s FROM public.hpc_slot_requests
    WHERE queue IS NULL AND (retry_at IS NULL OR retry_at <= :now)
      AND (CAST(:only AS bigint[]) IS NULL OR requestid = ANY(CAST(:only AS bigint[])))
    ORDER BY slots DESC, requestid""")
_STATES = sa.text("SELECT requestid, queue, retry_at FROM public.hpc_slot_requests WHERE requestid = ANY(:ids)")
_RESERVE = "UPDATE public.hpc_slot_requests SET queue = %s, retry_at = NULL WHERE requestid = %s AND queue IS NULL"
_WAIT = "UPDATE public.hpc_slot_requests SET retry_at = %s WHERE requestid = %s AND queue IS NULL"


@dataclass(frozen=True)
class Reserved:
    """What was written."""

    tasks_skipped: frozenset[int]
    counts: Mapping[str, int]
    kept: Bools | None = None


class SlotTables(BrokerageTables[RequestTable, BrokerageOptions]):
    """Reads the requests that are due, the largest first, and writes where their slots are."""

    options_type = BrokerageOptions
    counts = ("requests", "candidates", "brokered", "reserved")

    def load(self, reading: Reading) -> dict[str, RequestTable]:
        """The requests of each VO."""
        now = reading.context.now.astimezone(UTC).replace(tzinfo=None)
        only = reading.context.request.task_ids
        rows = reading.connection.execute(_DUE, {"now": now, "only": None if only is None else list(only)}).all()
        vos = reading.brokered(dict.fromkeys(row.vo for row in rows))
        return {vo: _table([row for row in rows if row.vo == vo]) for vo in vos}

    def tasks_of(self, work: RequestTable) -> Sequence[int]:
        """The requests."""
        request_ids: list[int] = work.requestid.tolist()
        return request_ids

    def skipped(self, reading: Reading, task_ids: Sequence[int]) -> list[Skipped]:
        """Why these requests are not brokered now."""
        rows = {row.requestid: row for row in reading.connection.execute(_STATES, {"ids": list(task_ids)})}
        return [_skipped(task, rows.get(task)) for task in task_ids]

    def write(
        self, connection: psycopg.Connection[Any], names: Names, now: datetime, rows: list[tuple[int, str | None]]
    ) -> Reserved:
        """Write the reservations; a request that somebody else has served meanwhile is skipped."""
        again = (now + RETRY_AFTER).astimezone(UTC).replace(tzinfo=None)
        late, reserved = set(), 0
        for request, queue in rows:
            statement, value = (_WAIT, again) if queue is None else (_RESERVE, queue)
            if connection.execute(statement, (value, request)).rowcount == 0:
                late.add(request)
            elif queue is not None:
                reserved += 1
        return Reserved(frozenset(late), {"reserved": reserved})


def _table(rows: Sequence[Any]) -> RequestTable:
    return RequestTable(
        np.array([row.requestid for row in rows], dtype=np.int64),
        texts(row.vo for row in rows),
        floats(row.slots for row in rows),
        floats(row.walltime_s for row in rows),
    )


def _skipped(request: int, row: Any) -> Skipped:
    if row is None:
        return Skipped(request, "no_such_request")
    if row.queue is not None:
        return Skipped(request, "reserved_already")
    until = None if row.retry_at is None else row.retry_at.replace(tzinfo=UTC)
    return Skipped(request, "waits" if until is not None else "not_of_this_profile", until)
