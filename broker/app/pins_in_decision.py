"""The pins that counted in a decision: fields of its queues that an operator held at its instant."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from broker.domain.decisions import Decision
from broker.feeds.statements.queue_pins import Pin, held_pins


def pins_in(connection: sa.Connection, decision: Decision, decided_at: datetime) -> list[Pin]:
    """The pins of queues that the decision chose or rejected; a pin of a queue holds for its pseudo-queues."""
    names = {*decision.rejected, *(one.name for one in decision.candidates)}
    queues = {name.partition("/")[0] for name in names} | names
    return [pin for pin in held_pins(connection, decided_at) if pin.queue in queues]


def described(pin: Pin) -> dict[str, object]:
    """A pin as an object for programs."""
    return {
        "queue": pin.queue,
        "field": pin.field,
        "value": pin.value,
        "reason": pin.reason,
        "editor": pin.editor,
        "set_at": pin.set_at,
        "until": pin.until,
    }
