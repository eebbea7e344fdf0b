"""The possible subjects of notification rules: alarms, and the reasons for which tasks wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote

from broker.domain.incident import Incident
from broker.history.answers.reasons import reasons
from broker.service.answers.alarm_sentences import alarm_sentence
from broker.service.answers.alarms import alarms
from broker.service.answers.models import Alarm
from broker.store.query_context import QueryContext


def alarm_incidents(query: QueryContext) -> Iterator[Incident]:
    """Yield one incident for each raised alarm."""
    for alarm in alarms(query).alarms:
        sentence = alarm_sentence(alarm)
        yield Incident("alarm", alarm.code, alarm.about, alarm.severity, sentence, _page(alarm), alarm.since)


def reason_incidents(query: QueryContext) -> Iterator[Incident]:
    """Yield the reasons for which tasks wait, of all brokerages together."""
    tasks: defaultdict[str, int] = defaultdict(int)
    oldest: dict[str, datetime] = {}
    for line in reasons(query).lines:
        code = line.main_code or line.reason
        tasks[code] += line.tasks
        if line.oldest_since is not None:
            oldest[code] = min(line.oldest_since, oldest.get(code, line.oldest_since))
    for code, number in tasks.items():
        if number:
            sentence = f"{number} {'tasks wait' if number != 1 else 'task waits'} for the reason {code}"
            yield Incident("reason", code, "", "warning", sentence, f"/reasons/{code}", oldest.get(code), number)


def _page(alarm: Alarm) -> str:
    about = quote(alarm.about, safe="")
    if alarm.code.startswith("task_"):
        return f"/tasks/{about}"
    return f"/queues/{about}" if alarm.code.startswith("queue_") else "/service"
