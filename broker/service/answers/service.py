"""What runs: agents with their leaders, processes and sources. Ages of cycles are by the database's clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.service import registry
from agents.service.configuration import AgentsConfiguration, config_file, load, section_of
from broker.domain.parts import led_by, parts_of
from broker.grid.answers.grid import last_snapshot
from broker.service.answers.models import AgentLine, PartLine, ServiceAnswer, ServiceLine, SourceLine
from broker.service.statements.agent_cycles import Cycles, cycles_lately, database_clock
from broker.store.connection.plain_rows import mappings
from broker.store.query_context import QueryContext
from broker.store.schema.migrate import STANDALONE
from broker.store.service import agent_runs, leases
from broker.store.service.agent_pauses import ALL, UNTIL_RESUMED, Pause, PauseLine, held_pauses
from broker.store.service.agent_runs import LastRun
from broker.store.service.health import HEALTHY_WITHIN_S
from broker.store.service.leases import LeaseRow

WELL = ("done", "running")
_STORED, _LINES, _SOURCES = "what is stored about agents", "lines of agents of", "lines of sources"


@dataclass(frozen=True)
class AgentLeader:
    """The leader of an agent, and its last cycle.

    Attributes:
        run: its last cycle; for a divided agent the newest of those that did not end well, else the newest of all.
        holder: the leader; for a divided agent all leaders of parts; None if there is none.
        epoch: epoch of its lease, or the highest of its parts.
        expires_in_s: seconds until its lease, or the first lease of its parts, expires; None without a lease in force.
        parts: its parts; none if its work is not divided.
    """

    run: LastRun | None
    holder: str | None
    epoch: int | None
    expires_in_s: float | None
    parts: tuple[PartLine, ...]


def leader_of(
    agent: str, rows: Sequence[LeaseRow], last: LastRun | None, last_of_parts: Mapping[str, LastRun]
) -> AgentLeader:
    """Find the leader and last cycle of an agent.

    Args:
        agent: name of the agent.
        rows: the leases in use, for all agents.
        last: newest cycle of the agent.
        last_of_parts: newest cycle of each part, by the name of its lease.
    """
    agent_leases = {row.name: row for row in rows if led_by(row.name)[0] == agent}
    of = max((led_by(name)[1].of for name in agent_leases), default=1)
    names = [part.lease_of(agent) for part in parts_of(of)]
    parts = tuple(_part(name, agent_leases.get(name), last_of_parts.get(name)) for name in names) if of > 1 else ()
    in_force = [agent_leases[name] for name in names if name in agent_leases and agent_leases[name].is_in_force]
    return AgentLeader(
        _worst([last_of_parts[name] for name in names if name in last_of_parts]) or last,
        ", ".join(dict.fromkeys(row.holder for row in in_force)) or None,
        max((row.epoch for row in agent_leases.values()), default=None),
        min((round(row.expires_in_s, 1) for row in in_force), default=None),
        parts,
    )


def _part(name: str, row: LeaseRow | None, run: LastRun | None) -> PartLine:
    in_force = row is not None and row.is_in_force
    return PartLine(
        part=str(led_by(name)[1]),
        last_outcome=None if run is None else run.outcome,
        started_at=None if run is None else run.started_at,
        error=None if run is None else run.error,
        holder=row.holder if row is not None and in_force else None,
        epoch=None if row is None else row.epoch,
        expires_in_s=round(row.expires_in_s, 1) if row is not None and in_force else None,
    )


def _worst(runs: Sequence[LastRun]) -> LastRun | None:
    newest = sorted(runs, key=lambda run: run.started_at, reverse=True)
    return next((run for run in newest if run.outcome not in WELL), next(iter(newest), None))


_SERVICES = sa.text("""
    SELECT holder, host, version, started_at, seen_at, agents, coalesce(state, '{}') AS state
    FROM broker.services ORDER BY started_at, holder""")


def service_answer(query: QueryContext, installation: str = STANDALONE) -> ServiceAnswer:
    """Return the agents, the processes and the sources.

    Args:
        query: query context.
        installation: standalone, or alongside PanDA, where some agents are off until switched on.
    """
    now = agents_clock(query)
    return ServiceAnswer(
        now=now,
        agents=agent_lines(query, installation),
        services=tuple(_service(row, now) for row in mappings(query.connection, _SERVICES)),
        sources=source_lines(query),
    )


@lru_cache(maxsize=4)
def _configuration(file: Path, changed_ns: int, size_bytes: int) -> AgentsConfiguration:
    """Read a configuration file, again when it has changed."""
    return load(file, registry.NAMES)


def agents_clock(query: QueryContext) -> datetime:
    """Return the instant, by the database's clock (aware), at which agents were read in this transaction."""
    return _once_stored(query).now


def agent_lines(query: QueryContext, installation: str = STANDALONE) -> tuple[AgentLine, ...]:
    """Return all agents of this installation, in the order in which work passes through them."""
    return query.once(f"{_LINES} {installation}", lambda: tuple(_agents(query, installation)))


def _agents(query: QueryContext, installation: str) -> Iterator[AgentLine]:
    file = config_file("agents.yaml", query.config)
    status = file.stat()
    configuration = _configuration(file, status.st_mtime_ns, status.st_size)
    stored = _once_stored(query)
    for name in registry.NAMES:
        paused = next((pause for pause in stored.pauses if pause.agent in (name, ALL)), None)
        leader = leader_of(name, stored.held, stored.last.get(name), stored.last_of_parts)
        yield _agent(configuration, installation, name, leader, stored.lately.get(name), paused, stored.now)


@dataclass(frozen=True)
class _Stored:
    now: datetime
    held: Sequence[LeaseRow]
    last: Mapping[str, LastRun]
    last_of_parts: Mapping[str, LastRun]
    lately: Mapping[str, Cycles]
    pauses: Sequence[Pause]


def _once_stored(query: QueryContext) -> _Stored:
    return query.once(_STORED, lambda: _stored(query.connection))


def _stored(connection: sa.Connection) -> _Stored:
    """Read what is stored about agents."""
    now = database_clock(connection)
    rows = leases.in_use(leases.find_all(connection))
    last = agent_runs.last_runs(connection)
    divided = any(not led_by(row.name)[1].is_whole for row in rows)
    last_of_parts = agent_runs.last_runs_of_parts(connection) if divided else {}
    return _Stored(now, rows, last, last_of_parts, cycles_lately(connection, now), held_pauses(connection))


def _agent(
    configuration: AgentsConfiguration,
    installation: str,
    name: str,
    leader: AgentLeader,
    lately: Cycles | None,
    paused: Pause | None,
    now: datetime,
) -> AgentLine:
    section = section_of(configuration, name)
    enabled = section is not None and section.runs(installation)
    run = leader.run
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
        holder=leader.holder,
        epoch=leader.epoch,
        expires_in_s=leader.expires_in_s,
        mean_s=None if lately is None else lately.mean_s,
        largest_s=None if lately is None else lately.largest_s,
        cycles_24h=0 if lately is None else lately.cycles,
        failed_24h=0 if lately is None else lately.failed,
        pause=None if paused is None else pause_line(paused),
        parts=leader.parts,
    )


def _next_run(run: LastRun | None, period_s: float, paused: Pause | None, now: datetime) -> datetime | None:
    """Return when the next cycle starts if the service runs: a period after the last, or when the pause ends."""
    due = None if run is None else max(now, run.started_at + timedelta(seconds=period_s))
    if paused is None:
        return due
    if paused.until == UNTIL_RESUMED:
        return None
    return paused.until if due is None else max(due, paused.until)


def pause_line(pause: Pause) -> PauseLine:
    """Return a pause as part of an answer."""
    return PauseLine(**pause.model_dump(include=set(PauseLine.model_fields)))


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


def source_lines(query: QueryContext) -> tuple[SourceLine, ...]:
    """Return the sources of the last snapshot, with their ages at that time."""
    return query.once(_SOURCES, lambda: tuple(_source_lines(query)))


def _source_lines(query: QueryContext) -> Iterator[SourceLine]:
    snapshot = last_snapshot(query)
    for state in () if snapshot is None else snapshot.states:
        yield SourceLine(
            source=state.name, state=state.state, age_s=state.age_s, limit_s=state.limit_s, rows=state.rows
        )
