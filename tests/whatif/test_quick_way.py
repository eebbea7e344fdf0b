"""Sharing work between the sides of a comparison changes no result: the quick way agrees with deciding each side whole.

The tests use the stored cycles of the replay tests, in which more than half of all rules decide something, and any key
that a brokerage reads: keys that filter, weigh, cut, throttle, or make facts.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import Phase, given, settings, strategies as st

from broker import __version__
from broker.brokerages.base import ReplayedDecision, StoredBatch
from broker.brokerages.profile import rules_of
from broker.brokerages.registry import brokerage as brokerage_of, decode_batches, replay_decisions
from broker.domain.decisions import StoredOutcome
from broker.engine.compiled import loading
from broker.engine.job import cycle as job_cycle
from broker.errors import BrokerError
from broker.gdpconfig.catalogue import KeyEntry, ValueType, shipped_catalogue
from broker.gdpconfig.proposals import proposed, read_proposals
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import SourceState, decode
from broker.snapshot.snapshot import Snapshot
from broker.store.scenarios.scenario_file import read_document
from broker.store.snapshots.snapshot_file import from_document
from broker.whatif.model.cases import Case, Change, QueueField, SnapshotParts, with_fields
from broker.whatif.model.comparison import Totals
from broker.whatif.model.evaluate import UnpackedCycle, decide_case
from tests.whatif.stored import ANALYSIS, JOBS, RULES, TASKS, change

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "replay" / "cases"
EXAMPLES = 3
NUMBERS = ("0", "1", "20", "1000", "1000000")
#: Suffixes of key families: shares and labels of the stored cycles.
SUFFIXES = ("", "_managed", "_user", "_Simulation", "_Reprocessing")


@cache
def stored_case(brokerage: str) -> Case:
    """The stored cycle of a brokerage as input for what-if."""
    path = STORED / f"{brokerage}.json.gz"
    document = read_document(path)
    assert isinstance(document, dict)
    file = from_document(document, shipped_catalogue(), str(path))
    stored_snapshot, origin = file.snapshot, file.decisions[0].origin
    assert file.tunings is not None
    decisions = [
        StoredOutcome(record.decision.outcome, record.decision.reason, record.assigned, record.work or b"")
        for record in (stored.record for stored in file.decisions)
    ]
    states = tuple(SourceState.from_json(state) for state in stored_snapshot.about["states"])
    snapshot = SnapshotParts(stored_snapshot.id, stored_snapshot.taken_at, stored_snapshot.parts, states)
    tuning = file.tunings[origin.tuning]
    return Case(brokerage, brokerage, origin.decided_at, __version__, origin.seed, tuning, snapshot, tuple(decisions))


def values_of(entry: KeyEntry) -> list[str]:
    """Values of a key to try, as typed on the command line."""
    if entry.type is ValueType.BOOL:
        return [f"{entry.key}=true", f"{entry.key}=false"]
    names = [entry.key + suffix for suffix in SUFFIXES] if entry.is_family else [entry.key]
    return [f"{name}={number}" for name in names for number in NUMBERS]


@cache
def changes_of(brokerage: str) -> list[Change]:
    """A change for each rule, and for each accepted value of each key that the brokerage reads."""
    changes = [change(rules=(f"{rule.name}=off",)) for rule in brokerage_of(brokerage).chain()]
    for entry in shipped_catalogue():
        for text in values_of(entry) if brokerage in entry.read_by and not entry.key.startswith("FLOW") else ():
            try:
                candidate = Change(read_proposals(shipped_catalogue(), [text], "atlas"), RULES)
                proposed(stored_case(brokerage).published, candidate.proposals)
            except BrokerError:
                continue
            changes.append(candidate)
    return changes


@cache
def grid_and_work(name: str) -> tuple[Snapshot, tuple[StoredBatch, ...]]:
    """The stored cycle of a brokerage, unpacked."""
    case = stored_case(name)
    parts = {part: decode(*packed) for part, packed in case.snapshot.parts.items()}
    snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, parts, case.snapshot.states)
    return snapshot, decode_batches(brokerage_of(name), [outcome.work for outcome in case.decisions])


def with_other_queues(case: Case, fields: Sequence[QueueField]) -> Snapshot:
    """The snapshot of a case with fields of queues at other values."""
    parts = {part: decode(*packed) for part, packed in case.snapshot.parts.items()}
    known = {str(name) for name in grid_and_work(case.brokerage)[0].queues.unified_name}
    sources = with_fields(parts, case.snapshot.taken_at, known, fields)
    return build_snapshot(case.snapshot.id, case.snapshot.taken_at, sources, case.snapshot.states)


def whole(case: Case, variant: Change) -> list[ReplayedDecision]:
    """A side decided whole, with every explanation and nothing shared."""
    brokerage = brokerage_of(case.brokerage)
    snapshot, works = grid_and_work(case.brokerage)
    snapshot = with_other_queues(case, variant.fields) if variant.fields else snapshot
    tuning_of = proposed(case.published, variant.proposals).tuning
    rules = rules_of(variant.rules.profile, case.brokerage)
    return replay_decisions(brokerage, snapshot, tuning_of, works, case.seed, rules)


def totals_of(before: Sequence[ReplayedDecision], after: Sequence[ReplayedDecision]) -> Totals:
    """The totals expected of a comparison, as far as they add up from the decisions of both sides."""
    totals = Totals(cycles=1, decisions=len(before))
    for was, now in zip(before, after, strict=True):
        had, has = ({decision.name for decision in side.decision.candidates} for side in (was, now))
        outcomes, reasons = (
            [getattr(decision.decision, name) for decision in (was, now)] for name in ("outcome", "reason")
        )
        totals.changed += had != has or outcomes[0] != outcomes[1] or reasons[0] != reasons[1]
        totals.outcomes[outcomes[0], outcomes[1]] += 1
        totals.gained.update(has - had)
        totals.lost.update(had - has)
        totals.candidates_before[len(had)] += 1
        totals.candidates_after[len(has)] += 1
    for side, jobs, rejected in (
        (before, totals.jobs_before, totals.rejected_before),
        (after, totals.jobs_after, totals.rejected_after),
    ):
        for decision in side:
            jobs.update(decision.assigned or {})
            for step in decision.decision.funnel:
                # two rules may share a code
                rejected.update({step.code: step.before - step.after} if step.before > step.after else {})
    return totals


@cache
def cycle_of(brokerage: str, new_weight: bool = False) -> Case:
    """The stored cycle, or the same one decided with the new basic weight of analysis."""
    case = stored_case(brokerage)
    values = change("NEW_BASIC_WEIGHT=true").proposals if new_weight else ()
    return dataclasses.replace(case, published=proposed(case.published, values))


@cache
def whole_before(brokerage: str, new_weight: bool = False) -> list[ReplayedDecision]:
    """The side before, decided whole."""
    return whole(cycle_of(brokerage, new_weight), Change((), RULES))


def comparable(totals: Totals) -> dict[str, object]:
    """The figures that :func:`totals_of` computes as well."""
    left_out = ("losing_last", "gaining_first", "jobs_moved")
    return {name: value for name, value in vars(totals).items() if name not in left_out}


@pytest.fixture(scope="module")
def blocks_of_some() -> Iterator[None]:
    """Judge chunks in blocks of a third of a cycle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_cycle, "BLOCK_CELLS", 1)
        patch.setattr(job_cycle, "LEAST_BLOCK", 30)
        yield


@pytest.mark.usefixtures("blocks_of_some")
@pytest.mark.usefixtures("compiled_loop")
@pytest.mark.parametrize(
    ("brokerage", "loop"), [(name, loop) for name in (JOBS, TASKS, ANALYSIS) for loop in ("never", "always")]
)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.data())
def test_any_change_agrees_with_deciding_whole(
    brokerage: str, loop: Literal["never", "always"], data: st.DataObject
) -> None:
    variant = data.draw(st.sampled_from(changes_of(brokerage)))
    engine = data.draw(st.sampled_from([__version__, "0.0.1"]))
    new_weight = data.draw(st.booleans()) if brokerage == ANALYSIS else False
    before = whole_before(brokerage, new_weight)
    # under different tuning the cycle would not have written these jobs
    case = dataclasses.replace(cycle_of(brokerage, new_weight), engine="0.0.1" if new_weight else engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "mode", loop)
        (comparison,) = UnpackedCycle(case, RULES).compared([variant])
    assert comparable(comparison.totals[brokerage]) == comparable(totals_of(before, whole(case, variant)))


@pytest.mark.parametrize("brokerage", [JOBS, ANALYSIS])
@pytest.mark.parametrize("field", ["jobChunkSize", "maxtime"])
def test_changing_the_number_or_length_of_jobs_of_a_queue(brokerage: str, field: str) -> None:
    """Filters, weights and candidates are the same on both sides; the jobs differ."""
    case, jobs = stored_case(brokerage), Counter[str]()
    for decision in whole_before(brokerage):
        jobs.update(decision.assigned or {})
    queues = grid_and_work(brokerage)[0].queues
    first = str(queues.unified_name[queues.name.tolist().index(jobs.most_common(1)[0][0])])
    variant = Change((), RULES, (QueueField(first, field, 7 if field == "jobChunkSize" else 4000),))
    (comparison,) = UnpackedCycle(case, RULES).compared([variant])
    assert comparable(comparison.totals[brokerage]) == comparable(
        totals_of(whole_before(brokerage), whole(case, variant))
    )


def test_reused_rejections_have_the_codes_of_their_side() -> None:
    """Without one filter the later rules get other numbers, such as the rule that drops all but the ten best queues."""
    case, variant = stored_case(JOBS), change(rules=("pilots=off",))
    (comparison,) = UnpackedCycle(case, RULES).compared([variant])
    assert comparable(comparison.totals[JOBS]) == comparable(totals_of(whole_before(JOBS), whole(case, variant)))
    assert comparison.totals[JOBS].rejected_after["low_weight"] > 0


def several_at_a_queue(case: Case) -> list[int]:
    """Positions of the decisions that gave a queue more than one job."""
    return [at for at, outcome in enumerate(case.decisions) if max(outcome.assigned.values(), default=0) > 1]


@pytest.mark.usefixtures("blocks_of_some", "compiled_loop")
@pytest.mark.parametrize(
    ("brokerage", "variant"),
    [
        (JOBS, change("NQUEUED_SAT_CAP=0")),
        (JOBS, change(rules=("free_space=off",))),
        (ANALYSIS, change("MAX_DISKIO_DEFAULT=1")),
        (ANALYSIS, change(rules=("no_input_data=off",))),
    ],
)
def test_jobs_lost_on_writing_count_the_same_with_and_without_the_loop(
    brokerage: str, variant: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some decisions lost a job when they were written: later decisions saw that room."""
    case = stored_case(brokerage)
    decisions = list(case.decisions)
    for at in (40, 70) if brokerage == JOBS else several_at_a_queue(case)[10:12]:
        fewer = {name: jobs - 1 for name, jobs in decisions[at].assigned.items() if jobs > 1}
        assert fewer
        decisions[at] = dataclasses.replace(decisions[at], assigned=fewer)
    case = dataclasses.replace(case, decisions=tuple(decisions))
    alone = UnpackedCycle(case, RULES).compared([variant])
    monkeypatch.setattr(loading, "mode", "always")
    assert UnpackedCycle(case, RULES).compared([variant]) == alone
    assert alone[0].totals[brokerage].jobs_before == sum(
        (Counter(outcome.assigned) for outcome in decisions), Counter()
    )


@pytest.mark.usefixtures("compiled_loop")
@pytest.mark.parametrize("brokerage", [JOBS, TASKS, ANALYSIS])
@pytest.mark.parametrize("loop", ["never", "always"])
def test_several_changes_at_once_agree_with_each_alone(
    brokerage: str, loop: Literal["never", "always"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "mode", loop)
    several = changes_of(brokerage)[:: len(changes_of(brokerage)) // (8 if brokerage == JOBS else 14)]
    case = dataclasses.replace(stored_case(brokerage), id=f"{brokerage} {loop}")
    together = decide_case(case, RULES, several)
    later = decide_case(case, RULES, several)  # the side before is cached by now
    assert together == later == [UnpackedCycle(case, RULES).compared([variant])[0] for variant in several]
    assert Counter(difference.total("changed") > 0 for difference in together)[True] > 1
