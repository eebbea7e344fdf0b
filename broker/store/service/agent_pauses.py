"""Agents paused by operators or by their brakes: no cycle of such an agent starts until the pause ends.

Each pause stays on record. All times are the database's, like those of leases and cycles.
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.plain_rows import mappings
from broker.store.query_context import ResponseModel

ALL = "all"
"""Stands for every agent."""
BRAKE = "brake"
"""The editor of pauses that no operator set: the agent was held back repeatedly."""
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
    """The pause cannot be set in this way."""


class AgentPaused(Refused):
    """A cycle does not start, since an operator or its brake has paused the agent."""


class PauseLine(ResponseModel):
    """A paused agent."""

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
    """Pause an agent, or all agents, until an instant (aware). Its current pause ends.

    Raises:
        PauseRefused: the instant has passed.
    """
    resume(connection, agent, editor=editor)
    values = {"agent": agent, "reason": reason, "editor": editor, "until": until}
    if connection.execute(_INSERT_PAUSE, values).scalar_one_or_none() is None:
        raise PauseRefused(f"{until.isoformat()} has passed", f"pause of {agent}", "give a later --until")


def resume(connection: sa.Connection, agent: str, *, editor: str) -> bool:
    """End the pause of an agent, or that of all, and return whether one was in force."""
    return any(row.ended_by is not None for row in connection.execute(_END_PAUSE, {"agent": agent, "editor": editor}))


def held_pauses(connection: sa.Connection, agent: str | None = None) -> list[Pause]:
    """The pauses in force, of one agent (including that of all) or of every agent, longest first."""
    return [Pause(**row) for row in mappings(connection, _READ_PAUSES_IN_FORCE, {"agent": agent})]


def pause_history(connection: sa.Connection, agent: str | None = None, most: int = 100) -> list[Pause]:
    """All pauses on record, newest first."""
    return [Pause(**row._mapping) for row in connection.execute(_READ_PAUSES, {"agent": agent, "most": most})]


def refuse_paused(connection: sa.Connection, agent: str) -> None:
    """Raise an error if an agent is paused, so that no cycle of it starts.

    Raises:
        AgentPaused: the agent is paused; the message says until when, by whom and why.
    """
    for active_pause in held_pauses(connection, agent):
        whose = "all agents are" if active_pause.agent == ALL else f"{agent} is"
        end = (
            "it is resumed" if active_pause.until == UNTIL_RESUMED else active_pause.until.isoformat(timespec="seconds")
        )
        raise AgentPaused(
            f"{whose} paused until {end} by {active_pause.editor}: {active_pause.reason}",
            f"agent {agent}",
            f"broker resume {active_pause.agent} ends it",
        )
