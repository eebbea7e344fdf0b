"""The VO of the installation in ``broker.installation_vo``, and who set it."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from broker.domain.installation_vo import DEFAULT_VO

_SET = sa.text("""
    INSERT INTO broker.installation_vo (vo, set_at, set_by) VALUES (:vo, :now, :editor)
    ON CONFLICT (only_row) DO UPDATE SET vo = excluded.vo, set_at = excluded.set_at, set_by = excluded.set_by""")


def read(connection: sa.Connection) -> str:
    """The VO; PanDA's own where none was set, or where the schema is older than the table."""
    if connection.scalar(sa.text("SELECT to_regclass('broker.installation_vo')")) is None:
        return DEFAULT_VO
    return set_vo(connection) or DEFAULT_VO


def set_vo(connection: sa.Connection) -> str | None:
    """The VO that was set; None where none was."""
    found = connection.scalar(sa.text("SELECT vo FROM broker.installation_vo"))
    return None if found is None else str(found)


def write(connection: sa.Connection, vo: str, editor: str, now: datetime) -> None:
    """Set the VO; processes that are running have it from their next start on. ``now`` is aware."""
    connection.execute(_SET, {"vo": vo, "now": now, "editor": editor})
