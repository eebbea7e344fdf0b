"""The history of a task, oldest first: its decisions, with repeats folded, and what changed around it meanwhile.

Alongside the decisions are changes of tuning, queues, sources and pins. :func:`event_sentence` describes an event in
words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from broker.codec.decision_counts import NO_CANDIDATES
from broker.codec.reason_at_queue import counts_of
from broker.decisions.answers.decision import no_decision
from broker.domain.decisions import StoredDecision
from broker.domain.instants import length
from broker.domain.rejection_counts import rejection_counts, unified_of
from broker.domain.words import number
from broker.feeds.statements.feed_runs import ChangeRecord, changes_of_queue
from broker.feeds.statements.queue_pins import Pin, pins_of_queue
from broker.history.answers.job import failures_of
from broker.history.answers.stored_states import main_code
from broker.history.model.story import Event, story
from broker.history.statements.history_reads import read_record
from broker.history.statements.task_facts import TaskSelection, read_task_facts
from broker.retries.answers.retries import RetryActionLine, actions_of
from broker.store.decisions.decision_rows import WITHOUT_WORK, by_id
from broker.store.query_context import NothingFound, QueryContext, ResponseModel

#: Limits: the newest decisions read in full, the queues most recently gained or lost, and their changes and pins.
MOST_DECISIONS, MOST_QUEUES, MOST_CHANGES = 300, 40, 50
#: Fields of queues whose changes count; measured fields change all the time.
FIELDS = frozenset(
    {
        "status",
        "maxrss",
        "minrss",
        "maxtime",
        "mintime",
        "maxwdir",
        "corecount",
        "corepower",
        "fairsharepolicy",
        "capability",
        "type",
        "workflow",
        "jobseed",
        "transferringlimit",
        "wnconnectivity",
        "catchall",
    }
)


class HistoryEvent(ResponseModel):
    """An event of the task or its surroundings.

    Attributes:
        at: start of the event.
        until: time of the last of the folded decisions; null for events without duration.
        event: ``decision``, ``tuning``, ``status``, ``job_action``, ``rebrokered_from``, ``queue``, ``pin``,
            ``source`` or ``retry_rule``.
        about: details, by the kind of event.
    """

    at: datetime
    until: datetime | None
    event: str
    about: dict[str, Any]


class History(ResponseModel):
    """The history of a task, oldest first."""

    now: datetime
    jeditaskid: int
    events: tuple[HistoryEvent, ...]


@dataclass(frozen=True)
class ConcurrentChanges:
    """What happened alongside the decisions, as read: changes and pins of the queues that were gained or lost."""

    changes: Mapping[str, Sequence[ChangeRecord]]
    pins: Mapping[str, Sequence[Pin]]


def history(query: QueryContext, jeditaskid: int, since: datetime | None = None) -> History:
    """Return everything on record about a task.

    Raises:
        NothingFound: there is nothing on record.
    """
    events = story(read_record(query.connection, query.names, jeditaskid, since))
    if not events:
        facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=[jeditaskid]))
        if since is not None:
            remedy = "take a longer --last"
            raise NothingFound(
                "record of task", jeditaskid, f"since {since.isoformat(timespec='seconds')}", remedy=remedy
            )
        raise no_decision(jeditaskid, bool(facts), None)
    decisions = _decisions(query, events)
    folded = [_with_failures(query, _with_rules(event, decisions)) for event in events]
    queues = _queues(folded)
    beside = ConcurrentChanges(
        {name: changes_of_queue(query.connection, name, MOST_CHANGES) for name in queues},
        {name: pins_of_queue(query.connection, name, MOST_CHANGES) for name in queues},
    )
    start = datetime.fromisoformat(events[0]["at"])
    retried = retry_events(actions_of(query, task=jeditaskid, since=since))
    more = [*beside_events(beside, start, query.now), *source_events(folded, decisions), *retried]
    every = sorted([*map(_event, folded), *more], key=lambda event: event.at)
    return History(now=query.now, jeditaskid=jeditaskid, events=tuple(every))


def _decisions(query: QueryContext, events: Iterable[Event]) -> dict[int, StoredDecision]:
    """Return the first and the last decision of each folded event."""
    decided = [event for event in events if event["event"] == "decision"]
    newest = sorted({number for event in decided for number in event["decisions"]}, reverse=True)[:MOST_DECISIONS]
    if not newest:
        return {}
    first = min(datetime.fromisoformat(event["at"]) for event in decided)
    last = max(datetime.fromisoformat(event["until"]) for event in decided)
    return {stored.id: stored for stored in by_id(query.connection, newest, first, last, WITHOUT_WORK)}


def _with_rules(event: Event, decisions: Mapping[int, StoredDecision]) -> Event:
    """Return a decision with the main reason, and the rule that rejected or released each queue. Pure."""
    if event["event"] != "decision":
        return event
    first = decisions.get(event["decisions"][0])
    if first is None:
        return {**event, "main_code": event["reason"] or None, "taken_by": {}, "released_by": {}}
    decision = first.record.decision
    # candidates are counted only if the code is that of the rule that rejected most, as counting takes long
    is_by_rule = decision.outcome != "brokered" and decision.reason in NO_CANDIDATES
    counts = counts_of(decision) if is_by_rule else rejection_counts({}, (), ())
    code = main_code(decision.outcome, decision.reason, counts)
    changed = event["changed"] or {"lost": [], "gained": []}
    rejecting_rules = {name: decision.rejected[name] for name in changed["lost"] if name in decision.rejected}
    before = [stored for number, stored in decisions.items() if number < first.id and _same_chunk(stored, first)]
    earlier = max(before, key=lambda stored: stored.id, default=None)
    rejected = {} if earlier is None else earlier.record.decision.rejected
    released = {name: rejected[name] for name in changed["gained"] if name in rejected}
    return {**event, "main_code": code, "taken_by": rejecting_rules, "released_by": released}


def _with_failures(query: QueryContext, event: Event) -> Event:
    """Add to failed jobs how many failed with which code."""
    if event["event"] != "job_action":
        return event
    about = {name: value for name, value in event.items() if name != "pandaids"}
    return {**about, "failures": failures_of(query, event["pandaids"]) if event["pandaids"] else {}}


def _same_chunk(first: StoredDecision, second: StoredDecision) -> bool:
    a, b = first.record.decision, second.record.decision
    return (a.brokerage, a.datasetid, a.ramcount) == (b.brokerage, b.datasetid, b.ramcount)


def _queues(events: Iterable[Event]) -> list[str]:
    """Return the queues that the task gained or lost, the most recent first."""
    names: dict[str, None] = {}
    for event in reversed([event for event in events if event["event"] == "decision" and event["changed"]]):
        for name in (*event["changed"]["lost"], *event["changed"]["gained"]):
            names.setdefault(unified_of(name))
    return list(names)[:MOST_QUEUES]


def _event(event: Event) -> HistoryEvent:
    about = {name: value for name, value in event.items() if name not in ("at", "until", "event")}
    until = event.get("until")
    return HistoryEvent(
        at=datetime.fromisoformat(event["at"]).astimezone(UTC),
        until=None if until is None else datetime.fromisoformat(until).astimezone(UTC),
        event=event["event"],
        about=about,
    )


def beside_events(beside: ConcurrentChanges, start: datetime, now: datetime) -> Iterator[HistoryEvent]:
    """Yield changes and pins of queues from ``start`` to ``now`` (aware). Pure."""
    for queue, changes in beside.changes.items():
        for change in changes:
            fields = {name: list(pair) for name, pair in change.fields.items() if name in FIELDS}
            if fields and start <= change.changed_at <= now:
                about = {"queue": queue, "fields": fields, "table": change.table}
                yield HistoryEvent(at=change.changed_at, until=None, event="queue", about=about)
    for queue, pins in beside.pins.items():
        for pin in pins:
            yield from _pin_events(queue, pin, start, now)


def _pin_events(queue: str, pin: Pin, start: datetime, now: datetime) -> Iterator[HistoryEvent]:
    about = {"queue": queue, "field": pin.field, "value": pin.value, "reason": pin.reason, "editor": pin.editor}
    if start <= pin.set_at <= now:
        yield HistoryEvent(at=pin.set_at, until=None, event="pin", about={**about, "held": True, "ends": pin.until})
    ended = pin.until if pin.ended_at is None else min(pin.ended_at, pin.until)
    if start <= ended <= now:
        yield HistoryEvent(at=ended, until=None, event="pin", about={**about, "held": False, "ended_by": pin.ended_by})


def source_events(events: Sequence[Event], read: Mapping[int, StoredDecision]) -> Iterator[HistoryEvent]:
    """Yield when sources became unusable for the decisions and usable again, from the ends of folded ones. Pure."""
    numbers = [decision for event in events if event["event"] == "decision" for decision in event["decisions"]]
    unusable: set[str] = set()
    for decision in dict.fromkeys(numbers):
        if decision not in read:
            continue
        stored = read[decision]
        notes = {note.removeprefix("source_") for note in stored.record.decision.notes if note.startswith("source_")}
        at = stored.origin.decided_at
        for note in sorted(notes - unusable):
            state, _, name = note.partition(":")
            yield HistoryEvent(at=at, until=None, event="source", about={"source": name, "state": state})
        for note in sorted(unusable - notes):
            about = {"source": note.partition(":")[2], "state": "ok"}
            yield HistoryEvent(at=at, until=None, event="source", about=about)
        unusable = notes


def retry_events(actions: Iterable[RetryActionLine]) -> Iterator[HistoryEvent]:
    """Yield the actions of retry rules; jobs treated alike by one rule at one instant are one event. Pure."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for line in actions:
        alike[line.acted_at, line.rule, line.action, line.active, line.target, line.reason].append(line.pandaid)
    for (at, rule, action, active, target, reason), jobs in alike.items():
        about = {"rule": rule, "action": action, "active": active, "target": target, "reason": reason}
        about |= {"jobs": len(jobs), "first_pandaid": jobs[0]}
        yield HistoryEvent(at=at, until=None, event="retry_rule", about=about)


About = Mapping[str, Any]
SHOWN_QUEUES = 6


def event_sentence(event: HistoryEvent) -> str:
    """Describe one event; folded decisions with their number, as in ``pending lowmemory x 14, 05:21 to 12:20``."""
    return _WORDS[event.event](event.about) + _span(event)


def _span(event: HistoryEvent) -> str:
    if event.until is None or event.until == event.at:
        return ""
    same_day = event.until.date() == event.at.date()
    form = "%H:%M" if same_day else "%Y-%m-%d %H:%M"
    return f", {event.at:{form}} to {event.until:{form}}"


def _decision(about: About) -> str:
    chunk = "" if about["datasetid"] is None else f" dataset {about['datasetid']}, ramcount {about['ramcount'] or 0:g}:"
    head = f"{about['brokerage']}{chunk} {about['outcome']} {about.get('main_code') or about['reason']}".strip()
    words = [f"{head} x {about['times']}" if about["times"] > 1 else head]
    if about["assigned"]:
        words.append(", ".join(f"{name} {jobs}" for name, jobs in about["assigned"].items()))
    changed = about["changed"]
    if changed is not None:
        if (changed["was_outcome"], changed["was_reason"]) != (about["outcome"], about["reason"]):
            words.append(f"was {changed['was_outcome']} {changed['was_reason']}".strip())
        words += _queue_phrases("lost", changed["lost"], about.get("taken_by", {}), "to")
        words += _queue_phrases("gained", changed["gained"], about.get("released_by", {}), "from")
    first, last = about["decisions"]
    words.append(f"decision {first}" if first == last else f"decisions {first} to {last}")
    return "; ".join(words)


def _queue_phrases(word: str, names: list[str], rules: Mapping[str, str], preposition: str) -> list[str]:
    """Describe the queues of each rule together, as in ``lost DESY-HH/MCORE, BNL/MCORE to link_unusable``."""
    by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_rule[rules.get(name, "")].append(name)
    phrases = []
    for code, names_of_rule in by_rule.items():
        more = f" and {len(names_of_rule) - SHOWN_QUEUES} more" if len(names_of_rule) > SHOWN_QUEUES else ""
        phrases.append(
            f"{word} {', '.join(names_of_rule[:SHOWN_QUEUES])}{more}{f' {preposition} {code}' if code else ''}"
        )
    return phrases


def _tuning(about: About) -> str:
    if about["version"] < 0:
        return f"a canary tries values on the task (version {about['version']})"
    if about["was"] is None:
        return f"tuning version {about['version']} is in force"
    changes = [_change(item) for item in about["changes"]]
    return "; ".join((f"tuning version {about['version']} after {about['was']}", *changes))


def _change(item: About) -> str:
    scope = f" of {item['vo']}" if item["vo"] else ""
    return f"{item['key']}{scope}: {item['old']} -> {item['new']} ({item['editor']}: {item['reason']})"


def _action(about: About) -> str:
    limit = "" if about["limit_s"] is None else f", {length(about['value_s'] or 0)} over {length(about['limit_s'])}"
    where = "" if about["queue"] is None else f" at {about['queue']}"
    failures = "; ".join(f"{count} x {failure}" for failure, count in about.get("failures", {}).items())
    sentence = f"{about['agent']}: {number(about['jobs'])} jobs{where} {about['action']} by {about['rule']}{limit}"
    return f"{sentence}: {failures}" if failures else sentence


def _status(about: About) -> str:
    return " ".join(("status", *filter(None, (about["status"], about["reason"]))))


def _left(about: About) -> str:
    return f"dataset {about['datasetid']}: no jobs for {about['queue']} for a while"


def _queue(about: About) -> str:
    fields = ", ".join(f"{name} {pair[0]} -> {pair[1]}" for name, pair in sorted(about["fields"].items()))
    return f"queue {about['queue']}: {fields}"


def _pin(about: About) -> str:
    if about["held"]:
        return f"{about['queue']}: {about['editor']} holds {about['field']} at {about['value']}: {about['reason']}"
    return f"{about['queue']}: {about['field']} is held no longer"


def _source(about: About) -> str:
    return f"source {about['source']} is {about['state']}"


def _retry(about: About) -> str:
    jobs = f"job {about['first_pandaid']}" if about["jobs"] == 1 else f"{number(about['jobs'])} jobs"
    mode = "" if about["active"] else " (passive: nothing was done)"
    return f"retry rule {about['rule']}, {about['action']}, after {jobs}: {about['reason']}{mode}"


_WORDS: Mapping[str, Callable[[About], str]] = {
    "decision": _decision,
    "tuning": _tuning,
    "status": _status,
    "job_action": _action,
    "rebrokered_from": _left,
    "queue": _queue,
    "pin": _pin,
    "source": _source,
    "retry_rule": _retry,
}
