"""What runs: agents, processes and sources. Ages of cycles go by the database's clock, whatever the answer is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from agents.service import registry
from agents.service.configuration import AgentsConfiguration, config_file, load
from agents.service.sections import section_of
from broker.app.answers.asking import Asking
from broker.app.answers.leading import Leading
from broker.app.answers.service_models import AgentLine, PauseLine, ServiceAnswer, ServiceLine, SourceLine
from broker.domain.parts import led_by
from broker.grid.answers.grid import last_snapshot
from broker.store.answers.agent_cycles import Cycles, cycles_lately, database_clock
from broker.store.schema.migrate import STANDALONE
from broker.store.service import agent_runs, leases
from broker.store.service.agent_pauses import ALL, UNTIL_RESUMED, Pause, held_pauses
from broker.store.service.agent_runs import LastRun
from broker.store.service.health import HEALTHY_WITHIN_S

_SERVICES = sa.text("""
    SELECT holder, host, version, started_at, seen_at, agents, coalesce(state, '{}') AS state
    FROM broker.services ORDER BY started_at, holder""")


def service_answer(asking: Asking, installation: str = STANDALONE) -> ServiceAnswer:
    """The agents, the processes and the sources.

    Args:
        asking: who is asked.
        installation: standalone, or alongside PanDA, where some agents are off until they are switched on.
    """
    now = database_clock(asking.connection)
    return ServiceAnswer(
        now=now,
        agents=tuple(agent_lines(asking, installation)),
        services=tuple(_service(row._mapping, now) for row in asking.connection.execute(_SERVICES)),
        sources=tuple(source_lines(asking)),
    )


def agent_lines(asking: Asking, installation: str = STANDALONE) -> Iterator[AgentLine]:
    """All agents of this installation, in the order in which work passes through them."""
    connection = asking.connection
    now = database_clock(connection)
    configuration = load(config_file("agents.yaml", asking.config), registry.NAMES)
    held = leases.in_use(leases.find_all(connection))
    last = agent_runs.last_runs(connection)
    divided = any(not led_by(row.name)[1].is_whole for row in held)
    last_of_parts = agent_runs.last_runs_of_parts(connection) if divided else {}
    lately, pauses = cycles_lately(connection, now), held_pauses(connection)
    for name in registry.NAMES:
        paused = next((one for one in pauses if one.agent in (name, ALL)), None)
        leading = Leading.of(name, held, last.get(name), last_of_parts)
        yield _agent(configuration, installation, name, leading, lately.get(name), paused, now)


def _agent(
    configuration: AgentsConfiguration,
    installation: str,
    name: str,
    leading: Leading,
    lately: Cycles | None,
    paused: Pause | None,
    now: datetime,
) -> AgentLine:
    section = section_of(configuration, name)
    enabled = section is not None and section.runs(installation)
    run = leading.run
    return AgentLine(
        agent=name,
        enabled=enabled,
        period_s=None if section is None else section.period_s,
        last_outcome=None if run is None else run.outcome,
        started_at=None if run is None else run.started_at,
        finished_at=None if run is None else run.finished_at,
        age_s=None if run is None else max(0.0, run.started_s_ago),
        next_run_at=_next_run(run, section.period_s, paused, now) if enabled and section is not None else None,
        counts={} if run is None else run.counts,
        error=None if run is None else run.error,
        holder=leading.holder,
        epoch=leading.epoch,
        expires_in_s=leading.expires_in_s,
        mean_s=None if lately is None else lately.mean_s,
        largest_s=None if lately is None else lately.largest_s,
        cycles_24h=0 if lately is None else lately.cycles,
        failed_24h=0 if lately is None else lately.failed,
        pause=None if paused is None else pause_line(paused),
        parts=leading.parts,
    )


def _next_run(run: LastRun | None, period_s: float, paused: Pause | None, now: datetime) -> datetime | None:
    """When the next cycle starts, if the service runs: a period after the last one, or when the pause ends."""
    due = None if run is None else max(now, run.started_at + timedelta(seconds=period_s))
    if paused is None:
        return due
    if paused.until == UNTIL_RESUMED:
        return None
    return paused.until if due is None else max(due, paused.until)


def pause_line(pause: Pause) -> PauseLine:
    """A pause as a part of an answer."""
    return PauseLine(
        agent=pause.agent, reason=pause.reason, editor=pause.editor, set_at=pause.set_at, until=pause.until
    )


def _service(row: Mapping[Any, Any], now: datetime) -> ServiceLine:
    state = row["state"]
    silent_s = (now - row["seen_at"]).total_seconds()
    return ServiceLine(
        holder=row["holder"],
        host=row["host"],
        version=row["version"],
        started_at=row["started_at"],
        seen_at=row["seen_at"],
        alive=silent_s <= float(state.get("healthy_within_s", HEALTHY_WITHIN_S)),
        agents=tuple(row["agents"]),
        overdue=tuple(state.get("overdue", ())),
        failing=dict(state.get("failing", {})),
        tuning=state.get("tuning"),
    )


def source_lines(asking: Asking) -> Iterator[SourceLine]:
    """The sources of the last snapshot, with their ages then."""
    snapshot = last_snapshot(asking)
    for state in () if snapshot is None else snapshot.states:
        yield SourceLine(
            source=state.name, state=state.state, age_s=state.age_s, limit_s=state.limit_s, rows=state.rows
        )
