"""Compare a replayed decision with the stored one: identical to the byte, or the differences.

The canonical forms are compared: the object of the command line's contract with the notes of the decision, as JSON with
sorted names and numbers of full precision. The outcome of writing a decision (a task or file changed meanwhile) is not
part of deciding and is taken from the stored one. Rules that rejected nothing are not compared: funnels of older
versions list them, and a rule added later must not make older decisions differ.

Stored cycles are replayed with their rules from the configuration, snapshot and tuning.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from broker import __version__
from broker.brokerages.base import ReplayedDecision, Rules, StoredBatch, TuningOf
from broker.brokerages.registry import AnyBrokerage, brokerage, decode_batches, replay_decisions
from broker.brokerages.replayed_columns import decision_object
from broker.codec.work_codec import WorkCorruptError
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.domain.decisions import (
    FILES_CHANGED,
    TASK_CHANGED,
    Decision,
    DecisionRecord,
    Origin,
    StoredDecision,
    redecided,
)
from broker.errors import BrokerError, NotFound, Refused
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.snapshot.snapshot import Snapshot
from broker.store.decisions.stored_cycles import StoredCycle, cycles_of, whole as cycles_are_whole
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.scenario_file import read_document
from broker.store.snapshots.snapshot_file import from_document
from broker.store.snapshots.stored_snapshots import encoded_snapshot, header, stored_snapshot


@dataclass(frozen=True)
class Difference:
    """One field that differs; None if one side lacks it."""

    field: str
    stored: Any
    again: Any


@dataclass(frozen=True)
class ReplayResult:
    """The result of deciding again.

    Attributes:
        stored: the stored decision.
        differences: none if the two are identical to the byte.
        fault: why it could not be decided again; empty if it could.
    """

    stored: StoredDecision
    differences: tuple[Difference, ...] = ()
    fault: str = ""

    @property
    def identical(self) -> bool:
        """Whether the replayed decision equals the stored one."""
        return not self.differences and not self.fault


def compare(stored: StoredDecision, again: ReplayedDecision) -> ReplayResult:
    """Compare the stored decision with the replayed one."""
    origin = stored.origin
    before, after = _form(origin, stored.record), _form(origin, _as_written(stored, again))
    if _bytes(before) == _bytes(after):
        return ReplayResult(stored)
    differences = tuple(_differences("", _by_name(before), _by_name(after)))
    return ReplayResult(stored, differences or (Difference("the whole", before, after),))


def replay(
    decisions: Sequence[StoredDecision],
    snapshot: Snapshot,
    tuning_of: TuningOf,
    rules: Rules,
    *,
    whole: bool = True,
) -> list[ReplayResult]:
    """Replay the stored decisions of one cycle and compare; a decision that cannot be replayed carries the reason.

    Args:
        decisions: the decisions in the order in which they were made.
        snapshot: the grid for which they were made.
        tuning_of: the tuning in force at the time.
        rules: the rules of the brokerage.
        whole: whether these are all decisions of their cycle, so that the jobs they place must add up to the stored
            load before each.

    Returns:
        The differences of each decision, given the stored load before it. If there are none, but the jobs of the cycle
        do not add up, the differences in the load before each decision.
    """
    faults = _faults(decisions)
    readable = [one for one in decisions if one.id not in faults]
    results = {one.id: ReplayResult(one, fault=faults[one.id]) for one in decisions if one.id in faults}
    try:
        again = _replay(readable, snapshot, tuning_of, rules, whole and not faults) if readable else []
    except WorkCorruptError as error:
        again = [ReplayResult(one, fault=str(error)) for one in readable]
    results |= {one.stored.id: one for one in again}
    return [results[one.id] for one in decisions]


def _faults(decisions: Sequence[StoredDecision]) -> dict[int, str]:
    """The reason for each decision whose work cannot be read."""
    without = {one.id: "it was stored without its work" for one in decisions if one.record.work is None}
    stored = [one for one in decisions if one.record.work is not None]
    if not _fault(stored):  # the usual case; each one is checked only if something is damaged
        return without
    return without | {one.id: fault for one in stored if (fault := _fault([one]))}


def _fault(decisions: Sequence[StoredDecision]) -> str:
    try:
        for batch in _batches(decisions):
            batch.check()
    except WorkCorruptError as error:
        return str(error)
    return ""


def _batches(decisions: Sequence[StoredDecision]) -> tuple[StoredBatch, ...]:
    older = any(one.origin.engine != __version__ for one in decisions)
    return decode_batches(_brokerage(decisions), [one.record.work or b"" for one in decisions], older=older)


def _brokerage(decisions: Sequence[StoredDecision]) -> AnyBrokerage:
    return brokerage(decisions[0].record.decision.brokerage)


def _replay(
    decisions: Sequence[StoredDecision], snapshot: Snapshot, tuning_of: TuningOf, rules: Rules, whole: bool
) -> list[ReplayResult]:
    batches, kind = _batches(decisions), _brokerage(decisions)
    seed, stored_before = decisions[0].origin.seed, [dict(one) for batch in batches for one in batch.load_before]
    placed_before = stored_before
    if whole:
        within = replay_decisions(kind, snapshot, tuning_of, batches, seed, rules)
        placed_before = [dict(one.before) for one in within]
        results = [compare(one, again) for one, again in zip(decisions, within, strict=True)]
        if placed_before == stored_before and all(one.identical for one in results):
            return results
    alone = replay_decisions(kind, snapshot, tuning_of, batches, seed, rules, as_stored=True)
    own = [compare(one, again) for one, again in zip(decisions, alone, strict=True)]
    if not all(one.identical for one in own):
        return own
    return [
        dataclasses.replace(one, differences=tuple(_differences("placed_before", before, after)))
        for one, before, after in zip(own, stored_before, placed_before, strict=True)
    ]


def _as_written(stored: StoredDecision, again: ReplayedDecision) -> DecisionRecord:
    """The new decision with the outcome of writing the stored one."""
    record, decision = stored.record, again.decision
    if record.decision.outcome == "skipped" and record.decision.reason in (TASK_CHANGED, FILES_CHANGED):
        late = dataclasses.replace(decision, outcome="skipped", reason=record.decision.reason)
        return DecisionRecord(late, record.assigned, record.pending_until)
    assigned = record.assigned if again.assigned is None or _fewer(record, again.assigned) else again.assigned
    waits_until = brokerage(decision.brokerage).waits_until(decision, stored.origin.decided_at)
    # where a profile decides its work again each cycle, waiting decisions have no instant
    each_cycle = redecided(record.decision.outcome, record.pending_until) == "each_cycle"
    return DecisionRecord(decision, assigned, None if each_cycle else waits_until)


def _fewer(record: DecisionRecord, assigned: Mapping[str, int]) -> bool:
    """Whether exactly those jobs are missing that the stored decision reports as not written."""
    missing = Counter(assigned)
    missing.subtract(record.assigned)
    return min(missing.values(), default=0) >= 0 and sum(missing.values()) == _not_written(record.decision) > 0


def _not_written(decision: Decision) -> int:
    parts = (note.partition(":") for note in decision.notes)
    return sum(int(count) for name, _, count in parts if name == FILES_CHANGED and count.isdecimal())


def _form(origin: Origin, record: DecisionRecord) -> dict[str, Any]:
    decision = record.decision
    output = decision_object(origin, record)
    output["candidates"] = [
        {
            "name": one.name,
            "weight": _number(one.weight),
            "factors": {name: _number(factor) for name, factor in one.factors.items()},
            "bootstrap": one.bootstrap,
        }
        for one in decision.candidates
    ]
    output["funnel"] = [step for step in output["funnel"] if step[1] != step[2]]
    output["notes"] = [note for note in decision.notes if not note.startswith(f"{FILES_CHANGED}:")]
    return output


def _number(value: float) -> float:
    # the database gives 1e22 back as a whole number, and -0.0 as 0
    return float(value) + 0.0


def _bytes(form: dict[str, Any]) -> bytes:
    return json.dumps(form, sort_keys=True, separators=(",", ":")).encode()


def _by_name(form: dict[str, Any]) -> dict[str, Any]:
    """The form with lists of named items as objects, so that an added or missing item does not shift the others."""
    output = dict(form)
    output["order"] = [one["name"] for one in form["candidates"]]
    output["candidates"] = {one["name"]: {**one, "name": one["name"]} for one in form["candidates"]}
    if len({step[0] for step in form["funnel"]}) == len(form["funnel"]):
        output["funnel"] = {code: [before, after] for code, before, after in form["funnel"]}
    return output


def _differences(field: str, stored: Any, again: Any) -> Iterator[Difference]:
    if isinstance(stored, dict) and isinstance(again, dict):
        for name in sorted(stored.keys() | again.keys()):
            inner = f"{field}.{name}" if field else str(name)
            yield from _differences(inner, stored.get(name), again.get(name))
    elif stored != again or type(stored) is not type(again):
        yield Difference(field, stored, again)


@dataclass
class Replayer:
    """Replays stored cycles and compares the decisions.

    Attributes:
        connection: connection to the database that holds them.
        store: its versions of the tuning.
        warn: receives warnings for the operator about the stored cycles.
        config: folder with the operator's own configuration files.
    """

    connection: sa.Connection
    store: TuningStore
    warn: Callable[[str], None]
    config: Path | None = None
    _rules: dict[str, Rules] = field(default_factory=dict)
    _reported_engines: set[str] = field(default_factory=set)

    def replay(self, cycle: StoredCycle, *, whole: bool = True) -> list[ReplayResult]:
        """Compare each decision of the cycle with its replay; one that cannot be replayed carries the reason.

        Args:
            cycle: the decisions.
            whole: whether these are all decisions of the cycle, so that the jobs they place must add up, too.
        """
        origin = cycle.origin
        if cycle.brokerage not in self._rules:
            self._rules[cycle.brokerage] = rules_in_force(cycle.brokerage, self.config)
        try:
            if origin.snapshot is None:
                raise BrokerError("it was stored without a snapshot", "broker.decisions")
            snapshot = stored_snapshot(self.connection, origin.snapshot)
            self._report_columns(origin.snapshot)
            tuning_of = self.store.version(self.connection, origin.tuning).tuning
        except BrokerError as error:
            return [ReplayResult(one, fault=str(error)) for one in cycle.decisions]
        return replay(cycle.decisions, snapshot, tuning_of, self._rules[cycle.brokerage], whole=whole)

    def _report_columns(self, identifier: str) -> None:
        """Warn once for each other version which columns of its snapshots count as NULL."""
        engine = header(self.connection, identifier).engine
        if engine == __version__ or engine in self._reported_engines:
            return
        self._reported_engines.add(engine)
        missing = encoded_snapshot(self.connection, identifier).columns_not_stored()
        if missing:
            self.warn(f"columns that snapshots of version {engine} do not have count as NULL: {', '.join(missing)}")


HOW = "write one with: broker snapshot export --decisions FILE"


class NotASnapshotFile(Refused):
    """The file holds no snapshot."""


class NothingDecidedInFile(NotFound):
    """The snapshot file holds no decisions."""


def replayed_file(path: Path, config: Path | None = None, *, whole: bool = True) -> Iterator[list[ReplayResult]]:
    """Compare the decisions of a snapshot file with their replays, cycle by cycle.

    Args:
        path: path of the file.
        config: folder with the operator's own configuration files.
        whole: whether the jobs that a cycle places must add up; otherwise each decision is replayed by itself.

    Raises:
        BadScenario: the file cannot be read.
        BadSnapshotFile: the file is not a snapshot file, or is damaged.
        NothingDecidedInFile: it holds no decisions.
    """
    document = read_document(path)
    if not isinstance(document, dict):
        raise NotASnapshotFile("it is no snapshot", str(path), HOW)
    file = from_document(document, shipped_catalogue(), str(path))
    if not file.decisions:
        raise NothingDecidedInFile("it holds no decisions", str(path), HOW)
    snapshot = file.snapshot.build()
    cycles = cycles_of(file.decisions)
    for cycle, is_whole in zip(cycles, cycles_are_whole(cycles), strict=True):
        tuning = (file.tunings or {}).get(cycle.origin.tuning)
        if tuning is None:
            fault = f"the file has no version {cycle.origin.tuning} of the tuning"
            yield [ReplayResult(one, fault=fault) for one in cycle.decisions]
        else:
            rules = rules_in_force(cycle.brokerage, config)
            yield replay(cycle.decisions, snapshot, tuning.tuning, rules, whole=whole and is_whole)
