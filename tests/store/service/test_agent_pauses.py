"""Pauses of agents: set, ended, overlapping, and refused."""

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
        (kept,) = pause_history(connection)
        assert (kept.agent, kept.reason, kept.editor, kept.until, kept.ended_by) == (
            "timeouts", "downtime", "ann", until, "bob",
        )  # fmt: skip


def test_all_means_every_agent_and_a_new_pause_ends_the_one_before(database: Database) -> None:
    with database.begin() as connection:
        now = database_clock(connection)
        pause(connection, ALL, until=now + timedelta(hours=1), reason="move", editor="ann")
        pause(connection, ALL, until=now + timedelta(hours=2), reason="longer", editor="ann")
        pause(connection, "timeouts", until=now + timedelta(hours=3), reason="own", editor="bob")
        assert [one.agent for one in held_pauses(connection, "timeouts")] == ["timeouts", ALL]
        assert [one.reason for one in held_pauses(connection, "activation")] == ["longer"]
        resume(connection, "timeouts", editor="bob")
        with pytest.raises(AgentPaused, match="all agents are paused"):
            refuse_paused(connection, "timeouts")
        assert len(pause_history(connection, ALL)) == 2


def test_an_end_that_has_passed_is_refused_and_one_that_passes_needs_nobody(database: Database) -> None:
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
        (ended,) = pause_history(connection)
        assert ended.ended_by is None and ended.ended_at == ended.until < now
