"""The events of a task's history in words, repeats folded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from broker.decisions.answers.phrases import number, seconds
from broker.history.answers.history import HistoryEvent

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
    limit = "" if about["limit_s"] is None else f", {seconds(about['value_s'] or 0)} over {seconds(about['limit_s'])}"
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


_WORDS: Mapping[str, Callable[[About], str]] = {
    "decision": _decision,
    "tuning": _tuning,
    "status": _status,
    "job_action": _action,
    "rebrokered_from": _left,
    "queue": _queue,
    "pin": _pin,
    "source": _source,
}
