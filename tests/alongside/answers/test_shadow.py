"""Shadow mode: our decisions compared with those of JEDI."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from broker.alongside.answers.shadow import ShadowComparison, add_placements, add_waits, shadow
from broker.alongside.answers.shadow_decisions import DecisionsByChunk, chances, criterion, refusal
from broker.alongside.answers.shadow_own import PlacementOwner
from broker.alongside.answers.shadow_tally import Tally
from broker.alongside.model.agreement import CONFIDENCE
from broker.alongside.statements.panda_placements import Placement, Wait
from broker.domain.decisions import Candidate, Decision, DecisionRecord, Origin, Outcome, StoredDecision
from broker.store.connection.database import Database
from tests.brokered_demo import NOON
from tests.cli.commands import Command, runner

AT = datetime(2026, 8, 1, 12, 30, tzinfo=UTC)
TASK, DATASET = 7, 70
AGE = timedelta(hours=2)
NO_OWN_PLACEMENTS = PlacementOwner({}, {})


def decision(outcome: Outcome = "brokered", **overrides: Any) -> Decision:
    values: dict[str, Any] = {
        "jeditaskid": TASK,
        "datasetid": DATASET,
        "ramcount": None,
        "brokerage": "production_job",
        "outcome": outcome,
        "reason": "" if outcome == "brokered" else "no_candidates",
        "candidates": (Candidate("A/SCORE", 3.0, {}), Candidate("B", 1.0, {})) if outcome == "brokered" else (),
        "rejected": {"C/SCORE": "lowmemory", "C/MCORE": "lowmemory", "D": "status"},
        "funnel": (),
    }
    return Decision(**{**values, **overrides})


def stored(decided: Decision, at: datetime = AT, last_seen: datetime | None = None) -> StoredDecision:
    return StoredDecision(1, Origin(None, at, None, 1, 0, ""), DecisionRecord(decided), 0, last_seen)


def placed(queue: str, jobs: int = 4, at: datetime = AT, dataset: int | None = DATASET, **overrides: Any) -> Placement:
    values = {"brokerage": "production_job", "jeditaskid": TASK, "share": "MC", "label": "managed", "first_at": at}
    return Placement(
        **{**values, "datasetid": dataset, "ramcount": 0.0, "queue": queue, "at": at, "jobs": jobs, **overrides}
    )


class Tallies:
    """The lines of a comparison."""

    def __init__(self, compared: ShadowComparison) -> None:
        tally: Tally = compared.whole
        self.brokerages, self.rules, self.queues = tally.brokerages(CONFIDENCE), tally.disagreements(), tally.queues()
        self.shares, self.hours = tally.shares(CONFIDENCE), tally.hours(CONFIDENCE)
        self.uncompared, self.own, self.deciders = tally.left_out(), tally.own(), compared.deciders
        self.share_consequences, self.by_chance = tally.share_consequences(), tally.by_chance()
        self.compared = compared


def tallies_of(
    placements: list[Placement],
    decisions: list[StoredDecision],
    waits: list[Wait] | None = None,
    own: PlacementOwner = NO_OWN_PLACEMENTS,
) -> Tallies:
    compared, decided = ShadowComparison(), DecisionsByChunk(decisions, AGE)
    add_placements(compared, placements, decided, own)
    add_waits(compared, waits or [], decided, own)
    return Tallies(compared)


@pytest.mark.parametrize(
    ("decided", "queue", "code"),
    [
        (decision(), "A", None),
        (decision(), "A/SCORE", None),
        (decision(), "B", None),
        (decision(), "D", "status"),
        (decision(), "C", "lowmemory"),
        (decision(), "E", "not_a_candidate"),
        (decision("pending"), "C/MCORE", "lowmemory"),
        (decision("pending"), "A", "no_candidates"),
        (decision("throttled", reason="throttled_running_jobs", rejected={}), "A", "throttled_running_jobs"),
        (decision().pending("candidates_full"), "A", "candidates_full"),
    ],
)  # fmt: skip
def test_refusal_names_the_deciding_rule(decided: Decision, queue: str, code: str | None) -> None:
    assert refusal(decided, queue) == code


def test_jobs_are_expected_by_weight_and_first_at_queues_without_jobs() -> None:
    assert chances(decision()) == {"A": 0.75, "B": 0.25}
    assert chances(decision("pending")) == {}
    new = (Candidate("A", 5.0, {}), Candidate("N", 0.0, {}, bootstrap=True), Candidate("M", 0.0, {}, bootstrap=True))
    assert chances(decision(candidates=new)) == {"N": 0.5, "M": 0.5}
    assert chances(decision(candidates=(Candidate("A", 0.0, {}),))) == {"A": 1.0}


def test_a_chunk_agrees_when_all_of_its_jobs_do() -> None:
    tallies = tallies_of([placed("A"), placed("B", 2), placed("C", 3)], [stored(decision())])
    (line,) = tallies.brokerages
    assert (line.jobs, line.compared_jobs, line.agreed_jobs, line.job_agreement) == (9, 9, 6, 6 / 9)
    assert (line.chunks, line.agreed_chunks) == (1, 0)
    # ours: 6.75 at A and 2.25 at B
    assert line.same_place == pytest.approx((4 + 2) / 9)
    (rule,) = tallies.rules
    assert (rule.side, rule.code, rule.jobs, rule.queues, rule.such_as) == ("panda_only", "lowmemory", 3, ("C",), (7,))
    assert [(row.queue, row.panda_jobs, row.our_jobs, row.main_code) for row in tallies.queues] == [
        ("A", 4, 6.75, None),
        ("C", 3, 0.0, "lowmemory"),
        ("B", 2, 2.25, None),
    ]
    assert [(row.share, row.agreed_jobs) for row in tallies.shares] == [("MC", 6)]
    assert [(row.hour, row.agreed_jobs) for row in tallies.hours] == [(AT.replace(minute=0), 6)]


@pytest.mark.parametrize(
    ("at", "last_seen", "reason"),
    [
        (AT + timedelta(seconds=1), None, "no_decision"),  # our decision came later
        (AT, None, None),
        (AT - AGE, None, None),
        (AT - AGE - timedelta(seconds=1), None, "too_old"),
        (AT - 3 * AGE, AT - AGE, None),  # later cycles confirmed it
        (AT - 3 * AGE, AT + AGE, None),
    ],
)
def test_the_decision_in_force_is_compared(at: datetime, last_seen: datetime | None, reason: str | None) -> None:
    tallies = tallies_of([placed("A")], [stored(decision(), at, last_seen)])
    assert [row.reason for row in tallies.uncompared] == ([] if reason is None else [reason])
    assert tallies.brokerages[0].jobs == 4 and tallies.brokerages[0].compared_jobs == (4 if reason is None else 0)


def test_the_last_decision_before_the_jobs_counts() -> None:
    first = stored(decision(), AT - timedelta(hours=1))
    later = stored(decision("pending"), AT + timedelta(minutes=1))
    assert tallies_of([placed("A")], [first, later]).brokerages[0].agreed_jobs == 4
    assert tallies_of([placed("A", at=AT + AGE)], [first, later]).rules[0].code == "no_candidates"


def test_a_chunk_is_matched_by_dataset_when_its_memory_has_changed() -> None:
    assert tallies_of([placed("A", ramcount=2000.0)], [stored(decision())]).brokerages[0].agreed_jobs == 4
    both = [stored(decision(ramcount=1000.0)), stored(decision(ramcount=3000.0))]
    assert tallies_of([placed("A", ramcount=2000.0)], both).uncompared[0].reason == "no_decision"
    assert tallies_of([placed("A", dataset=None)], [stored(decision())]).uncompared[0].reason == "no_dataset"


def test_waits_are_compared_with_all_chunks_of_the_task() -> None:
    wait = Wait("production_job", TASK, "MC", "managed", AT, "skip site=A criteria=-x ... criteria=-lowmemory")
    tallies = tallies_of([], [stored(decision("pending")), stored(decision(datasetid=71))], [wait])
    assert (tallies.brokerages[0].waits, tallies.brokerages[0].agreed_waits) == (1, 0)
    assert [(row.side, row.code, row.tasks) for row in tallies.rules] == [("ours_only", "lowmemory", 1)]
    agreeing = tallies_of([], [stored(decision("pending"))], [wait])
    assert (agreeing.brokerages[0].agreed_waits, agreeing.rules) == (1, ())
    assert tallies_of([], [], [wait]).uncompared[0].waits == 1
    assert criterion("brokerage failed for 1 input datasets when trying 1 datasets.") == "not_said"


def test_our_own_placements_are_not_mistaken_for_pandas(demo: Database, query_demo: Any) -> None:
    answer = query_demo(shadow, NOON - timedelta(minutes=1), AGE)
    own = {line.brokerage: line for line in answer.placed_by_ours}
    assert set(own) == {"production_job", "analysis_job", "production_task"}
    assert all(line.by == "agent" and line.jobs > 0 for line in own.values())
    assert not [line for line in answer.brokerages if line.compared_jobs]
    assert answer.consequences == answer.by_chance == ()
    analysis = query_demo(shadow, NOON - timedelta(minutes=1), AGE, "analysis_job")
    assert [line.brokerage for line in analysis.placed_by_ours] == ["analysis_job"]


@pytest.fixture
def broker(demo: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", demo.url)


def test_the_command_shows_tables_an_object_and_a_picture(broker: Command, tmp_path: Path) -> None:
    picture = tmp_path / "shadow.svg"
    result = broker("shadow", "--last", "1h", "--plot", str(picture))
    assert result.status == 0, result.err
    for words in ("placed by ours (an agent of ours), left out", "Differences, by the rule", "By share", "By label"):
        assert words in result.out
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    document = broker("shadow", "--last", "1h", "--json").document
    assert {"brokerages", "shares", "hours", "rules", "queues", "uncompared", "placed_by_ours"} < set(document)
    assert broker("shadow", "--plot", "x.doc").status == 2
    assert broker("shadow", "--brokerage", "nothing").status == 4
