"""Agents that operators, or their brakes, paused: no cycle of them starts until the pause ends.

Each pause stays on record. All times are the database's, as those of leases and cycles are.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.plain_rows import mappings
from broker.store.query_context import Answer

ALL = "all"
"""Stands for every agent."""
BRAKE = "brake"
"""The editor of pauses that no operator set: the agent was held back again and again."""
UNTIL_RESUMED = datetime(9999, 12, 31, tzinfo=UTC)
"""The end of a pause that does not end by itself."""

_COLUMNS = "id, agent, reason, editor, set_at, until, ended_at, ended_by"
_READ_PAUSES_IN_FORCE = sa.text(f"""
    SELECT {_COLUMNS} FROM broker.agent_pauses
    WHERE ended_at IS NULL AND until > clock_timestamp()
      AND (CAST(:agent AS text) IS NULL OR agent IN (:agent, 'all'))
    ORDER BY until DESC, id""")  # noqa: S608 - a constant
_READ_PAUSES = sa.text(f"""
    SELECT {_COLUMNS} FROM broker.agent_pauses
    WHERE (CAST(:agent AS text) IS NULL OR agent IN (:agent, 'all'))
    ORDER BY set_at DESC, id DESC LIMIT :most""")  # noqa: S608 - a constant
_INSERT_PAUSE = sa.text("""
    INSERT INTO broker.agent_pauses (agent, reason, editor, set_at, until)
    SELECT :agent, :reason, :editor, now, CAST(:until AS timestamptz) FROM clock_timestamp() AS now
    WHERE CAST(:until AS timestamptz) > now RETURNING id""")
_END_PAUSE = sa.text("""
    UPDATE broker.agent_pauses SET
        ended_at = greatest(set_at, least(until, clock_timestamp())),
        ended_by = CASE WHEN until > clock_timestamp() THEN :editor END
    WHERE agent = :agent AND ended_at IS NULL RETURNING ended_by""")


class PauseRefused(Refused):
    """A pause cannot be set like this."""


class AgentPaused(Refused):
    """A cycle does not start, since an operator or its brake has paused the agent."""


class PauseLine(Answer):
    """An agent that an operator has paused."""

    agent: str
    reason: str
    editor: str
    set_at: datetime
    until: datetime


class Pause(PauseLine):
    """A pause as it is stored; ``agent`` may be :data:`ALL`. ``ended_by`` None: nobody, it ended by itself."""

    id: int
    ended_at: datetime | None
    ended_by: str | None


def pause(connection: sa.Connection, agent: str, *, until: datetime, reason: str, editor: str) -> None:
    """Pause an agent, or all, until an instant (aware). The pause that it has so far ends.

    Raises:
        PauseRefused: the instant has passed.
    """
    resume(connection, agent, editor=editor)
    values = {"agent": agent, "reason": reason, "editor": editor, "until": until}
    if connection.execute(_INSERT_PAUSE, values).scalar_one_or_none() is None:
        raise PauseRefused(f"{until.isoformat()} has passed", f"pause of {agent}", "give a later --until")


def resume(connection: sa.Connection, agent: str, *, editor: str) -> bool:
    """End the pause of an agent, or that of all; whether there was one in force."""
    return any(row.ended_by is not None for row in connection.execute(_END_PAUSE, {"agent": agent, "editor": editor}))


def held_pauses(connection: sa.Connection, agent: str | None = None) -> list[Pause]:
    """The pauses in force, of one agent (with that of all) or of every one, the longest first."""
    return [Pause(**row) for row in mappings(connection, _READ_PAUSES_IN_FORCE, {"agent": agent})]


def pause_history(connection: sa.Connection, agent: str | None = None, most: int = 100) -> list[Pause]:
    """All pauses that there were, the newest first."""
    return [Pause(**row._mapping) for row in connection.execute(_READ_PAUSES, {"agent": agent, "most": most})]


def refuse_paused(connection: sa.Connection, agent: str) -> None:
    """Refuse to start a cycle of an agent that is paused.

    Raises:
        AgentPaused: it is; the message says until when, by whom and why.
    """
    for one in held_pauses(connection, agent):
        whose = "all agents are" if one.agent == ALL else f"{agent} is"
        end = "it is resumed" if one.until == UNTIL_RESUMED else one.until.isoformat(timespec="seconds")
        raise AgentPaused(
            f"{whose} paused until {end} by {one.editor}: {one.reason}",
            f"agent {agent}",
            f"broker resume {one.agent} ends it",
        )
