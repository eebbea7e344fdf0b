"""One source of many snapshots, without the rest of them: what a figure was over time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

# The last snapshot of each step of time.
_READ_STEPS = sa.text("""
    SELECT DISTINCT ON (date_bin(make_interval(secs => :step_s), taken_at, CAST(:since AS timestamptz)))
        taken_at, sources -> 'parts' ->> :source AS digest
    FROM broker.snapshots
    WHERE taken_at > :since AND taken_at <= :until AND sources -> 'parts' ? :source
    ORDER BY date_bin(make_interval(secs => :step_s), taken_at, CAST(:since AS timestamptz)), taken_at DESC""")
_READ_BLOBS = sa.text("SELECT sha256, data FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted)")


@dataclass(frozen=True)
class PartOfSnapshot:
    """A source as a snapshot has it: when that was taken (aware), and the digest under which the source is kept."""

    taken_at: datetime
    digest: str


def parts_over_time(
    connection: sa.Connection, source: str, since: datetime, until: datetime, step_s: float
) -> list[PartOfSnapshot]:
    """A source in the last snapshot of each step between two instants (aware), the oldest first."""
    span = {"source": source, "since": since, "until": until, "step_s": step_s}
    return [PartOfSnapshot(row.taken_at, row.digest) for row in connection.execute(_READ_STEPS, span)]


def read_parts(connection: sa.Connection, digests: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The encoded sources of these digests; those that are no longer kept are not among them."""
    for digest, data in connection.execute(_READ_BLOBS, {"wanted": list(digests)}):
        yield digest, bytes(data)
