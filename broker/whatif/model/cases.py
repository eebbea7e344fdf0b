"""A stored cycle in a form that can be sent to another process, and what a comparison changes in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from broker.brokerages.profile import Profile, ProfileError, build_chain, switched
from broker.domain.decisions import StoredOutcome
from broker.domain.queue_fields import PARAMETERS, READ_FIELDS, BadFieldValue, field_value
from broker.engine.shared.chain import RuleChain
from broker.errors import WRONG_USAGE, BrokerError, NotFound, Refused, did_you_mean
from broker.gdpconfig.proposals import Proposal
from broker.gdpconfig.publish import Published
from broker.rules.registry import RuleError
from broker.snapshot.raw import BadValueError, RawSource, Rows, SourceState, json_object
from broker.snapshot.sources.pins import PIN_COLUMNS, PINS, TABLE
from broker.snapshot.sources.queues import QUEUES


@dataclass(frozen=True)
class SnapshotParts:
    """A stored snapshot, still packed.

    Attributes:
        id: of the snapshot.
        taken_at: its instant, aware.
        parts: each source as its digest and encoded form, by name.
        states: the state of each source.
    """

    id: str
    taken_at: datetime
    parts: Mapping[str, tuple[str, bytes]] = field(repr=False)
    states: tuple[SourceState, ...] = field(repr=False)


@dataclass(frozen=True)
class Case:
    """One stored cycle of a brokerage.

    Attributes:
        id: unique to the cycle.
        brokerage: its name.
        decided_at: the instant for which it decided.
        engine: version of the broker that decided.
        seed: of all random draws.
        published: the tuning it used.
        snapshot: the grid it saw.
        decisions: in the order in which they were made.
    """

    id: str
    brokerage: str
    decided_at: datetime
    engine: str
    seed: int
    published: Published = field(repr=False)
    snapshot: SnapshotParts = field(repr=False)
    decisions: tuple[StoredOutcome, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The cycle in words."""
        return f"{self.brokerage} at {self.decided_at.isoformat()}"


@dataclass(frozen=True)
class ProfileRules:
    """The rules of all brokerages.

    Attributes:
        profile: names them.
        options: of each agent, by its name; only those that take part in decisions matter.
    """

    profile: Profile
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueField:
    """A new value for a field of a queue.

    Attributes:
        queue: its name; case does not matter.
        field: named as in CRIC.
        value: as CRIC would have it.
    """

    queue: str
    field: str
    value: str | int | float | bool

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.queue} {self.field}={self.value}"


@dataclass(frozen=True)
class Change:
    """Values, rules, and fields of queues to compare with those that were in force.

    Attributes:
        proposals: values that would be set, on top of those that the cycle used.
        rules: the rules that would judge.
        fields: of queues; they override the snapshot.
    """

    proposals: tuple[Proposal, ...]
    rules: ProfileRules
    fields: tuple[QueueField, ...] = ()


_SPAN = timedelta(days=1)


class NotAField(BrokerError):
    """The text does not name a field of a queue with a valid value."""

    exit_status = WRONG_USAGE


class NoSuchQueue(NotFound):
    """The snapshot has no queue of that name."""


def read_fields(queue: str, texts: Sequence[str]) -> tuple[QueueField, ...]:
    """Parse ``FIELD=VALUE`` texts about a queue.

    Raises:
        NotAField: a text is of another form, names no field, or has a value that the field does not take.
    """
    fields: dict[str, QueueField] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not field.strip():
            raise NotAField(f"not FIELD=VALUE: {text[:80]!r}", "--queue", "write it as maxrss=32000 or status=offline")
        if field in fields:
            raise NotAField(f"{field[:80]} is there twice", "--queue", "name it once")
        try:
            fields[field] = QueueField(queue, field, field_value(field, value, READ_FIELDS))
        except BadFieldValue as error:
            raise NotAField(str(error), f"{field[:80]}={value[:80]}", error.accepts) from error
    return tuple(fields.values())


def _values(
    change: QueueField,
    queue: str,
    sources: Mapping[str, RawSource],
    pins: Mapping[tuple[str, str], tuple[object, ...]],
) -> dict[str, object]:
    """The values of the CRIC fields that a change sets; a name in ``params`` is only part of a field."""
    if change.field not in PARAMETERS:
        return {change.field: change.value}
    data = _description(queue, sources)
    for name in ("params", "catchall"):
        if (queue, name) in pins:
            data[name] = json.loads(str(pins[queue, name][PIN_COLUMNS.index("value")]))
    params = data.get("params") if isinstance(data.get("params"), dict) else {}
    others = {name: value for name, value in dict(params or {}).items() if name != change.field}
    if change.value is not False:
        return {"params": {**others, change.field: change.value}}
    items = [item.strip() for item in str(data.get("catchall") or "").split(",")]
    return {
        "params": others,
        "catchall": ",".join(item for item in items if item and not item.startswith(change.field)),
    }


def _description(queue: str, sources: Mapping[str, RawSource]) -> dict[str, Any]:
    """CRIC's description of a queue; empty if it cannot be read, in which case the snapshot lacks the queue too."""
    for row in sources[QUEUES.name].rows("schedconfig_json").records():
        try:
            data = json_object(row["data"], "data")
        except BadValueError:
            continue
        if queue == (data.get("nickname") or row["panda_queue"]):
            return data
    return {}


def with_fields(
    sources: Mapping[str, RawSource], taken_at: datetime, known: Collection[str], fields: Sequence[QueueField]
) -> dict[str, RawSource]:
    """Sources of a snapshot with the fields pinned to the values.

    Args:
        sources: by name.
        taken_at: the instant of the snapshot (aware).
        known: names of its queues.
        fields: to pin.

    Raises:
        NoSuchQueue: the name of a queue matches none of ``known``.
    """
    by_folded = {name.casefold(): name for name in known}
    pins: dict[tuple[str, str], tuple[object, ...]] = {}
    pin_source = sources.get(PINS.name, RawSource(PINS.name, {}))
    for row in pin_source.rows("queue_pins").records():
        pins[str(row["queue"]), str(row["field"])] = tuple(row[name] for name in PIN_COLUMNS)
    for change in fields:
        queue = change.queue if change.queue in known else by_folded.get(change.queue.casefold())
        if queue is None:
            remedy = did_you_mean(change.queue, known, "broker queues lists all")
            raise NoSuchQueue(f"there is no queue {change.queue[:80]}", "broker.snapshots", remedy)
        for name, value in _values(change, queue, sources, pins).items():
            details = json.dumps(value), "what-if", "what-if", taken_at - _SPAN, taken_at + _SPAN
            pins[queue, name] = queue, name, *details
    new_source = RawSource(PINS.name, {TABLE: Rows(PIN_COLUMNS, tuple(pins.values()))}, pin_source.newest)
    return {**sources, PINS.name: new_source}


_STATES = {"on": True, "off": False}


class UnknownRule(NotFound):
    """No brokerage has a rule of that name, and no installed package offers one."""


class NotASwitch(BrokerError):
    """The text is not of the form ``NAME=on|off``."""

    exit_status = WRONG_USAGE


@dataclass(frozen=True)
class Switch:
    """One rule, by its name or its code, and whether it takes part."""

    rule: str
    on: bool

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.rule}={'on' if self.on else 'off'}"


def read_switches(texts: Iterable[str]) -> tuple[Switch, ...]:
    """Parse ``NAME=on|off`` texts.

    Raises:
        NotASwitch: a text is of another form.
        Refused: a rule is named twice.
    """
    switches: dict[str, Switch] = {}
    for text in texts:
        name, _, state = text.partition("=")
        if not name.strip() or state.strip().lower() not in _STATES:
            raise NotASwitch(f"{text[:60]!r} is not of the form NAME=on or NAME=off", "", "see broker rules for names")
        switch = Switch(name.strip(), _STATES[state.strip().lower()])
        if switch.rule in switches:
            raise Refused(f"{switches[switch.rule]} and {switch} contradict each other", "", f"name {switch.rule} once")
        switches[switch.rule] = switch
    return tuple(switches.values())


def with_switches(profile: Profile, switches: Iterable[Switch]) -> Profile:
    """The profile with rules switched, in every brokerage that has them; a code stands for all rules that give it.

    Raises:
        UnknownRule: no brokerage has such a rule; the message lists similar names.
    """
    by_code = _names_by_code(profile)
    states: dict[str, bool] = {}
    for switch in switches:
        names = by_code.get(switch.rule, {switch.rule})
        states.update(dict.fromkeys(sorted(names), switch.on))
    try:
        return switched(profile, states)
    except (ProfileError, RuleError) as error:
        raise UnknownRule(str(error), "--rule", "broker rules BROKERAGE lists them") from error


def _names_by_code(profile: Profile) -> dict[str, set[str]]:
    """The names of the rules that give each code, except codes that are rule names themselves."""
    entries = (entry.model_copy(update={"without": ()}) for entry in profile.brokerages)
    rules = [rule for entry in entries for rule in build_chain(entry, RuleChain)]
    names = {rule.name for rule in rules}
    names_by_code: dict[str, set[str]] = {}
    for rule in rules:
        if rule.code not in names:
            names_by_code.setdefault(rule.code, set()).add(rule.name)
    return names_by_code
