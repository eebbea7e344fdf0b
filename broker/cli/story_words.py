"""The events of a story in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker.store.story import Event


def sentences(events: Iterable[Event]) -> Iterator[tuple[str, str, str, str]]:
    """Each event for people: from when, until when, what, and in words."""
    for event in events:
        at, kind = str(event["at"]), str(event["event"])
        until = str(event.get("until", at))
        yield at, "" if until == at else until, kind, _WORDS[kind](event)


def _decision_words(event: Event) -> str:
    chunk = "" if event["datasetid"] is None else f" dataset {event['datasetid']}, ramcount {event['ramcount'] or 0:g}:"
    told = [f"{event['brokerage']}{chunk} {event['outcome']} {event['reason']}".strip()]
    if event["times"] > 1:
        told.append(f"{event['times']} times")
    if event["assigned"]:
        told.append(", ".join(f"{name} {jobs}" for name, jobs in event["assigned"].items()))
    changed = event["changed"]
    if changed is not None:
        if (changed["was_outcome"], changed["was_reason"]) != (event["outcome"], event["reason"]):
            told.append(f"was {changed['was_outcome']} {changed['was_reason']}".strip())
        told += [f"{word} {', '.join(changed[word])}" for word in ("gained", "lost") if changed[word]]
    first, last = event["decisions"]
    told.append(f"decision {first}" if first == last else f"decisions {first} to {last}")
    return "; ".join(told)


def _tuning_words(event: Event) -> str:
    if event["version"] < 0:
        return f"a canary tries values on the task (version {event['version']})"
    if event["was"] is None:
        return f"version {event['version']} is in force"
    changes = [_change_words(item) for item in event["changes"]]
    return "; ".join((f"version {event['version']} after {event['was']}", *changes))


def _change_words(item: Event) -> str:
    scope = f" of {item['vo']}" if item["vo"] else ""
    return f"{item['key']}{scope}: {item['old']} -> {item['new']} ({item['editor']}: {item['reason']})"


def _action_words(event: Event) -> str:
    limit = "" if event["limit_s"] is None else f", {event['value_s'] or 0:.0f} s over {event['limit_s']:.0f} s"
    where = "" if event["queue"] is None else f" at {event['queue']}"
    return f"{event['agent']}: {event['jobs']} jobs{where} {event['action']} by {event['rule']}{limit}"


def _status_words(event: Event) -> str:
    return " ".join(filter(None, (event["status"], event["reason"])))


def _left_words(event: Event) -> str:
    return f"dataset {event['datasetid']}: no jobs for {event['queue']} for a while"


_WORDS: dict[str, Callable[[Event], str]] = {
    "decision": _decision_words,
    "tuning": _tuning_words,
    "status": _status_words,
    "job_action": _action_words,
    "rebrokered_from": _left_words,
}
