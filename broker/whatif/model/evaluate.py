"""A stored cycle decided again, once as it was and once for each change. Pure, and the same on every machine.

Both sides are decided with what the cycle itself places deducted, as in a real one. Where the engine is the one that
decided, the side before has the jobs that were written; else both sides are decided by today's rules alone.
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
from broker.snapshot.draft import KeptBuilds
from broker.snapshot.raw import RawSource, SnapshotCorruptError, decode
from broker.snapshot.snapshot import Snapshot
from broker.whatif.model.cases import Case, Change, ProfileRules, SnapshotParts, with_fields
from broker.whatif.model.comparison import Difference, difference
from broker.whatif.model.outcome_columns import Compared, Side
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

#: Prepared cycles that a process keeps, so that another value finds them: a worker gets them one after the other.
KEPT = 2
#: Changes that are decided block by block together: what they have in common is judged once.
SIDES_AT_ONCE = 16


class CannotDecideAgain(BrokerError):
    """A stored cycle that cannot be decided again; the others can."""


def decide_case(
    case: Case, rules: ProfileRules, changes: Sequence[Change], *, by_task: bool = True
) -> list[Difference]:
    """What each change makes different in one cycle.

    Args:
        case: the cycle.
        rules: of the side before.
        changes: each of them is compared with what was in force.
        by_task: find what is different for each task, not only in total.

    Raises:
        CannotDecideAgain: its snapshot or its work is damaged, or it is of an engine that stored other columns.
        BrokerError: the values contradict those that were in force.
    """
    try:
        return _prepared(case, rules).compared(changes, by_task=by_task)
    except (SnapshotCorruptError, WorkCorruptError) as error:
        remedy = "leave it out, or ask about a newer one"
        raise CannotDecideAgain(str(error), f"snapshot {case.snapshot.id}, engine {case.engine}", remedy) from error
    except (ProfileError, RuleError) as error:
        raise BrokerError(str(error), "the profile", "fix it, or leave the rule as it is") from error


class Prepared:
    """A cycle unpacked, ready to be compared with any number of changes; decided as it was with the first of them."""

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
        """What each change makes different."""
        found: list[Difference] = []
        for first in range(0, len(changes), SIDES_AT_ONCE):
            found += self._compared(changes[first : first + SIDES_AT_ONCE], by_task)
        return found

    def _compared(self, changes: Sequence[Change], by_task: bool) -> list[Difference]:
        asked = [
            _Asked(
                self._changed(change),
                proposed(self._case.published, change.proposals),
                _rules_of(self._case.brokerage, change.rules),
            )
            for change in changes
        ]
        sides = [self._decided(number, asked) for number in range(len(self._parts))]
        return [self._difference([one[at] for one in sides], by_task) for at in range(len(changes))]

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
        found = Compared(self._case.brokerage, jeditaskid, names, before_side, after_side)
        return difference(found, by_task=by_task)

    @property
    def _names(self) -> Texts:
        return self._brokerage.candidates(self._snapshot)

    def _built(self, sources: dict[str, RawSource]) -> Snapshot:
        packed = self._case.snapshot
        # what was changed here has another content than what was stored under the digest
        digests = {
            name: digest for name, (digest, _) in packed.parts.items() if sources.get(name) is self._sources[name]
        }
        return build_snapshot(packed.id, packed.taken_at, sources, packed.states, digests, _builds)

    def _changed(self, change: Change) -> Snapshot:
        """The snapshot with the fields of queues that the change says."""
        if not change.fields:
            return self._snapshot
        known = {str(name) for name in self._snapshot.queues.unified_name}
        found = self._built(with_fields(self._sources, self._case.snapshot.taken_at, known, change.fields))
        if self._brokerage.candidates(found).tolist() != self._names.tolist():
            output = ", ".join(map(str, change.fields))
            raise CannotDecideAgain(f"with {output} there are other queues", "", "ask about a field that keeps them")
        return found

    def _decided(self, number: int, changes: Sequence[_Asked]) -> list[_Decided]:
        """A part of the cycle with each of the changes; with the first ones also as it was."""
        part, before = self._parts[number], self._before[number]
        known = before is not None
        if before is None:
            was = _Asked(self._snapshot, self._case.published, self._before_rules)
            before = self._before[number] = self._side(part, was, None)
        after = [self._side(part, one, before) for one in changes]
        open_sides = [one.jobs for one in after if one.jobs is not None]
        if before.jobs is None:
            for one in open_sides:
                one.decide_all()
        else:
            decide_together(before.jobs, open_sides, known=known)
        return after

    def _side(self, part: _Part, asked: _Asked, before: _Decided | None) -> _Decided:
        """A side; where its chunks are decided one after the other, that is still to be done."""
        batch, seed = part.batch, self._case.seed
        tuning = asked.published.tuning(batch.vo)
        first = None if before is None else before.jobs
        beside = None if first is None else first.cycle
        cycle = self._brokerage.replayed_cycle(asked.snapshot, tuning, batch, asked.rules, beside)
        if cycle is None or not isinstance(batch, StoredChunks):
            first_columns = None if before is None else before.columns
            again = self._brokerage.replayed_columns(asked.snapshot, tuning, batch, seed, asked.rules, first_columns)
            if again is not None:
                side = Side(again.outcome, again.reason, again.chosen, again.jobs, again.position, again.codes)
                return _Decided(again.names, side=side, columns=again)
            tuning_of = asked.published.tuning
            found = replay_decisions(self._brokerage, asked.snapshot, tuning_of, [batch], seed, asked.rules)
            return _Decided(self._names, side=_side_of(found, self._names))
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
        same = before.limits == limits and groups and asked.snapshot is self._snapshot
        known = as_before(first.side.drawn, same)
        other = first.side if same and first.cycle.moves_alike(cycle) else None
        return _Decided(names, limits, Deciding(cycle, batch, seed, counts, known, other, loop, first.side, first))


@dataclass(frozen=True)
class _Asked:
    """What a side is decided by."""

    snapshot: Snapshot
    published: Published
    rules: Rules


@dataclass(frozen=True)
class _Part:
    """The decisions about one VO that followed each other."""

    batch: StoredBatch
    decisions: Sequence[StoredOutcome]

    @property
    def jeditaskid(self) -> Ints:
        return self.batch.jeditaskid


@dataclass(frozen=True)
class _Decided:
    """A side over the named candidates: its jobs with what they depend on, or the side alone or with its columns."""

    names: Texts
    limits: tuple[bool, ...] = ()
    jobs: Deciding | None = None
    side: Side | None = None
    columns: ReplayedColumns | None = None

    def whole(self) -> Side:
        """All that was decided."""
        if self.jobs is not None:
            return self.jobs.side.rows.whole()
        if self.side is None:
            raise ValueError("a side of nothing")
        return self.side


_kept: dict[tuple[str, str], Prepared] = {}


def _prepared(case: Case, rules: ProfileRules) -> Prepared:
    """The cycle, unpacked once in this process for all values that are tried one after the other."""
    key = (case.id, rules.profile.model_dump_json() + repr(sorted(rules.options.items())))
    if key not in _kept:
        found = Prepared(case, rules)
        while len(_kept) >= KEPT:
            _kept.pop(next(iter(_kept)))
        _kept[key] = found
    return _kept[key]


def _with_decisions(batches: Sequence[StoredBatch], decisions: Sequence[StoredOutcome]) -> list[_Part]:
    parts, first = [], 0
    for one in batches:
        part = _Part(one, decisions[first:])
        size = len(part.jeditaskid)
        parts.append(_Part(one, decisions[first : first + size]))
        first += size
    if first != len(decisions):
        raise WorkCorruptError(f"{len(decisions)} decisions are stored with the work of {first} chunks")
    return parts


#: What was made of the snapshots of the last cycles: most of a grid is the same in the next.
_builds = KeptBuilds()
_unpacked: dict[str, tuple[tuple[str, bytes], RawSource]] = {}


#: The work of the chunks of the last cycle by its bytes: what waits is the same in the next.
_last_bodies: dict[bytes, Body] = {}


def _bodies(works: Sequence[bytes]) -> Callable[[bytes], Body]:
    """Unpacks the work of a cycle; a chunk whose work is as in the cycle before is not unpacked again."""
    global _last_bodies
    # those of the cycle before that are not in this one go
    known = _last_bodies = {work: _last_bodies[work] for work in works if work in _last_bodies}

    def unpack(work: bytes) -> Body:
        if work not in known:
            known[work] = unpacked_for_many(work)
        return known[work]

    return unpack


def _sources(packed: SnapshotParts) -> dict[str, RawSource]:
    """The sources by name; one that is as in the cycle before is not unpacked again."""
    for name, part in packed.parts.items():
        # the bytes too, so that damaged ones are found whatever came before
        if name not in _unpacked or _unpacked[name][0] != part:
            _unpacked[name] = part, decode(*part)
    return {name: _unpacked[name][1] for name in packed.parts}


def _rules_of(brokerage: str, rules: ProfileRules) -> Rules:
    return _built(rules.profile.model_dump_json(), brokerage, json.dumps(rules.options.get(brokerage, {}), default=str))


@lru_cache(maxsize=16)
def _built(profile: str, brokerage: str, options: str) -> Rules:
    return rules_of(Profile.model_validate_json(profile), brokerage, json.loads(options))


def _side_of(found: Sequence[ReplayedDecision], names: Texts) -> Side:
    """Replayed decisions as columns."""
    place = {str(name): at for at, name in enumerate(names)}
    shape = (len(found), len(names))
    chosen, jobs = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.int64)
    position = np.full(shape, NOT_A_CANDIDATE, dtype=np.int64)
    codes: dict[str, int] = {}
    for row, one in enumerate(found):
        for name, code in one.decision.rejected.items():
            # unified queues of which no pseudo-queue was left are named too, and are no candidates
            if name in place:
                position[row, place[name]] = codes.setdefault(code, len(codes))
        for candidate in one.decision.candidates:
            position[row, place[candidate.name]] = FEASIBLE
            chosen[row, place[candidate.name]] = True
        for name, count in (one.assigned or {}).items():
            jobs[row, place[name]] = count
    outcomes, reasons = (texts(getattr(one.decision, name) for one in found) for name in ("outcome", "reason"))
    return Side(outcomes, reasons, chosen, jobs, position, tuple(codes))


def _joined(sides: Sequence[Side]) -> Side:
    """The sides of several VOs, one below the other; the codes of all are those of one list of rules."""
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
