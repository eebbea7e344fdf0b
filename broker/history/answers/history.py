"""The history of a task: its decisions folded, and beside them what changed of tuning, queues, sources and pins.

The events of a task's history in words, repeats folded.
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
from broker.decisions.answers.phrases import number
from broker.domain.decisions import StoredDecision
from broker.domain.instants import length
from broker.domain.rejection_counts import rejection_counts, unified_of
from broker.feeds.statements.feed_runs import KeptChange, changes_of_queue
from broker.feeds.statements.queue_pins import Pin, pins_of_queue
from broker.history.answers.job import failures_of
from broker.history.answers.stored_states import main_code
from broker.history.model.story import Event, story
from broker.history.statements.history_reads import read_record
from broker.history.statements.task_facts import TaskSelection, read_task_facts
from broker.retries.answers.retries import RetryActionLine, actions_of
from broker.store.decisions.decision_rows import WITHOUT_WORK, by_id
from broker.store.query_context import Answer, Asking, NothingFound

#: Decisions that are looked into, and queues whose changes are read: the newest, and those gained or lost last.
MOST_DECISIONS, MOST_QUEUES, MOST_CHANGES = 300, 40, 50
#: Fields of queues whose changes count; measured ones change all the time.
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


class HistoryEvent(Answer):
    """Something that happened to the task or beside it.

    Attributes:
        at: when, or since when.
        until: of folded decisions the instant of the last; None of what has no length.
        event: ``decision``, ``tuning``, ``status``, ``job_action``, ``rebrokered_from``, ``queue``, ``pin``,
            ``source`` or ``retry_rule``.
        about: what is known of it, by the kind of event.
    """

    at: datetime
    until: datetime | None
    event: str
    about: dict[str, Any]


class History(Answer):
    """The history of a task, oldest first."""

    now: datetime
    jeditaskid: int
    events: tuple[HistoryEvent, ...]


@dataclass(frozen=True)
class Beside:
    """What happened beside the decisions, as it is read: changes and pins of the queues that came and went."""

    changes: Mapping[str, Sequence[KeptChange]]
    pins: Mapping[str, Sequence[Pin]]


def history(asking: Asking, jeditaskid: int, since: datetime | None = None) -> History:
    """What is on record about a task.

    Raises:
        NothingFound: nothing is.
    """
    events = story(read_record(asking.connection, asking.names, jeditaskid, since))
    if not events:
        facts = read_task_facts(asking.connection, asking.catalogue, TaskSelection(tasks=[jeditaskid]))
        if since is not None:
            remedy = "take a longer --last"
            raise NothingFound(
                "record of task", jeditaskid, f"since {since.isoformat(timespec='seconds')}", remedy=remedy
            )
        raise no_decision(jeditaskid, bool(facts), None)
    read = _decisions(asking, events)
    folded = [_with_failures(asking, _with_rules(event, read)) for event in events]
    queues = _queues(folded)
    beside = Beside(
        {name: changes_of_queue(asking.connection, name, MOST_CHANGES) for name in queues},
        {name: pins_of_queue(asking.connection, name, MOST_CHANGES) for name in queues},
    )
    start = datetime.fromisoformat(events[0]["at"])
    retried = retry_events(actions_of(asking, task=jeditaskid, since=since))
    more = [*beside_events(beside, start, asking.now), *source_events(folded, read), *retried]
    every = sorted([*map(_event, folded), *more], key=lambda event: event.at)
    return History(now=asking.now, jeditaskid=jeditaskid, events=tuple(every))


def _decisions(asking: Asking, events: Iterable[Event]) -> dict[int, StoredDecision]:
    """The first and the last decision of each folded event."""
    decided = [event for event in events if event["event"] == "decision"]
    wanted = sorted({number for event in decided for number in event["decisions"]}, reverse=True)[:MOST_DECISIONS]
    if not wanted:
        return {}
    first = min(datetime.fromisoformat(event["at"]) for event in decided)
    last = max(datetime.fromisoformat(event["until"]) for event in decided)
    return {one.id: one for one in by_id(asking.connection, wanted, first, last, WITHOUT_WORK)}


def _with_rules(event: Event, read: Mapping[int, StoredDecision]) -> Event:
    """A decision with the main reason, and the rule that took or released each queue. Pure."""
    if event["event"] != "decision":
        return event
    first = read.get(event["decisions"][0])
    if first is None:
        return {**event, "main_code": event["reason"] or None, "taken_by": {}, "released_by": {}}
    decision = first.record.decision
    # candidates are counted where the code is that of the rule that rejected most, as that takes long
    is_by_rule = decision.outcome != "brokered" and decision.reason in NO_CANDIDATES
    counts = counts_of(decision) if is_by_rule else rejection_counts({}, (), ())
    code = main_code(decision.outcome, decision.reason, counts)
    changed = event["changed"] or {"lost": [], "gained": []}
    taken = {name: decision.rejected[name] for name in changed["lost"] if name in decision.rejected}
    before = [one for number, one in read.items() if number < first.id and _same_chunk(one, first)]
    earlier = max(before, key=lambda one: one.id, default=None)
    rejected = {} if earlier is None else earlier.record.decision.rejected
    released = {name: rejected[name] for name in changed["gained"] if name in rejected}
    return {**event, "main_code": code, "taken_by": taken, "released_by": released}


def _with_failures(asking: Asking, event: Event) -> Event:
    """Jobs that failed with how many did by which code."""
    if event["event"] != "job_action":
        return event
    about = {name: value for name, value in event.items() if name != "pandaids"}
    return {**about, "failures": failures_of(asking, event["pandaids"]) if event["pandaids"] else {}}


def _same_chunk(one: StoredDecision, other: StoredDecision) -> bool:
    a, b = one.record.decision, other.record.decision
    return (a.brokerage, a.datasetid, a.ramcount) == (b.brokerage, b.datasetid, b.ramcount)


def _queues(events: Iterable[Event]) -> list[str]:
    """The queues that the task gained or lost, the last of them first."""
    names: dict[str, None] = {}
    for event in reversed([one for one in events if one["event"] == "decision" and one["changed"]]):
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


def beside_events(beside: Beside, start: datetime, now: datetime) -> Iterator[HistoryEvent]:
    """Changes and pins of queues from ``start`` to ``now`` (aware). Pure."""
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
    """When sources became unusable for the decisions, and usable again; of folded ones the first and the last. Pure."""
    seen = [decision for event in events if event["event"] == "decision" for decision in event["decisions"]]
    unusable: set[str] = set()
    for decision in dict.fromkeys(seen):
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
    """What retry rules did, the jobs of one instant to which one did the same as one event. Pure."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for one in actions:
        alike[one.acted_at, one.rule, one.action, one.active, one.target, one.reason].append(one.pandaid)
    for (at, rule, action, active, target, reason), jobs in alike.items():
        about = {"rule": rule, "action": action, "active": active, "target": target, "reason": reason}
        about |= {"jobs": len(jobs), "first_pandaid": jobs[0]}
        yield HistoryEvent(at=at, until=None, event="retry_rule", about=about)


About = Mapping[str, Any]
SHOWN_QUEUES = 6


def event_sentence(event: HistoryEvent) -> str:
    """One event; of folded decisions how often, as in ``pending lowmemory x 14, 05:21 to 12:20``."""
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
        words += _moved("lost", changed["lost"], about.get("taken_by", {}), "to")
        words += _moved("gained", changed["gained"], about.get("released_by", {}), "from")
    first, last = about["decisions"]
    words.append(f"decision {first}" if first == last else f"decisions {first} to {last}")
    return "; ".join(words)


def _moved(word: str, names: list[str], rules: Mapping[str, str], preposition: str) -> list[str]:
    """``lost DESY-HH/MCORE, BNL/MCORE to link_unusable``: the queues of one rule together."""
    by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_rule[rules.get(name, "")].append(name)
    found = []
    for code, some in by_rule.items():
        more = f" and {len(some) - SHOWN_QUEUES} more" if len(some) > SHOWN_QUEUES else ""
        found.append(f"{word} {', '.join(some[:SHOWN_QUEUES])}{more}{f' {preposition} {code}' if code else ''}")
    return found


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
    said = f"{about['agent']}: {number(about['jobs'])} jobs{where} {about['action']} by {about['rule']}{limit}"
    return f"{said}: {failures}" if failures else said


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
