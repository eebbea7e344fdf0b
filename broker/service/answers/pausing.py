"""Pauses of agents: no cycle of a paused agent starts."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from pydantic import BaseModel

from broker.store.service import agent_pauses


class Paused(BaseModel):
    """A paused agent."""

    agent: str
    until: datetime
    editor: str
    reason: str


class Resumed(BaseModel):
    """Whether the agent's own pause was ended, and what still pauses it."""

    agent: str
    resumed: bool
    still_paused_by: list[str]


def pause(connection: sa.Connection, agent: str, *, until: datetime, reason: str, editor: str) -> Paused:
    """Pause an agent, or all."""
    paused = Paused(agent=agent, until=until, editor=editor, reason=reason.strip())
    agent_pauses.pause(connection, agent, until=until, reason=paused.reason, editor=editor)
    return paused


def resume(connection: sa.Connection, agent: str, *, editor: str) -> Resumed:
    """End the pause of an agent, or of all."""
    was_paused = agent_pauses.resume(connection, agent, editor=editor)
    other_pauses = agent_pauses.held_pauses(connection, agent)
    return Resumed(agent=agent, resumed=was_paused, still_paused_by=[held.agent for held in other_pauses])
