"""Messages to the subscribers of a task: one when its work waits too long, one when it ends."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.notifications.model.rules import Subscriptions
from broker.notifications.statements import incident_rows
from broker.notifications.statements.incident_rows import Planned, SubscribedTask
from broker.notifications.statements.subscription_rows import ENDED
from broker.store.connection.tables import Names

RULE = "subscription"


def tell_subscribers(connection: sa.Connection, names: Names, terms: Subscriptions, now: datetime, most: int) -> int:
    """Plan the messages to subscribers; returns how many there are."""
    by_task: defaultdict[int, list[SubscribedTask]] = defaultdict(list)
    for one in incident_rows.read_subscribed(connection, names, now, most):
        by_task[one.jeditaskid].append(one)
    planned = 0
    for task, all_of_it in by_task.items():
        state = all_of_it[0]
        said = what_to_tell(state, terms, now)
        if said is None:
            continue
        code, sentence = said
        due = [one for one in all_of_it if code != "task_waits" or one.told_waits_at is None]
        if not due:
            continue
        number = incident_rows.note_task(connection, code, task, sentence, now)
        messages = [Planned(number, "opened", one.channel, RULE, now, one.address) for one in due]
        planned += incident_rows.plan(connection, messages, now)
        ids = [one.id for one in due]
        if code == "task_waits":
            incident_rows.note_told_waits(connection, ids, now)
        else:
            incident_rows.end_subscriptions(connection, ids, sentence, now)
    return planned


def what_to_tell(one: SubscribedTask, terms: Subscriptions, now: datetime) -> tuple[str, str] | None:
    """The code of what has become of a task, and a sentence; None: nothing that is worth a message. Pure."""
    called = f"task {one.jeditaskid}" + (f" ({one.name})" if one.name else "")
    if one.status is None:
        return "task_gone", f"{called} is gone from the database"
    if one.status in ENDED:
        why = f": {one.dialog}" if one.dialog else ""
        return "task_ended", f"{called} has ended: {one.status}{why}"
    if one.waits_since is not None and now - one.waits_since >= timedelta(minutes=terms.waits_min):
        hours = (now - one.waits_since).total_seconds() / 3600.0
        return "task_waits", f"{called} has work that waits for {hours:.1f} h: {one.waits_for or 'no reason is known'}"
    return None
