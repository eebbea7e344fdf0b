"""What would help work that no queue takes: near misses, and single changes with which it would have a candidate.

The engine evaluates a stored decision again with one change at a time (:func:`evaluated_case`). :func:`lowered` finds
how far one figure of the task must go down until a queue remains.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from broker import __version__
from broker.brokerages.base import Brokerage
from broker.brokerages.job.brokerage import StoredChunks
from broker.brokerages.registry import brokerage as brokerage_of
from broker.codec.work_codec import WorkCorruptError, unpacked
from broker.decisions.answers.decision_model import RejectedCandidate, Remedies, Remedy, rejected_candidate
from broker.decisions.answers.known_reasons import codes_of_step
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.decisions.answers.stored_chunks import StoredBatch
from broker.domain.decisions import REQUESTS, Decision, Request, StoredDecision, is_late
from broker.domain.rejection_counts import Counts, unified_of
from broker.engine.job.placement import Placement
from broker.engine.shared.answer import CandidateVerdict, RuleVerdict
from broker.engine.shared.rank import LOW_WEIGHT, OTHERS_BOOTSTRAP
from broker.gdpconfig.catalogue import UnknownKeyError, Value, ValueRefusedError
from broker.grid.answers.grid import snapshot_of
from broker.grid.answers.misses_at_queue import with_field
from broker.rules.contract import Filter, GroupFilter, LoadCut, Rule
from broker.store.gdpconfig_rows import TuningStore
from broker.store.query_context import Evaluation, Proceed, QueryContext, proceed
from broker.store.snapshots.stored_snapshots import SnapshotLostError

#: Number of times the interval is halved: the figure is found to a hundredth of the request.
HALVINGS = 7
SIGNIFICANT = 2


@dataclass(frozen=True)
class TaskChange:
    """One figure of a stored chunk, original or lowered."""

    request: Request
    name: str
    value: float
    unit: str
    batch: StoredChunks

    def at(self, value: float) -> TaskChange:
        """The change with another value."""
        work = self.batch.stored.work
        columns = {name: np.full(len(work.chunks), value) for name in self.request.columns}
        chunks = dataclasses.replace(work.chunks, **columns)
        stored = dataclasses.replace(self.batch.stored, work=dataclasses.replace(work, chunks=chunks))
        return dataclasses.replace(self, value=value, batch=dataclasses.replace(self.batch, stored=stored))


def task_changes(batch: Any, compared: Collection[Request]) -> Iterator[TaskChange]:
    """The figures of a single stored chunk that rules have ``compared``; nothing for other kinds of work."""
    if not isinstance(batch, StoredChunks):
        return
    chunks = batch.stored.work.chunks
    for request in REQUESTS:
        if request not in compared:
            continue
        value = max(float(np.nan_to_num(getattr(chunks, name)[0])) for name in request.columns)
        if value > 0:
            unit = getattr(chunks, request.unit)[0] if hasattr(chunks, request.unit) else request.unit
            yield TaskChange(request, request.name, value, str(unit or "-"), batch)


def lowered(change: TaskChange, passing: Callable[[TaskChange], list[str]]) -> tuple[float, list[str]] | None:
    """The largest round value at which candidates remain, with their names; None if none remain even near 0."""
    low, high = 0.0, change.value
    if not passing(change.at(change.value / 2**HALVINGS)):
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if passing(change.at(middle)) else (low, middle)
    value = _rounded_down(low)
    names = passing(change.at(value))
    return (value, names) if names else None


def _rounded_down(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - SIGNIFICANT + 1) if value > 0 else 1.0
    return math.floor(value / step) * step


SHOWN_MISSES = 5
SUCH_AS = 4
#: A key is also tried at its value times and divided by this factor.
FAR = 10.0
#: Most candidates for which the observations of the rules are looked up.
MOST_OBSERVED = 200


@dataclass(frozen=True)
class EvaluationResult:
    """The result of evaluating a decision again."""

    near_misses: tuple[RejectedCandidate, ...]
    remedies: Remedies


@dataclass(frozen=True)
class Case(StoredBatch[Brokerage[Any, Any], Any]):
    """A stored decision that can be evaluated again; each change is a copy with one part replaced."""

    decision: Decision

    def answers(self, names: Collection[str]) -> list[CandidateVerdict]:
        """The engine's answers about these candidates."""
        answers = self.brokerage.why_not_each(
            self.snapshot, self.tuning, self.batch, self.rules, self.decision, frozenset(names)
        )
        return [answer for answer in answers if answer.is_known]

    def every_rule(self, name: str) -> list[RuleVerdict]:
        """The verdict of every filter about a candidate, in order."""
        return self.brokerage.every_rule(self.snapshot, self.tuning, self.batch, self.rules, name)

    def passing(self) -> list[str]:
        """The candidates that pass all filters: those chosen, and those merely outweighed."""
        decided = self.brokerage.decide_again(self.snapshot, self.tuning, self.batch, self.rules)
        passed = {LOW_WEIGHT, OTHERS_BOOTSTRAP, *codes_of_step(Placement.name)}
        outweighed = [name for name, code in decided.rejected.items() if code in passed]
        chosen = [one.name for one in decided.candidates] if decided.outcome == "brokered" else []
        names = set(self.brokerage.candidates(self.snapshot).tolist())
        return [name for name in (*chosen, *outweighed) if name in names] if chosen else []

    def without(self, rule: str) -> Case:
        """The case without one rule."""
        chain = self.rules.chain
        lists: dict[str, Any] = {
            name: tuple(one for one in getattr(chain, name) if one.name != rule) for name in chain.kinds
        }
        return dataclasses.replace(
            self, rules=dataclasses.replace(self.rules, chain=dataclasses.replace(chain, **lists))
        )

    def with_key(self, key: str, value: Value) -> Case:
        """The case with one gdpconfig key at another value."""
        return dataclasses.replace(self, tuning=self.tuning.with_values({key: value}))


def evaluation(query: QueryContext, stored: StoredDecision) -> Evaluation[EvaluationResult]:
    """Near misses and remedies of a decision that placed nothing: read here, evaluated by the returned callable."""
    decision, origin = stored.record.decision, stored.origin
    if is_late(decision.outcome):
        return _not_evaluated("came_too_late")
    if decision.reason in codes_of_step(Placement.name):
        # what other chunks of the cycle take cannot be seen from this chunk alone
        return _not_evaluated("placed_together")
    if decision.outcome == "throttled" or stored.record.work is None or origin.snapshot is None:
        why = "throttled" if decision.outcome == "throttled" else "stored_without_work"
        return _not_evaluated(why)
    try:
        case = case_of(query, stored)
    except (SnapshotLostError, WorkCorruptError) as error:
        return _not_evaluated(str(error))
    return lambda go_on: evaluated_case(case, go_on)


def _not_evaluated(why: str) -> Evaluation[EvaluationResult]:
    return lambda go_on: EvaluationResult((), Remedies(evaluated=False, why_not=why))


def case_of(query: QueryContext, stored: StoredDecision) -> Case:
    """Prepare a stored decision to be evaluated again.

    Raises:
        SnapshotLostError: its snapshot no longer exists.
        WorkCorruptError: its work cannot be read.
    """
    decision, origin = stored.record.decision, stored.origin
    assert stored.record.work is not None and origin.snapshot is not None  # noqa: S101 - the caller has asked
    snapshot = snapshot_of(query.connection, origin.snapshot)
    published = TuningStore(query.names).version(query.connection, origin.tuning)
    brokerage = brokerage_of(decision.brokerage)
    batch = brokerage.batch(unpacked(stored.record.work), older=origin.engine != __version__)
    rules = rules_in_force(decision.brokerage, query.config)
    return Case(brokerage, snapshot, published.tuning(batch.vo), batch, rules, decision)


def evaluated_case(case: Case, proceed: Proceed = proceed) -> EvaluationResult:
    """Find near misses, and every single change that would give the work a candidate. Pure."""
    search = _Search(case, proceed)
    by_rule = list(search.by_rule())
    search.observe()
    near = near_misses(search.answers, search.only_reason)
    helpful = [*search.by_key(), *search.by_task(), *search.by_queue(near), *by_rule]
    in_the_tuning = any(remedy.kind == "key" for remedy in helpful)
    remedies = Remedies(evaluated=True, tried=search.tried, in_the_tuning=in_the_tuning, helpful=tuple(helpful))
    return EvaluationResult(near, remedies)


def near_misses(answers: Sequence[CandidateVerdict], only_reason: frozenset[str]) -> tuple[RejectedCandidate, ...]:
    """The nearest candidates: those that one rule alone rejects come first, then by gap to the limit.

    The nearest pseudo-queue of a queue stands for all of them.
    """
    candidates = [
        rejected_candidate(one) for one in answers if one.observation is not None and one.rule != "candidates"
    ]
    candidates.sort(
        key=lambda one: (one.name not in only_reason, one.gap_percent is None, one.gap_percent or 0.0, one.name)
    )
    nearest: dict[str, RejectedCandidate] = {}
    for one in candidates:
        nearest.setdefault(unified_of(one.name), one)
    return tuple(nearest.values())[:SHOWN_MISSES]


class _Search:
    """Changes one thing at a time and evaluates; counts the evaluations."""

    def __init__(self, case: Case, proceed: Proceed) -> None:
        self._case, self._proceed = case, proceed
        self.answers: list[CandidateVerdict] = []
        self.tried = 0
        self.only_reason: frozenset[str] = frozenset()
        self._codes = set(case.decision.rejected.values())
        filters = (Filter, GroupFilter, LoadCut)
        self._rules: list[Rule] = [
            rule
            for rule in case.rules.chain
            if isinstance(rule, filters) and not self._codes.isdisjoint((rule.code, f"unknown_{rule.name}"))
        ]

    def observe(self) -> None:
        """Collect what the rules saw of candidates rejected by one rule alone; without any, of some rejected ones."""
        names = self.only_reason or self._case.decision.rejected
        self.answers = self._case.answers(sorted(names)[:MOST_OBSERVED])

    def by_rule(self) -> Iterator[Remedy]:
        """Yield the rules that reject a candidate and would help if switched off."""
        for rule in self._rules:
            names = self._passing(self._case.without(rule.name))
            self.only_reason |= frozenset(names)
            if names:
                yield self._remedy("rule", rule.name, names)

    def by_key(self) -> Iterator[Remedy]:
        """Yield the numeric keys and switches that these rules read, each at the nearest helpful value."""
        for key in dict.fromkeys(key for rule in self._rules for key in self._keys_of(rule)):
            for value in self._values_of(key):
                try:
                    changed = self._case.with_key(key, value)
                except (ValueRefusedError, UnknownKeyError):
                    continue
                names = self._passing(changed)
                if names:
                    unit = self._case.tuning.catalogue.require(key).unit
                    yield self._remedy("key", key, names, now=_figure(self._now(key)), to=_figure(value), unit=unit)
                    break

    def by_task(self) -> Iterator[Remedy]:
        """Yield the figures requested by the task and compared by these rules, each lowered as far as necessary."""
        for change in task_changes(self._case.batch, self._compared()):
            result = lowered(change, lambda variant: self._passing(self._with_task(variant)))
            if result is not None:
                value, names = result
                name, unit = f"task.{change.name}", change.unit
                yield self._remedy("task", name, names, now=change.value, to=value, unit=unit)

    def by_queue(self, near: Sequence[RejectedCandidate]) -> Iterator[Remedy]:
        """Yield the queue field of each near miss, at the value that the work needs."""
        for miss in near:
            seen = miss.compared
            if seen is None or not seen.key.startswith("queue."):
                continue
            snapshot = with_field(self._case.snapshot, miss.name, seen.key, seen)
            if snapshot is None:
                continue
            changed, value = snapshot
            names = self._passing(dataclasses.replace(self._case, snapshot=changed))
            if names:
                remedy = self._remedy("queue", seen.key, names, now=seen.limit, to=value, unit=seen.unit)
                yield remedy.model_copy(update={"where": miss.name})

    def _compared(self) -> frozenset[Request]:
        """The figures requested by the task that the rejecting rules compare."""
        rules = (rule for rule in self._rules if rule.code in self._codes)
        return frozenset(request for rule in rules for request in rule.reason.requests)

    def _with_task(self, change: TaskChange) -> Case:
        return dataclasses.replace(self._case, batch=change.batch)

    def _passing(self, case: Case) -> list[str]:
        self._proceed()
        self.tried += 1
        return case.passing()

    def _keys_of(self, rule: Rule) -> list[str]:
        seen = [one.observation.key for one in self.answers if one.rule == rule.name and one.observation is not None]
        seen_keys = [key for key in dict.fromkeys(seen) if self._is_key(key)]
        families = tuple(f"{key}_" for key in rule.keys)
        others = [
            key for key in rule.keys if self._is_key(key) and not any(one.startswith(f"{key}_") for one in seen_keys)
        ]
        return list(
            dict.fromkeys([*(key for key in seen_keys if key in rule.keys or key.startswith(families)), *others])
        )

    def _is_key(self, key: str) -> bool:
        try:
            entry = self._case.tuning.catalogue.require(key)
        except (UnknownKeyError, ValueRefusedError):
            return False
        return entry.type.is_numeric or entry.type.value == "bool"

    def _now(self, key: str) -> Value | None:
        if key in self._case.tuning.settings:
            return self._case.tuning.settings[key]
        return self._case.tuning.catalogue.require(key).default

    def _values_of(self, key: str) -> list[Value]:
        """Values to try, the nearest first: those seen at candidates, then much more and much less, then the bounds."""
        entry, now = self._case.tuning.catalogue.require(key), self._now(key)
        if isinstance(now, bool):
            return [not now]
        observed = [
            float(one.observation.value)
            for one in self.answers
            if one.observation is not None and one.observation.key == key and _is_number(one.observation.value)
        ]
        start = float(now) if _is_number(now) else 0.0
        near = sorted(set(observed), key=lambda value: abs(value - start))
        attempts = [*near[:1], *near[-1:], start * FAR, start / FAR, entry.minimum, entry.maximum]
        whole = entry.type.value == "int"
        values = [round(value) if whole else value for value in attempts if value is not None and value != start]
        return list(dict.fromkeys(values))

    def _remedy(self, kind: Any, name: str, names: Sequence[str], **stats: Any) -> Remedy:
        queues = list(dict.fromkeys(unified_of(one) for one in names))
        count = Counts(queues=len(queues), pseudo_queues=len(names))
        return Remedy(kind=kind, name=name, candidates=count, such_as=tuple(queues[:SUCH_AS]), **stats)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _figure(value: Value | None) -> float | int | str | bool | None:
    return value if isinstance(value, int | float | str | bool) else None
