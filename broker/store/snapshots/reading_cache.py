"""What was read of tables before, for as long as the server says that their rows are the same.

PanDA's tables can get no triggers, and many have no stamp that every writer keeps. So the server itself hashes the rows
that would be read, which is a fraction of the work of sending them and of making values of them; what it says is of the
same instant as all that the transaction reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from broker.snapshot.raw import RawSource, Rows

#: The rows of a statement as one number, whatever their order: the sum of the 64-bit hashes of their texts.
_FINGERPRINT = "SELECT count(*), sum(hashtextextended(x::text, 0)) FROM ({rows}) AS x"

Fingerprint = tuple[int, int | None]


@dataclass(frozen=True)
class KeptRows:
    """The rows of a table with the time of the newest.

    Attributes:
        fingerprint: what the server said of them.
        rows: as they were read.
        newest: the newest of their time stamps, None without any.
    """

    fingerprint: Fingerprint
    rows: Rows = field(repr=False)
    newest: datetime | None


@dataclass(frozen=True)
class KeptPart:
    """A source as it is stored: its digest and its encoded form."""

    source: RawSource = field(repr=False)
    part: tuple[str, bytes] = field(repr=False)

    def is_of(self, source: RawSource) -> bool:
        """Whether it is the same rows, with the same age."""
        mine, other = self.source.tables, source.tables
        same = mine.keys() == other.keys() and all(mine[name] is other[name] for name in mine)
        return same and self.source.newest == source.newest


@dataclass
class KeptReadings:
    """The last reading of each statement. Agents in several threads may share it: an entry is replaced as a whole.

    Attributes:
        rows: by the statement that reads them.
        parts: by the name of the source.
    """

    rows: dict[str, KeptRows] = field(default_factory=dict)
    parts: dict[str, KeptPart] = field(default_factory=dict)


def fingerprint(connection: sa.Connection, statement: str) -> Fingerprint:
    """How many rows a statement gives, and what they are, as one number."""
    count, total = connection.exec_driver_sql(_FINGERPRINT.format(rows=statement)).one()
    return int(count), None if total is None else int(total)
