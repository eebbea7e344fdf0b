"""Cycles of the agent of notifications, with settings, incidents and a sender from the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from agents.notifications.delivering import NotDelivered
from agents.notifications.notifications import Deliver, NotificationsAgent, NotificationsOptions
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.domain.incident import Incident
from broker.notifications.model.messages import Message
from broker.notifications.model.rules import NotificationSettings
from broker.store.connection.database import Database
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
OPS = {"kind": "mail", "host": "127.0.0.1", "security": "none", "sender": "b@example.org", "to": ["ops@example.org"]}
PLAIN: Mapping[str, Any] = {
    "channels": {"ops": OPS, "room": OPS},
    "rules": [{"name": "all", "to": ["ops"], "alarms": ["*"]}],
    "subscriptions": {"mail": "ops", "domains": ["example.org"], "channels": ["room"]},
}
FAILING = Incident("alarm", "queue_failing", "BNL", "warning", "BNL fails", "/queues/BNL", NOW)


@dataclass
class Told:
    """An outbox: it sends nothing, and records the messages.

    Attributes:
        messages: each with its channel and address.
        ill: channels whose deliveries fail.
        tries: deliveries that were tried.
    """

    messages: list[tuple[str, str, Message]] = field(default_factory=list)
    ill: set[str] = field(default_factory=set)
    tries: int = 0

    def sender(self, settings: NotificationSettings) -> Deliver:
        def deliver(channel: Any, message: Message, now: datetime, address: str) -> str:
            name = next(name for name, candidate in settings.channels.items() if candidate is channel)
            self.tries += 1
            if name in self.ill:
                raise NotDelivered("it is ill", name)
            self.messages.append((name, address, message))
            return "taken"

        return deliver

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [(name, message.event, message.about) for name, _, message in self.messages]


def cycle(
    database: Database, outbox: Told | None, *incidents: Incident, minutes: float = 0,
    settings: Mapping[str, Any] = PLAIN, options: Mapping[str, Any] | None = None,
    deliver: Deliver | None = None, dry: bool = False,
) -> RunRecord:  # fmt: skip
    """One cycle, ``minutes`` after noon, while these incidents are open."""
    agent = NotificationsAgent(NotificationsOptions.model_validate(options or {}), ProcessSettings())
    parsed = NotificationSettings.model_validate(settings)
    agent.settings = lambda folder: parsed
    agent.readers = lambda: [lambda query: incidents]
    agent.deliver = deliver or (outbox or Told()).sender(parsed)
    agent.clock = lambda: NOW
    now = NOW + timedelta(minutes=minutes)
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        lease = leases.acquire(connection, agent.name, "test", LeaseTerms()).lease
    assert lease is not None
    request = CycleRequest(dry_run=dry)
    context = CycleContext(database, now, 1, 60.0, request, lease=lease, run_id=open_run(database, agent.name, lease))
    return run_cycle(agent, context)


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]
