"""Removing rows of our own tables that have grown old, a few at a time.

A batch takes only rows that nobody holds, so it never waits for a broker, and a broker waits for a batch at most as
long as that takes. What was taken stays taken: a batch can be repeated, cut short, or run beside another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa


@dataclass(frozen=True)
class AgedRows:
    """One kind of rows that are kept for a while.

    Attributes:
        kind: how it is called in reports and in the options of the agent.
        table: of ours.
        time: the column that an age is counted from.
        also: a further condition on the row ``r``.
    """

    kind: str
    table: str
    time: str
    also: str = "true"

    def remove(self, connection: sa.Connection, before: datetime, rows: int) -> int:
        """Remove at most ``rows`` that are older than ``before``, the oldest first; how many there were."""
        values = {"before": before, "rows": rows}
        return connection.execute(sa.text(_DELETE_OLD_ROWS.format(**self._parts())), values).rowcount

    def count(self, connection: sa.Connection, before: datetime) -> int:
        """How many are older than ``before``."""
        return int(
            connection.execute(sa.text(_COUNT_OLD_ROWS.format(**self._parts())), {"before": before}).scalar_one()
        )

    def kept(self, connection: sa.Connection) -> int:
        """How many there are, of any age."""
        return int(connection.execute(sa.text(_COUNT_ROWS.format(**self._parts()))).scalar_one())

    def _parts(self) -> dict[str, str]:
        return {"table": f"broker.{self.table}", "time": self.time, "also": self.also}


_DELETE_OLD_ROWS = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT r.ctid FROM {table} AS r WHERE r.{time} < :before AND {also}
        ORDER BY r.{time} LIMIT :rows FOR UPDATE SKIP LOCKED))"""
_COUNT_ROWS = "SELECT count(*) FROM {table}"
_COUNT_OLD_ROWS = "SELECT count(*) FROM {table} AS r WHERE r.{time} < :before AND {also}"

# The last run of an agent stays, however long ago: it is what operators are shown. It may also be open.
_NOT_ITS_LAST = "EXISTS (SELECT FROM broker.agent_runs AS n WHERE n.agent = r.agent AND n.started_at > r.started_at)"

# Days that have a partition are dropped whole; these are the rows of days without one, and those of older releases.
DECISIONS = AgedRows("decisions", "decisions_default", "decided_at")
OLD_DECISIONS = AgedRows("old_decisions", "decisions_unpacked", "decided_at")
DECISION_REPEATS = AgedRows("decision_repeats", "decision_repeats", "decided_at")
CHUNK_STATES = AgedRows("chunk_states", "chunk_states", "last_seen_at")
_UNUSED = "NOT EXISTS (SELECT FROM broker.decisions AS d WHERE d.legend = r.id)"
DECISION_LEGENDS = AgedRows("decision_legends", "decision_legends", "last_used_at", _UNUSED)
JOB_ACTIONS = AgedRows("job_actions", "job_actions", "acted_at")
AGENT_RUNS = AgedRows("agent_runs", "agent_runs", "started_at", _NOT_ITS_LAST)
REBROKERED_FROM = AgedRows("rebrokered_from", "rebrokered_from", "rebrokered_at")
JOB_STATUS_REPORTS = AgedRows("job_status_reports", "job_status_reports", "reported_at")
# Expiries and heartbeats are of the database's clock, and so is the proof that nobody holds or lives any more.
LEASES = AgedRows("leases", "leases", "expires_at", "r.expires_at < clock_timestamp()")
# What changed goes with its run. The last run of each feed stays: it is what operators are shown.
_NOT_ITS_LAST_FEED = "EXISTS (SELECT FROM broker.feed_runs AS n WHERE n.feed = r.feed AND n.started_at > r.started_at)"
FEED_RUNS = AgedRows("feed_runs", "feed_runs", "started_at", _NOT_ITS_LAST_FEED)
SERVICES = AgedRows("services", "services", "seen_at", "r.seen_at < clock_timestamp()")
