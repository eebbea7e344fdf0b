"""Alarms in words."""

from __future__ import annotations

from broker.app.answers.service_models import Alarm
from broker.app.sentences.phrases import number, with_unit


def alarm_sentence(alarm: Alarm) -> str:
    """What is wrong, with the figure and its limit."""
    value, limit = with_unit(alarm.value, alarm.unit), with_unit(alarm.limit, alarm.unit)
    details = {name: number(figure) for name, figure in alarm.details.items()}
    text = {
        "source_stale": f"source {alarm.about} is {details.get('state', 'stale')}: age {value}, limit {limit}",
        "agent_overdue": f"a cycle of {alarm.about} is overdue: started {value} ago",
        "agent_failing": f"the last {value} of {alarm.about} failed: {details.get('error')}",
        "agent_refused": f"the last {value} of {alarm.about} were refused: {details.get('error')}",
        "agent_paused": f"{alarm.about} is paused by {details.get('by')}: {details.get('reason')}",
        "no_leader": f"nobody leads {alarm.about}; its last cycle started {value} ago, period {limit}",
        "task_starving": (
            f"task {alarm.about} waits for {value} ({details.get('reason')}), limit {limit}; "
            f"{details.get('later_tasks_brokered')} later tasks of share {details.get('gshare')} were brokered"
        ),
        "task_flapping": f"task {alarm.about} changed its outcome or reason {value} in {details.get('hours')} h",
        "queue_failing": (
            f"{value} of the jobs that ended at {alarm.about} failed: {details.get('failed')} failed, "
            f"{details.get('finished')} finished, {details.get('tasks')} tasks"
        ),
        "config_bad_row": f"a row of the gdpconfig table is refused: {alarm.about}",
    }
    return text[alarm.code]
