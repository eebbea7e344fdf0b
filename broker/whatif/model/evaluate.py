"""A stored cycle decided again, once as it was and once for each change. Pure, and the same on every machine.

On both sides each decision counts what the cycle itself has placed before it, as in a real cycle. If this version of
the engine decided the cycle, the side before has the stored jobs; else both sides are decided by today's rules alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from broker import __version__
from broker.brokerages.base import ReplayedDecision, Rules, StoredBatch
from broker.brokerages.job.assign_compiled import compiled_cycle
from broker.brokerages.job.brokerage import StoredChunks
from broker.brokerages.profile import Profile, ProfileError, rules_of
from broker.brokerages.registry import AnyBrokerage, brokerage, decode_batches, replay_decisions
from broker.brokerages.replayed_columns import ReplayedColumns
from broker.codec.work_codec import Body, WorkCorruptError, unpacked_for_many
from broker.domain.arrays import Ints, Texts, texts
from broker.domain.decisions import StoredOutcome
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.errors import BrokerError
from broker.gdpconfig.proposals import proposed
from broker.gdpconfig.publish import Published
from broker.rules.registry import RuleError
from broker.snapshot.build import build_snapshot
from broker.snapshot.draft import BuildCache
from broker.snapshot.raw import RawSource, SnapshotCorruptError, decode
from broker.snapshot.snapshot import Snapshot
from broker.whatif.model.cases import Case, Change, ProfileRules, SnapshotParts, with_fields
from broker.whatif.model.comparison import Difference, difference
from broker.whatif.model.outcome_columns import CycleComparison, Side
from broker.whatif.model.variants import (
    AsStored,
    Deciding,
    Known,
    as_before,
    decide_together,
    job_counts,
    limits_of,
    nothing_known,
)

#: Prepared cycles that a process keeps for further values: a worker gets these one after the other.
CACHED_CYCLES = 2
#: Changes that are decided together, block by block: what they share is judged once.
SIDES_AT_ONCE = 16


class CannotDecideAgain(BrokerError):
    """A stored cycle cannot be decided again; the others can."""


def decide_case(
    case: Case, rules: ProfileRules, changes: Sequence[Change], *, by_task: bool = True
) -> list[Difference]:
    """Compare one cycle with and without each change.

    Args:
        case: the cycle.
        rules: of the side before.
        changes: each is compared with what was in force.
        by_task: report differences for each task, not only in total.

    Raises:
        CannotDecideAgain: its snapshot or work is damaged, or an engine with other columns stored it.
        BrokerError: the values contradict those that were in force.
    """
    try:
        return _prepared(case, rules).compared(changes, by_task=by_task)
    except (SnapshotCorruptError, WorkCorruptError) as error:
        remedy = "leave it out, or ask about a newer one"
        raise CannotDecideAgain(str(error), f"snapshot {case.snapshot.id}, engine {case.engine}", remedy) from error
    except (ProfileError, RuleError) as error:
        raise BrokerError(str(error), "the profile", "fix it, or leave the rule as it is") from error


class UnpackedCycle:
    """An unpacked cycle that can be compared with any number of changes.

    The side before is decided along with the first changes.
    """

    def __init__(self, case: Case, rules: ProfileRules) -> None:
        self._case = case
        self._brokerage: AnyBrokerage = brokerage(case.brokerage)
        self._sources = _sources(case.snapshot)
        self._snapshot = self._built(self._sources)
        works = [one.work for one in case.decisions]
        self._parts = _with_decisions(decode_batches(self._brokerage, works, unpack=_bodies(works)), case.decisions)
        self._before_rules = _rules_of(case.brokerage, rules)
        self._before: list[_Decided | None] = [None] * len(self._parts)

    def compared(self, changes: Sequence[Change], *, by_task: bool = True) -> list[Difference]:
        """Return what each change makes different."""
        differences: list[Difference] = []
        for first in range(0, len(changes), SIDES_AT_ONCE):
            differences += self._compared(changes[first : first + SIDES_AT_ONCE], by_task)
        return differences

    def _compared(self, changes: Sequence[Change], by_task: bool) -> list[Difference]:
        inputs = [
            _Inputs(
                self._changed(change),
                proposed(self._case.published, change.proposals),
                _rules_of(self._case.brokerage, change.rules),
            )
            for change in changes
        ]
        sides = [self._decided(number, inputs) for number in range(len(self._parts))]
        return [self._difference([decided[at] for decided in sides], by_task) for at in range(len(changes))]

    def _difference(self, after: Sequence[_Decided], by_task: bool) -> Difference:
        jeditaskid = np.concatenate([part.jeditaskid for part in self._parts])
        before = [one for one in self._before if one is not None]
        before_side, after_side = (_joined([one.whole() for one in side]) for side in (before, after))
        names = before[0].names
        if after[0].names.tolist() != names.tolist():
            # profiles may read other queues of one snapshot, such as unified queues themselves
            every = np.union1d(names.astype(np.str_), after[0].names.astype(np.str_))
            before_side, after_side = before_side.over(names, every), after_side.over(after[0].names, every)
            names = texts(every.tolist())
        compared = CycleComparison(self._case.brokerage, jeditaskid, names, before_side, after_side)
        return difference(compared, by_task=by_task)

    @property
    def _names(self) -> Texts:
        return self._brokerage.candidates(self._snapshot)

    def _built(self, sources: dict[str, RawSource]) -> Snapshot:
        packed = self._case.snapshot
        # a source changed here no longer has the content stored under its digest
        digests = {
            name: digest for name, (digest, _) in packed.parts.items() if sources.get(name) is self._sources[name]
        }
        return build_snapshot(packed.id, packed.taken_at, sources, packed.states, digests, _builds)

    def _changed(self, change: Change) -> Snapshot:
        """The snapshot with the queue fields of the change applied."""
        if not change.fields:
            return self._snapshot
        known = {str(name) for name in self._snapshot.queues.unified_name}
        changed = self._built(with_fields(self._sources, self._case.snapshot.taken_at, known, change.fields))
        if self._brokerage.candidates(changed).tolist() != self._names.tolist():
            output = ", ".join(map(str, change.fields))
            raise CannotDecideAgain(f"with {output} there are other queues", "", "ask about a field that keeps them")
        return changed

    def _decided(self, number: int, changes: Sequence[_Inputs]) -> list[_Decided]:
        """Decide a part of the cycle with each change; the first call also decides it as it was."""
        part, before = self._parts[number], self._before[number]
        known = before is not None
        if before is None:
            was = _Inputs(self._snapshot, self._case.published, self._before_rules)
            before = self._before[number] = self._side(part, was, None)
        after = [self._side(part, one, before) for one in changes]
        open_sides = [one.jobs for one in after if one.jobs is not None]
        if before.jobs is None:
            for one in open_sides:
                one.decide_all()
        else:
            decide_together(before.jobs, open_sides, known=known)
        return after

    def _side(self, part: _Part, inputs: _Inputs, before: _Decided | None) -> _Decided:
        """A side; chunks that are decided one after the other are still undecided in it."""
        batch, seed = part.batch, self._case.seed
        tuning = inputs.published.tuning(batch.vo)
        first = None if before is None else before.jobs
        beside = None if first is None else first.cycle
        cycle = self._brokerage.replayed_cycle(inputs.snapshot, tuning, batch, inputs.rules, beside)
        if cycle is None or not isinstance(batch, StoredChunks):
            first_columns = None if before is None else before.columns
            again = self._brokerage.replayed_columns(inputs.snapshot, tuning, batch, seed, inputs.rules, first_columns)
            if again is not None:
                side = Side(again.outcome, again.reason, again.chosen, again.jobs, again.position, again.codes)
                return _Decided(again.names, side=side, columns=again)
            tuning_of = inputs.published.tuning
            replayed = replay_decisions(self._brokerage, inputs.snapshot, tuning_of, [batch], seed, inputs.rules)
            return _Decided(self._names, side=_side_of(replayed, self._names))
        limits, names = limits_of(tuning), cycle.snapshot.queues.name
        loop = None if batch.work is None else compiled_cycle(cycle, batch.work, seed)
        counts = job_counts(batch, part.decisions)
        if before is None or first is None:
            as_it_was = before is None and self._case.engine == __version__ and not batch.stored.has_plan
            stored: Known = AsStored([str(name) for name in names], part.decisions) if as_it_was else nothing_known
            return _Decided(names, limits, Deciding(cycle, batch, seed, counts, stored, loop=loop))
        if loop is not None:
            loop = dataclasses.replace(loop, beside=first.loop)
        if before.names.tolist() != names.tolist():
            return _Decided(names, limits, Deciding(cycle, batch, seed, counts, nothing_known, loop=loop, first=first))
        # other queues may take jobs of another size, or in other numbers
        groups = np.array_equal(first.cycle.job_groups, cycle.job_groups)
        same = before.limits == limits and groups and inputs.snapshot is self._snapshot
        known = as_before(first.side.drawn, same)
        other = first.side if same and first.cycle.moves_alike(cycle) else None
        return _Decided(names, limits, Deciding(cycle, batch, seed, counts, known, other, loop, first.side, first))


@dataclass(frozen=True)
class _Inputs:
    """The inputs that a side is decided by."""

    snapshot: Snapshot
    published: Published
    rules: Rules


@dataclass(frozen=True)
class _Part:
    """Consecutive decisions for one VO."""

    batch: StoredBatch
    decisions: Sequence[StoredOutcome]

    @property
    def jeditaskid(self) -> Ints:
        return self.batch.jeditaskid


@dataclass(frozen=True)
class _Decided:
    """A side over the named candidates: with jobs and what they depend on, or the side alone, or with its columns."""

    names: Texts
    limits: tuple[bool, ...] = ()
    jobs: Deciding | None = None
    side: Side | None = None
    columns: ReplayedColumns | None = None

    def whole(self) -> Side:
        """The whole side, decided."""
        if self.jobs is not None:
            return self.jobs.side.rows.whole()
        if self.side is None:
            raise ValueError("a side of nothing")
        return self.side


_cycle_cache: dict[tuple[str, str], UnpackedCycle] = {}


def _prepared(case: Case, rules: ProfileRules) -> UnpackedCycle:
    """The cycle, unpacked once in this process for all values tried one after the other."""
    key = (case.id, rules.profile.model_dump_json() + repr(sorted(rules.options.items())))
    if key not in _cycle_cache:
        prepared = UnpackedCycle(case, rules)
        while len(_cycle_cache) >= CACHED_CYCLES:
            _cycle_cache.pop(next(iter(_cycle_cache)))
        _cycle_cache[key] = prepared
    return _cycle_cache[key]


def _with_decisions(batches: Sequence[StoredBatch], decisions: Sequence[StoredOutcome]) -> list[_Part]:
    parts, first = [], 0
    for batch in batches:
        part = _Part(batch, decisions[first:])
        size = len(part.jeditaskid)
        parts.append(_Part(batch, decisions[first : first + size]))
        first += size
    if first != len(decisions):
        raise WorkCorruptError(f"{len(decisions)} decisions are stored with the work of {first} chunks")
    return parts


#: What was built from the snapshots of the last cycles: most of a grid stays the same in the next.
_builds = BuildCache()
_unpacked: dict[str, tuple[tuple[str, bytes], RawSource]] = {}


#: The unpacked work of the last cycle by its bytes: work that still waits is the same in the next.
_last_bodies: dict[bytes, Body] = {}


def _bodies(works: Sequence[bytes]) -> Callable[[bytes], Body]:
    """A function that unpacks the work of a cycle; work that is the same as in the cycle before is reused."""
    global _last_bodies
    # drop the work of the cycle before that is not in this one
    known = _last_bodies = {work: _last_bodies[work] for work in works if work in _last_bodies}

    def unpack(work: bytes) -> Body:
        if work not in known:
            known[work] = unpacked_for_many(work)
        return known[work]

    return unpack


def _sources(packed: SnapshotParts) -> dict[str, RawSource]:
    """The sources by name; a source that is the same as in the cycle before is not unpacked again."""
    for name, part in packed.parts.items():
        # compare the bytes too, so that damaged ones are found whatever came before
        if name not in _unpacked or _unpacked[name][0] != part:
            _unpacked[name] = part, decode(*part)
    return {name: _unpacked[name][1] for name in packed.parts}


def _rules_of(brokerage: str, rules: ProfileRules) -> Rules:
    return _built(rules.profile.model_dump_json(), brokerage, json.dumps(rules.options.get(brokerage, {}), default=str))


@lru_cache(maxsize=16)
def _built(profile: str, brokerage: str, options: str) -> Rules:
    return rules_of(Profile.model_validate_json(profile), brokerage, json.loads(options))


def _side_of(replayed: Sequence[ReplayedDecision], names: Texts) -> Side:
    """Replayed decisions as columns."""
    place = {str(name): at for at, name in enumerate(names)}
    shape = (len(replayed), len(names))
    chosen, jobs = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.int64)
    position = np.full(shape, NOT_A_CANDIDATE, dtype=np.int64)
    codes: dict[str, int] = {}
    for row, entry in enumerate(replayed):
        for name, code in entry.decision.rejected.items():
            # unified queues without a remaining pseudo-queue are named too, but are no candidates
            if name in place:
                position[row, place[name]] = codes.setdefault(code, len(codes))
        for candidate in entry.decision.candidates:
            position[row, place[candidate.name]] = FEASIBLE
            chosen[row, place[candidate.name]] = True
        for name, count in (entry.assigned or {}).items():
            jobs[row, place[name]] = count
    outcomes, reasons = (texts(getattr(entry.decision, name) for entry in replayed) for name in ("outcome", "reason"))
    return Side(outcomes, reasons, chosen, jobs, position, tuple(codes))


def _joined(sides: Sequence[Side]) -> Side:
    """The sides of several VOs, stacked; the codes of all are merged into one list."""
    if len(sides) == 1:
        return sides[0]
    codes: dict[str, int] = {}
    positions = []
    for side in sides:
        own = np.array([codes.setdefault(code, len(codes)) for code in side.codes], dtype=np.int64)
        positions.append(np.where(side.position >= 0, np.append(own, 0)[side.position], side.position))

    def rows(name: str) -> Any:
        return np.concatenate([getattr(side, name) for side in sides])

    return Side(rows("outcome"), rows("reason"), rows("chosen"), rows("jobs"), np.concatenate(positions), tuple(codes))
