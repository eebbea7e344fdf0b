"""Acknowledgement of alarms: who is looking at which."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import get_args

import sqlalchemy as sa

from broker.errors import WRONG_USAGE, BrokerError
from broker.service.answers.models import Alarm, AlarmCode
from broker.store.query_context import NothingFound, ResponseModel
from broker.store.service import acknowledged_alarms
from broker.store.service.acknowledged_alarms import Acknowledgement

GRAVITY = {"critical": 0, "warning": 1, "info": 2}
CODES: tuple[str, ...] = get_args(AlarmCode)
LONGEST_REASON = 500
SHORTEST, LONGEST, A_SHIFT = timedelta(minutes=1), timedelta(days=30), timedelta(hours=8)


class WrongAcknowledgement(BrokerError):
    """The acknowledgement has no usable reason or length."""

    exit_status = WRONG_USAGE
    http_status = 400


class AcknowledgedAlarms(ResponseModel):
    """The alarms of one kind that were acknowledged, or whose acknowledgement was withdrawn."""

    code: str
    about: list[str]


def marked(alarms: Iterable[Alarm], held: Iterable[Acknowledgement]) -> list[Alarm]:
    """Return the alarms with who is looking at them; an alarm that has since become graver is a new one. Pure."""
    by_alarm = {(acknowledgement.code, acknowledgement.about): acknowledgement for acknowledgement in held}
    result = []
    for alarm in alarms:
        entry = by_alarm.get((alarm.code, alarm.about))
        if entry is not None and GRAVITY[alarm.severity] >= GRAVITY[entry.severity]:
            alarm = alarm.model_copy(update={"acknowledged": entry})
        result.append(alarm)
    return result


def checked(code: str, reason: str, span: timedelta) -> str:
    """Return the reason, stripped of surrounding spaces.

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
) -> AcknowledgedAlarms:  # fmt: skip
    """Acknowledge an existing alarm, or all of its kind.

    Args:
        connection: connection in a transaction that may write.
        alarms: the existing alarms.
        code: the kind of alarm.
        about: the source, agent, task or queue; None: all of this kind.
        span: how long the acknowledgement holds.
        reason: what is being done about the alarm.
        editor: who is looking at it.

    Raises:
        NothingFound: there is no such alarm.
        WrongAcknowledgement: there is no reason, or the time is too short or too long.
    """
    words = checked(code, reason, span)
    alike = {alarm.about: alarm.severity for alarm in reversed(list(alarms)) if alarm.code == code}
    matches = [(name, severity) for name, severity in alike.items() if about in (None, name)]
    if not matches:
        subject = code if about is None else f"{code} about {about}"
        raise NothingFound("alarm now", subject, "alarms", tuple(sorted(alike)))
    acknowledged_alarms.acknowledge(connection, code, matches, span, reason=words, editor=editor)
    return AcknowledgedAlarms(code=code, about=sorted(name for name, _ in matches))


def take_back(connection: sa.Connection, code: str, about: str | None, *, editor: str) -> AcknowledgedAlarms:
    """Take back the acknowledgement of an alarm, or of all of its kind.

    Raises:
        NothingFound: there is no such kind of alarm.
    """
    _known(code)
    alike = [entry.about for entry in acknowledged_alarms.held(connection) if entry.code == code]
    subjects = [about] if about is not None else alike
    withdrawn = acknowledged_alarms.take_back(connection, code, subjects, editor=editor)
    return AcknowledgedAlarms(code=code, about=withdrawn)


def _known(code: str) -> None:
    if code not in CODES:
        raise NothingFound("kind of alarm", code, "alarms", CODES)
