"""Whether the service of a host is healthy, judged by its own report and by the leases; for quick commands.

Nothing here needs more than the driver, because a health check runs every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg

from broker.domain.parts import led_by, parts_of
from broker.store.connection.deadlines import DEADLINES
from broker.store.connection.open_connections import OpenConnections

ProblemCode = Literal["no_service", "heartbeat_old", "cycle_overdue", "agent_failing", "no_leader"]
HEALTHY_WITHIN_S = 30.0
"""Limit in seconds for a service that does not report its own."""
ANSWER_WITHIN_S = 8.0

_READ_SERVICES = """
    SELECT holder, extract(epoch FROM clock_timestamp() - seen_at)::float8,
           extract(epoch FROM clock_timestamp() - started_at)::float8, agents, coalesce(state, '{}')
    FROM broker.services WHERE host = %s"""
_READ_LEASES = "SELECT name, extract(epoch FROM clock_timestamp() - expires_at)::float8 FROM broker.leases"


@dataclass(frozen=True)
class Problem:
    """Why a service is not healthy.

    Attributes:
        code: kind of the problem.
        agent: the affected agent, or part of one; None if it is the service.
        value: measured value: an age in seconds, or the number of consecutive failed cycles.
        limit: the limit that ``value`` exceeds.
    """

    code: ProblemCode
    agent: str | None = None
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class ServiceState:
    """A service of the host as stored in the database; ages are in seconds by the database's clock.

    Attributes:
        holder: its name.
        seen_s_ago: age of its last heartbeat.
        started_s_ago: age of its first heartbeat.
        agents: the agents that it runs.
        state: its own report: ``healthy_within_s``, ``overdue`` (leases), ``failing`` (cycles by lease), ``parts``
            (number of parts by divided agent), and ``feeds`` (agents that read from other systems).
    """

    holder: str
    seen_s_ago: float
    started_s_ago: float
    agents: Sequence[str] = ()
    state: Mapping[str, Any] = field(default_factory=dict)


def read(url: str, host: str) -> tuple[list[ServiceState], dict[str, float]]:
    """The services of ``host``, and for each lease the seconds since it expired (negative: in force).

    Raises:
        psycopg.Error: the database does not answer in time, or has no such tables.
    """
    work = OpenConnections()
    settings = f"-c timezone=UTC -c statement_timeout={int(ANSWER_WITHIN_S * 1000)}"
    with (
        psycopg.connect(url, autocommit=True, connect_timeout=int(ANSWER_WITHIN_S), options=settings) as connection,
        work.using(connection),
        DEADLINES.after(ANSWER_WITHIN_S, lambda: work.cut("no answer")),
    ):
        services = [ServiceState(*row) for row in connection.execute(_READ_SERVICES, (host,))]
        return services, {str(name): float(ago_s) for name, ago_s in connection.execute(_READ_LEASES)}


def problems(services: Sequence[ServiceState], expired_s_ago: Mapping[str, float]) -> list[Problem]:
    """The problems of the service with the newest heartbeat; others on the same host may have been killed."""
    if not services:
        return [Problem("no_service")]
    service = min(services, key=lambda one: one.seen_s_ago)
    limit_s = float(service.state.get("healthy_within_s", HEALTHY_WITHIN_S))
    if service.seen_s_ago > limit_s:
        return [Problem("heartbeat_old", None, service.seen_s_ago, limit_s)]
    faults = [Problem("cycle_overdue", agent) for agent in service.state.get("overdue", ())]
    faults += [Problem("agent_failing", agent, cycles) for agent, cycles in service.state.get("failing", {}).items()]
    faults += _without_leader(service, expired_s_ago, limit_s)
    # Faults of feeds that other systems cause are reported by alarms; a restart of the service would not fix them.
    feeds = frozenset(service.state.get("feeds", ()))
    return [one for one in faults if one.agent is None or led_by(one.agent)[0] not in feeds]


def _leases_to_be_held(service: ServiceState, expired_s_ago: Mapping[str, float]) -> Iterator[str]:
    """The leases that the agents of a service should hold, without agents led elsewhere in another number of parts."""
    parts = service.state.get("parts", {})
    in_force = {led_by(name) for name, ago_s in expired_s_ago.items() if ago_s < 0}
    for agent in service.agents:
        of = int(parts.get(agent, 1))
        if not any(other == agent and part.of != of for other, part in in_force):
            yield from (part.lease_of(agent) for part in parts_of(of))


def _without_leader(service: ServiceState, expired_s_ago: Mapping[str, float], limit_s: float) -> Iterator[Problem]:
    """Agents or parts without a leader, here or elsewhere: their leases are available but not taken."""
    for agent in _leases_to_be_held(service, expired_s_ago):
        # a lease without a row has been available since the service started, at the latest
        free_s = min(expired_s_ago.get(agent, service.started_s_ago), service.started_s_ago)
        if free_s > limit_s:
            yield Problem("no_leader", agent, free_s, limit_s)
