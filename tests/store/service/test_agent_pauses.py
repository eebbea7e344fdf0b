"""Pauses of agents are set, ended, overlapping and rejected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from broker.service.statements.agent_cycles import database_clock
from broker.store.connection.database import Database
from broker.store.service.agent_pauses import (
    ALL,
    AgentPaused,
    PauseRefused,
    held_pauses,
    pause,
    pause_history,
    refuse_paused,
    resume,
)


def test_an_agent_is_paused_until_the_pause_ends(database: Database) -> None:
    with database.begin() as connection:
        until = database_clock(connection) + timedelta(hours=1)
        refuse_paused(connection, "timeouts")
        pause(connection, "timeouts", until=until, reason="downtime", editor="ann")
        with pytest.raises(AgentPaused, match=r"timeouts is paused until .* by ann: downtime"):
            refuse_paused(connection, "timeouts")
        refuse_paused(connection, "activation")
        assert resume(connection, "timeouts", editor="bob") and not resume(connection, "timeouts", editor="bob")
        refuse_paused(connection, "timeouts")
        (entry,) = pause_history(connection)
        assert (entry.agent, entry.reason, entry.editor, entry.until, entry.ended_by) == (
            "timeouts", "downtime", "ann", until, "bob",
        )  # fmt: skip


def test_all_pauses_every_agent_and_a_new_pause_ends_the_previous_one(database: Database) -> None:
    with database.begin() as connection:
        now = database_clock(connection)
        pause(connection, ALL, until=now + timedelta(hours=1), reason="move", editor="ann")
        pause(connection, ALL, until=now + timedelta(hours=2), reason="longer", editor="ann")
        pause(connection, "timeouts", until=now + timedelta(hours=3), reason="own", editor="bob")
        assert [active.agent for active in held_pauses(connection, "timeouts")] == ["timeouts", ALL]
        assert [active.reason for active in held_pauses(connection, "activation")] == ["longer"]
        resume(connection, "timeouts", editor="bob")
        with pytest.raises(AgentPaused, match="all agents are paused"):
            refuse_paused(connection, "timeouts")
        assert len(pause_history(connection, ALL)) == 2


def test_a_past_end_is_rejected_and_a_pause_ends_by_itself(database: Database) -> None:
    with database.begin() as connection, pytest.raises(PauseRefused, match="has passed"):
        pause(connection, "timeouts", until=datetime(2020, 1, 1, tzinfo=UTC), reason="x", editor="ann")
    with database.begin() as connection:
        now = database_clock(connection)
        connection.exec_driver_sql(
            "INSERT INTO broker.agent_pauses (agent, reason, editor, set_at, until) VALUES ('timeouts', 'x', 'ann', "
            "clock_timestamp() - interval '2 hours', clock_timestamp() - interval '1 hour')"
        )
        refuse_paused(connection, "timeouts")
        assert not resume(connection, "timeouts", editor="bob")
        (entry,) = pause_history(connection)
        assert entry.ended_by is None and entry.ended_at == entry.until < now
