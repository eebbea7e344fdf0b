"""How often JEDI's plug-in was called, by hour: what it decided itself, and why it fell back to PanDA's own class."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

#: Outcomes of calls that ours should have decided, but did not.
FALLEN_BACK = ("fell_back", "waits")


@dataclass(frozen=True)
class Call:
    """One call of the plug-in.

    Attributes:
        brokerage: the one that was called.
        outcome: ``decided``, or ``fell_back`` to PanDA's own class, or ``waits`` where that is not wanted, or
            ``left_to_panda`` by the switch; ``not_recorded`` counts in addition, for a decision that was not stored.
        reason: outcome of the decision, or why there was none.
    """

    brokerage: str
    outcome: str
    reason: str


@dataclass(frozen=True)
class CallCount:
    """How many equal calls there were in an hour."""

    hour: datetime
    call: Call
    calls: int


_COUNT_CALL = sa.text("""
    INSERT INTO broker.plugin_calls (hour, brokerage, outcome, reason, calls)
    VALUES (date_trunc('hour', CAST(:at AS timestamptz), 'UTC'), :brokerage, :outcome, :reason, :calls)
    ON CONFLICT (hour, brokerage, outcome, reason) DO UPDATE SET calls = plugin_calls.calls + excluded.calls""")
_READ_CALLS_SINCE = sa.text("""
    SELECT hour, brokerage, outcome, reason, calls FROM broker.plugin_calls
    WHERE hour >= date_trunc('hour', CAST(:since AS timestamptz), 'UTC') ORDER BY 1, 2, 3, 4""")


def add(connection: sa.Connection, call: Call, at: datetime, calls: int = 1) -> None:
    """Count a call, or several equal ones, in its hour."""
    values = {
        "at": at,
        "calls": calls,
        "brokerage": call.brokerage,
        "outcome": call.outcome,
        "reason": call.reason[:120],
    }
    connection.execute(_COUNT_CALL, values)


def since(connection: sa.Connection, moment: datetime) -> list[CallCount]:
    """Return the counts of the hours, from that of ``moment`` on."""
    rows = connection.execute(_READ_CALLS_SINCE, {"since": moment})
    return [CallCount(row.hour, Call(row.brokerage, row.outcome, row.reason), row.calls) for row in rows]
