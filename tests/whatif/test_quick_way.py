"""What the sides of a comparison share changes no result: the quick way agrees with deciding each of them whole.

On the stored cycles of the replay tests, in which more than half of all rules decide something, with any key that a
brokerage reads: such as filter, weigh, cut, throttle, or make facts.
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
from broker.whatif.model.evaluate import Prepared, decide_case
from tests.whatif.stored import ANALYSIS, JOBS, RULES, TASKS, change

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "replay" / "cases"
EXAMPLES = 3
NUMBERS = ("0", "1", "20", "1000", "1000000")
#: What stands behind the names of families: shares and labels that the stored cycles have.
SUFFIXES = ("", "_managed", "_user", "_Simulation", "_Reprocessing")


@cache
def stored_case(brokerage: str) -> Case:
    """The stored cycle of a brokerage as what-if takes it."""
    path = STORED / f"{brokerage}.json.gz"
    document = read_document(path)
    assert isinstance(document, dict)
    file = from_document(document, shipped_catalogue(), str(path))
    kept, origin = file.snapshot, file.decisions[0].origin
    assert file.tunings is not None
    decisions = [
        StoredOutcome(one.decision.outcome, one.decision.reason, one.assigned, one.work or b"")
        for one in (stored.record for stored in file.decisions)
    ]
    states = tuple(SourceState.from_json(state) for state in kept.about["states"])
    snapshot = SnapshotParts(kept.id, kept.taken_at, kept.parts, states)
    tuning = file.tunings[origin.tuning]
    return Case(brokerage, brokerage, origin.decided_at, __version__, origin.seed, tuning, snapshot, tuple(decisions))


def values_of(entry: KeyEntry) -> list[str]:
    """Values of a key that may be tried, as they are typed."""
    if entry.type is ValueType.BOOL:
        return [f"{entry.key}=true", f"{entry.key}=false"]
    names = [entry.key + suffix for suffix in SUFFIXES] if entry.is_family else [entry.key]
    return [f"{name}={number}" for name in names for number in NUMBERS]


@cache
def changes_of(brokerage: str) -> list[Change]:
    """A change for each value of each key that the brokerage reads, where the value is accepted, and for rules."""
    found = [change(rules=(f"{rule.name}=off",)) for rule in brokerage_of(brokerage).chain()]
    for entry in shipped_catalogue():
        for text in values_of(entry) if brokerage in entry.read_by and not entry.key.startswith("FLOW") else ():
            try:
                asked = Change(read_proposals(shipped_catalogue(), [text], "atlas"), RULES)
                proposed(stored_case(brokerage).published, asked.proposals)
            except BrokerError:
                continue
            found.append(asked)
    return found


@cache
def grid_and_work(name: str) -> tuple[Snapshot, tuple[StoredBatch, ...]]:
    """The stored cycle of a brokerage, unpacked."""
    case = stored_case(name)
    parts = {part: decode(*packed) for part, packed in case.snapshot.parts.items()}
    snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, parts, case.snapshot.states)
    return snapshot, decode_batches(brokerage_of(name), [one.work for one in case.decisions])


def with_other_queues(case: Case, fields: Sequence[QueueField]) -> Snapshot:
    """The snapshot of a case with fields of queues at other values."""
    parts = {part: decode(*packed) for part, packed in case.snapshot.parts.items()}
    known = {str(name) for name in grid_and_work(case.brokerage)[0].queues.unified_name}
    sources = with_fields(parts, case.snapshot.taken_at, known, fields)
    return build_snapshot(case.snapshot.id, case.snapshot.taken_at, sources, case.snapshot.states)


def whole(case: Case, asked: Change) -> list[ReplayedDecision]:
    """A side decided whole, with every explanation and nothing shared."""
    brokerage = brokerage_of(case.brokerage)
    snapshot, works = grid_and_work(case.brokerage)
    snapshot = with_other_queues(case, asked.fields) if asked.fields else snapshot
    tuning_of = proposed(case.published, asked.proposals).tuning
    rules = rules_of(asked.rules.profile, case.brokerage)
    return replay_decisions(brokerage, snapshot, tuning_of, works, case.seed, rules)


def totals_of(before: Sequence[ReplayedDecision], after: Sequence[ReplayedDecision]) -> Totals:
    """What a comparison has to say of two sides, as far as it can be added up from their decisions."""
    found = Totals(cycles=1, decisions=len(before))
    for was, now in zip(before, after, strict=True):
        had, has = ({one.name for one in side.decision.candidates} for side in (was, now))
        outcomes, reasons = ([getattr(one.decision, name) for one in (was, now)] for name in ("outcome", "reason"))
        found.changed += had != has or outcomes[0] != outcomes[1] or reasons[0] != reasons[1]
        found.outcomes[outcomes[0], outcomes[1]] += 1
        found.gained.update(has - had)
        found.lost.update(had - has)
        found.candidates_before[len(had)] += 1
        found.candidates_after[len(has)] += 1
    for side, jobs, rejected in (
        (before, found.jobs_before, found.rejected_before),
        (after, found.jobs_after, found.rejected_after),
    ):
        for one in side:
            jobs.update(one.assigned or {})
            for step in one.decision.funnel:
                # two rules may have one code
                rejected.update({step.code: step.before - step.after} if step.before > step.after else {})
    return found


@cache
def cycle_of(brokerage: str, new_weight: bool = False) -> Case:
    """The stored cycle, or the same one decided with the new basic weight of analysis."""
    case = stored_case(brokerage)
    values = change("NEW_BASIC_WEIGHT=true").proposals if new_weight else ()
    return dataclasses.replace(case, published=proposed(case.published, values))


@cache
def whole_before(brokerage: str, new_weight: bool = False) -> list[ReplayedDecision]:
    """The side before, whole."""
    return whole(cycle_of(brokerage, new_weight), Change((), RULES))


def shown(totals: Totals) -> dict[str, object]:
    """The figures that :func:`totals_of` has, too."""
    left_out = ("losing_last", "gaining_first", "jobs_moved")
    return {name: value for name, value in vars(totals).items() if name not in left_out}


@pytest.fixture(scope="module")
def blocks_of_some() -> Iterator[None]:
    """Chunks are judged a third of a cycle at a time."""
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
def test_any_change_gives_what_deciding_whole_gives(
    brokerage: str, loop: Literal["never", "always"], data: st.DataObject
) -> None:
    asked = data.draw(st.sampled_from(changes_of(brokerage)))
    engine = data.draw(st.sampled_from([__version__, "0.0.1"]))
    new_weight = data.draw(st.booleans()) if brokerage == ANALYSIS else False
    before = whole_before(brokerage, new_weight)
    # with other tuning than it had, the cycle would not have written these jobs
    case = dataclasses.replace(cycle_of(brokerage, new_weight), engine="0.0.1" if new_weight else engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "mode", loop)
        (found,) = Prepared(case, RULES).compared([asked])
    assert shown(found.totals[brokerage]) == shown(totals_of(before, whole(case, asked)))


@pytest.mark.parametrize("brokerage", [JOBS, ANALYSIS])
@pytest.mark.parametrize("field", ["jobChunkSize", "maxtime"])
def test_a_queue_that_takes_jobs_of_another_number_or_length(brokerage: str, field: str) -> None:
    """All filters and weights say the same, and so do candidates; their jobs are not the same."""
    case, jobs = stored_case(brokerage), Counter[str]()
    for one in whole_before(brokerage):
        jobs.update(one.assigned or {})
    queues = grid_and_work(brokerage)[0].queues
    first = str(queues.unified_name[queues.name.tolist().index(jobs.most_common(1)[0][0])])
    asked = Change((), RULES, (QueueField(first, field, 7 if field == "jobChunkSize" else 4000),))
    (found,) = Prepared(case, RULES).compared([asked])
    assert shown(found.totals[brokerage]) == shown(totals_of(whole_before(brokerage), whole(case, asked)))


def test_what_is_taken_over_has_the_codes_of_its_own_side() -> None:
    """With a filter less, what is behind the filters has other numbers: queues that ten others are better than."""
    case, asked = stored_case(JOBS), change(rules=("pilots=off",))
    (found,) = Prepared(case, RULES).compared([asked])
    assert shown(found.totals[JOBS]) == shown(totals_of(whole_before(JOBS), whole(case, asked)))
    assert found.totals[JOBS].rejected_after["low_weight"] > 0


def several_at_a_queue(case: Case) -> list[int]:
    """The decisions that gave any queue more than one job."""
    return [at for at, one in enumerate(case.decisions) if max(one.assigned.values(), default=0) > 1]


@pytest.mark.usefixtures("blocks_of_some", "compiled_loop")
@pytest.mark.parametrize(
    ("brokerage", "asked"),
    [
        (JOBS, change("NQUEUED_SAT_CAP=0")),
        (JOBS, change(rules=("free_space=off",))),
        (ANALYSIS, change("MAX_DISKIO_DEFAULT=1")),
        (ANALYSIS, change(rules=("no_input_data=off",))),
    ],
)
def test_jobs_that_were_written_otherwise_count_with_the_loop_and_without(
    brokerage: str, asked: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some decisions lost a job when they were written: those behind them found that room."""
    case = stored_case(brokerage)
    decisions = list(case.decisions)
    for at in (40, 70) if brokerage == JOBS else several_at_a_queue(case)[10:12]:
        fewer = {name: jobs - 1 for name, jobs in decisions[at].assigned.items() if jobs > 1}
        assert fewer
        decisions[at] = dataclasses.replace(decisions[at], assigned=fewer)
    case = dataclasses.replace(case, decisions=tuple(decisions))
    alone = Prepared(case, RULES).compared([asked])
    monkeypatch.setattr(loading, "mode", "always")
    assert Prepared(case, RULES).compared([asked]) == alone
    assert alone[0].totals[brokerage].jobs_before == sum((Counter(one.assigned) for one in decisions), Counter())


@pytest.mark.usefixtures("compiled_loop")
@pytest.mark.parametrize("brokerage", [JOBS, TASKS, ANALYSIS])
@pytest.mark.parametrize("loop", ["never", "always"])
def test_several_changes_at_once_give_what_each_gives_alone(
    brokerage: str, loop: Literal["never", "always"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "mode", loop)
    several = changes_of(brokerage)[:: len(changes_of(brokerage)) // (8 if brokerage == JOBS else 14)]
    case = dataclasses.replace(stored_case(brokerage), id=f"{brokerage} {loop}")
    together = decide_case(case, RULES, several)
    later = decide_case(case, RULES, several)  # the side before is known by then
    assert together == later == [Prepared(case, RULES).compared([one])[0] for one in several]
    assert Counter(one.total("changed") > 0 for one in together)[True] > 1
