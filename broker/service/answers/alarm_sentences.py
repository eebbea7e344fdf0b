"""Alarms as sentences, for commands, pages and messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from broker.domain.words import number, with_unit
from broker.service.answers.models import Alarm

#: From this number on, alarms of one kind are shown as one line.
FOLDED_FROM = 3
SUCH_AS = 3


@dataclass(frozen=True)
class AlarmLine:
    """One alarm, or several of one kind, as a line.

    Attributes:
        severity: severity of all of them.
        code: code of all of them.
        sentence: the first alarm in words, with the number and the next few subjects of the others.
        since: when the first began; None if unknown.
        key: key that sets their limit.
        alarms: all of them.
        looked_at: who is looking at them and why; empty if nobody is.
    """

    severity: str
    code: str
    sentence: str
    since: datetime | None
    key: str
    alarms: tuple[Alarm, ...]
    looked_at: str


def alarm_lines(alarms: Iterable[Alarm]) -> list[AlarmLine]:
    """Return the alarms in order, folding those of one kind if there are many."""
    kinds: dict[tuple[str, str, str], list[Alarm]] = {}
    for alarm in alarms:
        kinds.setdefault((alarm.severity, alarm.code, _looked_at(alarm)), []).append(alarm)
    lines = []
    for alike in kinds.values():
        if len(alike) < FOLDED_FROM:
            lines += [_line(alarm) for alarm in alike]
        else:
            lines.append(_line(alike[0], alike[1:]))
    return lines


def alarm_kinds(alarms: Iterable[Alarm]) -> list[AlarmLine]:
    """Return the alarms in order, with one line for each kind, however few they are."""
    kinds: dict[tuple[str, str, str], list[Alarm]] = {}
    for alarm in alarms:
        kinds.setdefault((alarm.severity, alarm.code, _looked_at(alarm)), []).append(alarm)
    return [_line(alike[0], alike[1:]) for alike in kinds.values()]


def _looked_at(alarm: Alarm) -> str:
    entry = alarm.acknowledged
    return "" if entry is None else f"{entry.editor}: {entry.reason}"


def _line(first: Alarm, others: Sequence[Alarm] = ()) -> AlarmLine:
    sentence = alarm_sentence(first)
    if others:
        examples = ", ".join(alarm.about for alarm in others[:SUCH_AS])
        remainder = f"{len(others)} others" if len(others) > 1 else "1 other"
        sentence += f"; likewise {remainder} ({examples}{', ...' if len(others) > SUCH_AS else ''})"
    alike = (first, *others)
    since = min((alarm.since for alarm in alike if alarm.since is not None), default=None)
    return AlarmLine(first.severity, first.code, sentence, since, first.key, alike, _looked_at(first))


def alarm_sentence(alarm: Alarm) -> str:
    """Describe what is wrong, with the figure and its limit."""
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
        "task_flapping": (
            f"task {alarm.about} changed its outcome or reason {number(alarm.value)} times in {details.get('hours')} h"
        ),
        "queue_failing": (
            f"{value} of the jobs that ended at {alarm.about} failed: {details.get('failed')} failed, "
            f"{details.get('finished')} finished, {details.get('tasks')} tasks"
        ),
        "queue_closed": f"{alarm.about}: {details.get('what')}",
        "nodes_held": f"nodes of {alarm.about} that get no jobs, {number(alarm.value)}: {details.get('what')}",
        "outputs_waiting": (
            f"{details.get('files')} files of {details.get('datasets')} datasets wait to be registered in Rucio, "
            f"one for {value}: {details.get('reason')}"
        ),
        "output_refused": f"{number(alarm.value)} files of {alarm.about} are not in Rucio: {details.get('reason')}",
        "output_dataset_open": f"{alarm.about} is not closed: {details.get('reason')}",
        "notifications_failing": (
            f"messages by {alarm.about} do not get through: {number(alarm.value)} wait or were given up, "
            f"tried {details.get('tries')} times; {details.get('detail')}"
        ),
        "decisions_worse": f"{details.get('what')}",
        "config_bad_row": f"a row of the gdpconfig table is refused: {alarm.about}",
    }
    return text[alarm.code]
