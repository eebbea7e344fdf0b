"""Acknowledged alarms. Each acknowledgement stays on record; its times are the database's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.store.connection.plain_rows import mappings
from broker.store.query_context import ResponseModel

_COLUMNS = "code, about, severity, reason, editor, set_at, until, ended_at, ended_by"
_READ_HELD = sa.text(f"""
    SELECT {_COLUMNS} FROM broker.acknowledged_alarms
    WHERE ended_at IS NULL AND until > clock_timestamp()""")  # noqa: S608 - a constant
_READ_ALL = sa.text(f"""
    SELECT {_COLUMNS} FROM broker.acknowledged_alarms
    ORDER BY set_at DESC, id DESC LIMIT :most""")  # noqa: S608 - a constant
_END = sa.text("""
    UPDATE broker.acknowledged_alarms SET
        ended_at = greatest(set_at, least(until, clock_timestamp())),
        ended_by = CASE WHEN until > clock_timestamp() THEN :editor END
    WHERE code = :code AND about = ANY(:about) AND ended_at IS NULL RETURNING about, ended_by""")
_INSERT = sa.text("""
    INSERT INTO broker.acknowledged_alarms (code, about, severity, reason, editor, set_at, until)
    SELECT :code, :about, :severity, :reason, :editor, now, now + :for_s * interval '1 second'
    FROM clock_timestamp() AS now""")


class Acknowledgement(ResponseModel):
    """The acknowledgement of an alarm.

    Attributes:
        code: code of the alarm.
        about: subject of the alarm.
        severity: severity at that time; a higher one is a new alarm.
        reason: reason or action taken.
        editor: who acknowledged it.
        set_at: time of the acknowledgement.
        until: when the acknowledgement ends.
        ended_at: when it was withdrawn or replaced; null if it was not.
        ended_by: who ended it; null if it expired.
    """

    code: str
    about: str
    severity: str
    reason: str
    editor: str
    set_at: datetime
    until: datetime
    ended_at: datetime | None
    ended_by: str | None


def acknowledge(
    connection: sa.Connection, code: str, severities: Sequence[tuple[str, str]], span: timedelta, *,
    reason: str, editor: str,
) -> None:  # fmt: skip
    """Acknowledge alarms of one kind; their earlier acknowledgements end.

    Args:
        connection: a connection in a transaction.
        code: the kind of the alarms.
        severities: subject and severity of each alarm.
        span: how long the acknowledgement is valid.
        reason: what is being done about the alarms.
        editor: who handles them.
    """
    take_back(connection, code, [about for about, _ in severities], editor=editor)
    values = {"code": code, "reason": reason, "editor": editor, "for_s": span.total_seconds()}
    connection.execute(_INSERT, [{**values, "about": about, "severity": severity} for about, severity in severities])


def take_back(connection: sa.Connection, code: str, about: Sequence[str], *, editor: str) -> list[str]:
    """End acknowledgements of alarms of one kind, and return the subjects of those that were in force."""
    ended = connection.execute(_END, {"code": code, "about": list(about), "editor": editor})
    return sorted(str(row.about) for row in ended if row.ended_by is not None)


def held(connection: sa.Connection) -> list[Acknowledgement]:
    """The acknowledgements in force."""
    return [Acknowledgement(**row) for row in mappings(connection, _READ_HELD)]


def history(connection: sa.Connection, most: int = 100) -> list[Acknowledgement]:
    """All acknowledgements on record, newest first."""
    return [Acknowledgement(**row._mapping) for row in connection.execute(_READ_ALL, {"most": most})]
