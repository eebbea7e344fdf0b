"""Alarms that somebody looks at: which they are, and a person's word that it is so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import get_args

import sqlalchemy as sa

from broker.errors import WRONG_USAGE, BrokerError
from broker.service.answers.models import Alarm, AlarmCode
from broker.store.query_context import NothingFound
from broker.store.service import acknowledged_alarms
from broker.store.service.acknowledged_alarms import Acknowledgement

GRAVITY = {"critical": 0, "warning": 1, "info": 2}
CODES: tuple[str, ...] = get_args(AlarmCode)
LONGEST_REASON = 500
SHORTEST, LONGEST, A_SHIFT = timedelta(minutes=1), timedelta(days=30), timedelta(hours=8)


class WrongAcknowledgement(BrokerError):
    """An acknowledgement without a reason, or for too long."""

    exit_status = WRONG_USAGE
    http_status = 400


def marked(alarms: Iterable[Alarm], held: Iterable[Acknowledgement]) -> list[Alarm]:
    """The alarms with who looks at them; an alarm that became graver since then is a new one. Pure."""
    by_alarm = {(one.code, one.about): one for one in held}
    found = []
    for alarm in alarms:
        one = by_alarm.get((alarm.code, alarm.about))
        if one is not None and GRAVITY[alarm.severity] >= GRAVITY[one.severity]:
            alarm = alarm.model_copy(update={"acknowledged": one})
        found.append(alarm)
    return found


def checked(code: str, reason: str, span: timedelta) -> str:
    """The reason, without spaces around it.

    Raises:
        NothingFound: there is no such kind of alarm.
        WrongAcknowledgement: there is no reason, or the time is too short or too long.
    """
    _known(code)
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise WrongAcknowledgement("no reason, or too long a one", "reason", f"give 1 to {LONGEST_REASON} characters")
    if not SHORTEST <= span <= LONGEST:
        raise WrongAcknowledgement("too short or too long", "how long it counts", "give a minute to 30 days")
    return reason.strip()


def acknowledge(
    connection: sa.Connection, alarms: Iterable[Alarm], code: str, about: str | None, span: timedelta, *,
    reason: str, editor: str,
) -> list[str]:  # fmt: skip
    """Acknowledge an alarm that there is, or all of its kind; answers what they are about.

    Args:
        connection: in a transaction that may write.
        alarms: that there are.
        code: the kind of alarm.
        about: the source, agent, task or queue; None: all of this kind.
        span: how long it counts.
        reason: what is done about it.
        editor: who looks at it.

    Raises:
        NothingFound: there is no such alarm.
        WrongAcknowledgement: there is no reason, or the time is too short or too long.
    """
    words = checked(code, reason, span)
    alike = {one.about: one.severity for one in reversed(list(alarms)) if one.code == code}
    chosen = [(name, severity) for name, severity in alike.items() if about in (None, name)]
    if not chosen:
        named = code if about is None else f"{code} about {about}"
        raise NothingFound("alarm now", named, "alarms", tuple(sorted(alike)))
    acknowledged_alarms.acknowledge(connection, code, chosen, span, reason=words, editor=editor)
    return sorted(name for name, _ in chosen)


def take_back(connection: sa.Connection, code: str, about: str | None, *, editor: str) -> list[str]:
    """Take back what was acknowledged of an alarm, or of all of its kind; answers what they are about.

    Raises:
        NothingFound: there is no such kind of alarm.
    """
    _known(code)
    alike = [one.about for one in acknowledged_alarms.held(connection) if one.code == code]
    return acknowledged_alarms.take_back(connection, code, [about] if about is not None else alike, editor=editor)


def _known(code: str) -> None:
    if code not in CODES:
        raise NothingFound("kind of alarm", code, "alarms", CODES)
