"""The profile ``flow``: the chunks of a cycle are decided together, stored, explained and decided again."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agents.service.configuration import load_profile
from broker.brokerages.base import ReplayedDecision, Rules
from broker.brokerages.job.brokerage import JobBrokerage, JobsCycle, StoredChunks
from broker.brokerages.profile import ProfileError, read_profile, rules_of
from broker.brokerages.registry import brokerage as brokerage_of, decode_batches, replay_decisions
from broker.decisions.answers.decision import task_decision
from broker.decisions.answers.replay import replay
from broker.decisions.answers.sentences import candidate_sentence, feasible_sentence, together_sentence
from broker.decisions.answers.why_not import why_not
from broker.decisions.commands.explain import show_decision
from broker.domain.counted_load import CountedLoad
from broker.flow.model.cycle import decide
from broker.flow.model.flow_problem import program_of, share_debts
from broker.flow.model.placement import FLOW_CODES, FLOW_REASONS, FlowPlacement
from broker.flow.model.problem import FlowProblem
from broker.flow.model.program import SolverMissing
from broker.gdpconfig import Tuning
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import read_proposals
from broker.snapshot.snapshot import Snapshot
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import StoredCycle, stored_cycles
from broker.store.query_context import QueryContext
from broker.store.snapshots.stored_snapshots import stored_snapshot
from broker.whatif.answers.stored_cases import Selection, stored_cases
from broker.whatif.model.cases import Change, ProfileRules
from broker.whatif.model.evaluate import decide_case
from tests.brokerages.page_placement import offer_page_placement, rules_with
from tests.brokerages.small_grid import NOW, TASK, one_cycle
from tests.brokerages.stored_grids import ALPHA, BETA, GAMMA, SEED, flow_scenario
from tests.conftest import TestServer

#: Caps too wide to bind here.
WIDE = {"NQUEUELIMITSITE_MC Simulation": 200, "NQUEUELIMITSITE_Other": 200}


@dataclasses.dataclass(frozen=True)
class Stored:
    """A stored cycle."""

    database: Database
    snapshot: Snapshot
    cycle: StoredCycle
    rules: Rules

    def batch(self) -> StoredChunks:
        (chunks,) = decode_batches(self.brokerage, [original.record.work or b"" for original in self.cycle.decisions])
        assert isinstance(chunks, StoredChunks)
        return chunks

    @property
    def brokerage(self) -> JobBrokerage:
        job_brokerage = brokerage_of("production_job")
        assert isinstance(job_brokerage, JobBrokerage)
        return job_brokerage

    def tuning(self, **values: Any) -> Tuning:
        return Tuning(self.cycle.origin.tuning, "atlas").with_values(values)

    def again(self, as_stored: bool = False, **values: Any) -> list[ReplayedDecision]:
        tuning = self.tuning(**values)
        return replay_decisions(
            self.brokerage, self.snapshot, lambda vo: tuning, [self.batch()], SEED, self.rules, as_stored=as_stored
        )

    def jobs(self, results: list[ReplayedDecision]) -> list[dict[str, int]]:
        return [dict(result.assigned or {}) for result in results]


@pytest.fixture(scope="module")
def stored(test_server: TestServer) -> Iterator[Stored]:
    """Store the cycle of :func:`flow_scenario` once."""
    with test_server.opened(test_server.create()) as database:
        record, _ = one_cycle(database, flow_scenario(), seed=SEED, profile="flow")
        assert record.outcome == "done", record
        with database.begin() as connection:
            (cycle,) = stored_cycles(connection)
            snapshot = stored_snapshot(connection, cycle.origin.snapshot or "")
        yield Stored(database, snapshot, cycle, rules_of(load_profile("flow"), "production_job"))


def test_jobs_are_assigned_up_to_the_caps_and_the_rest_waits(stored: Stored) -> None:
    records = [original.record for original in stored.cycle.decisions]
    assert [record.decision.outcome for record in records] == ["brokered", "brokered", "brokered", "pending"]
    share = [sum(record.assigned.get(name, 0) for record in records[:2]) for name in (ALPHA, BETA, GAMMA)]
    # twice the running jobs of the share, but at least 20, minus the waiting ones
    assert share == [2 * 20 - 5, 2 * 30 - 20, 20 - 2]
    assert sum(records[0].assigned.values()) == 60, "the higher priority goes first"
    assert "flow_left:27" in records[1].decision.notes
    assert [candidate.name for candidate in records[1].decision.candidates] == [GAMMA, BETA], "most jobs first"
    assert set(records[1].decision.rejected.values()) & set(FLOW_CODES) == {"flow_left_over"}
    assert [load.plan is not None for load in stored.batch().stored.load] == [True] * 4


def test_replay_decides_the_chunks_together_again(stored: Stored) -> None:
    for as_stored in (False, True):
        results = stored.again(as_stored=as_stored)
        assert [result.decision for result in results] == [
            original.record.decision for original in stored.cycle.decisions
        ]
        assert stored.jobs(results) == [dict(original.record.assigned) for original in stored.cycle.decisions]
        assert [result.before for result in results] == list(stored.batch().load_before)
    tuning = stored.tuning()
    comparisons = replay(stored.cycle.decisions, stored.snapshot, lambda vo: tuning, stored.rules, whole=True)
    assert all(comparison.identical for comparison in comparisons)


def test_a_chunk_is_decided_alone_by_its_part_of_the_plan(stored: Stored) -> None:
    for original in stored.cycle.decisions:
        (batch,) = decode_batches(stored.brokerage, [original.record.work or b""])
        decision = stored.brokerage.decide_again(stored.snapshot, stored.tuning(), batch, stored.rules)
        assert decision == original.record.decision


def test_other_values_are_decided_together_too(stored: Stored) -> None:
    assert stored.brokerage.replayed_cycle(stored.snapshot, stored.tuning(), stored.batch(), stored.rules) is None
    with_wide_caps = stored.jobs(stored.again(**WIDE))
    assert [sum(jobs.values()) for jobs in with_wide_caps] == [60, 60, 60, 0]
    with_dear_bytes = stored.jobs(stored.again(**WIDE, FLOW_BYTE_PRICE=1000.0))
    assert sum(jobs.get(GAMMA, 0) for jobs in with_dear_bytes) < sum(jobs.get(GAMMA, 0) for jobs in with_wide_caps)


def cycle_of(stored: Stored, **values: Any) -> JobsCycle:
    work = stored.batch().work
    assert work is not None
    return stored.brokerage.cycle(stored.snapshot, work, stored.tuning(**values), stored.rules)


def test_the_debt_of_a_share_is_its_target_minus_its_running_jobs(stored: Stored) -> None:
    # 63 jobs of 8 cores of 10 HS06 run, 3 of them of the share with a target of 60 %
    debts = share_debts(stored.snapshot, ["MC Simulation", "Other", "unknown"])
    assert debts == pytest.approx([0, 0.6 * 5040 - 240, 0])


def test_a_site_gets_no_more_input_than_its_best_measured_link_moves(stored: Stored) -> None:
    snapshot = stored.snapshot
    gamma = int(snapshot.queues.storage_site[snapshot.queues.name == GAMMA][0])
    measured = np.full((len(snapshot.links.sites), 2), np.nan)
    measured[gamma] = 4.0, 6.0
    unknown = np.full_like(measured, np.nan)
    links = dataclasses.replace(snapshot.links, mbps_1h=measured, mbps_1d=unknown, mbps_1w=unknown)
    work = stored.batch().work
    assert work is not None
    limited_snapshot = dataclasses.replace(snapshot, links=links)
    engine = stored.brokerage.engine_cycle(snapshot, work.work, stored.tuning(**WIDE), stored.rules)
    problem = program_of(engine, list(engine.results()), work).problem
    assert (problem.queues.link == -1).all(), "nothing was measured"
    engine.snapshot = limited_snapshot
    limited = program_of(engine, list(engine.results()), work).problem
    assert (
        limited.link_gb[gamma] == pytest.approx(6.0 * 1800 / 1000) and limited.link_gb.sum() == limited.link_gb[gamma]
    )

    def moved_gb(flow_problem: FlowProblem) -> float:
        jobs = decide(flow_problem, SEED).jobs
        return float((flow_problem.chunks.input_gb[flow_problem.pairs.chunk] * flow_problem.pairs.missing * jobs).sum())

    assert 0 < moved_gb(limited) <= limited.link_gb[gamma] < moved_gb(problem)


def test_past_the_time_limit_the_greedy_order_is_recorded_and_replayed(stored: Stored) -> None:
    cycle = cycle_of(stored, FLOW_TIME_LIMIT=0.0)
    chunks = list(cycle.assign(SEED))
    assert all("flow_fallback:time_limit" in chunk.decision.notes for chunk in chunks[:3])
    assert [chunk.before.plan.solver for chunk in chunks if chunk.before.plan is not None] == ["greedy"] * 4
    (batch,) = decode_batches(stored.brokerage, [cycle.encode(chunk) for chunk in chunks])
    tuning = stored.tuning()
    results = replay_decisions(stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, stored.rules)
    assert [result.decision for result in results] == [chunk.decision for chunk in chunks]
    assert stored.jobs(results) == [chunk.assigned(stored.snapshot.queues.name) for chunk in chunks]


def test_a_canary_tries_prices_on_some_chunks_of_one_program(stored: Stored) -> None:
    jobs_by_name = {}
    for name, changes in (("same", {}), ("dear", {"FLOW_BYTE_PRICE": 1000.0})):
        rows = np.array([False, True, False, False])
        split = cycle_of(stored, **WIDE).split(cycle_of(stored, **WIDE, **changes), rows)
        jobs_by_name[name] = [chunk.assigned(stored.snapshot.queues.name) for chunk in split.assign(SEED)]
    assert jobs_by_name["same"] == stored.jobs(stored.again(**WIDE))
    assert jobs_by_name["dear"][1].get(GAMMA, 0) == 0 < jobs_by_name["same"][1].get(GAMMA, 0)
    assert [sum(jobs.values()) for jobs in jobs_by_name["dear"]] == [60, 60, 60, 0]


def test_a_chunk_of_a_canary_is_replayed_with_the_values_of_the_canary(stored: Stored) -> None:
    values = {**WIDE, "FLOW_BYTE_PRICE": 1000.0}
    split = cycle_of(stored, **WIDE).split(cycle_of(stored, **values), np.array([False, True, False, False]))
    chunk = list(split.assign(SEED))[1]
    (batch,) = decode_batches(stored.brokerage, [split.encode(chunk)])
    tuning = stored.tuning(**values)
    (result,) = replay_decisions(
        stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, stored.rules, as_stored=True
    )
    assert result.decision == chunk.decision
    assert dict(result.assigned or {}) == chunk.assigned(stored.snapshot.queues.name)


def test_a_cycle_in_which_nothing_fits_needs_no_solver(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    *_, last = stored.cycle.decisions
    (batch,) = decode_batches(stored.brokerage, [last.record.work or b""])
    tuning = stored.tuning()
    (result,) = replay_decisions(stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, stored.rules)
    assert (result.decision.outcome, result.decision.reason, result.assigned) == ("pending", "no_candidates", {})


def test_what_if_compares_cycles_that_are_decided_together(stored: Stored) -> None:
    (case,) = stored_cases(stored.database, Selection())
    rules = ProfileRules(load_profile("flow"))

    def change(*values: str) -> Change:
        return Change(read_proposals(shipped_catalogue(), values, "atlas"), rules)

    same, wide = decide_case(case, rules, [change(), change("NQUEUELIMITSITE_MC Simulation=200")])
    assert (same.total("jobs_moved"), same.tasks) == (0, {})
    assert wide.total("jobs_moved") >= 27, "what was left over has room now"


def test_what_if_compares_with_the_order_by_weight(stored: Stored) -> None:
    (case,) = stored_cases(stored.database, Selection())
    flow, seed = (ProfileRules(load_profile(name)) for name in ("flow", "seed"))
    tuning, rules = stored.tuning(), rules_of(load_profile("seed"), "production_job")
    results = replay_decisions(stored.brokerage, stored.snapshot, lambda vo: tuning, [stored.batch()], SEED, rules)
    by_weight: Counter[str] = sum((Counter(jobs) for jobs in stored.jobs(results)), Counter())
    together: Counter[str] = sum((Counter(jobs) for jobs in stored.jobs(stored.again())), Counter())
    assert by_weight != together
    for before, after, jobs in ((flow, seed, (together, by_weight)), (seed, flow, (by_weight, together))):
        totals = decide_case(case, before, [Change((), after)])[0].totals["production_job"]
        assert (totals.jobs_before, totals.jobs_after) == jobs


def test_without_the_solver_the_message_names_the_extra(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissing, match=r"gridbroker\[flow\]"):
        list(cycle_of(stored).assign(SEED))
    assert stored.again(as_stored=True), "what was stored is explained without it"


def test_chunks_of_users_cannot_be_decided_together() -> None:
    entry = {"brokerage": "analysis_job", "steps": {"placement": {"by": "flow"}}}
    with pytest.raises(ProfileError, match="analysis_job: placement: option by"):
        rules_of(read_profile(yaml.safe_dump({"profile": "own", "brokerages": [entry]})), "analysis_job")


def test_a_plan_is_stored_and_read_back(stored: Stored) -> None:
    for load in stored.batch().stored.load:
        assert CountedLoad.of_stored(load.stored()) == load


def ask(stored: Stored, folder: Path, answer: Any, *arguments: Any) -> Any:
    """Return the answer of an installation with the profile ``flow``."""
    (folder / "broker.yaml").write_text("profile: flow\n", encoding="utf-8")
    with stored.database.begin() as connection:
        return answer(QueryContext(connection, stored.database.names, NOW, folder), *arguments)


def test_explain_shows_reduced_cost_and_binding_limit_of_every_feasible_queue(stored: Stored, tmp_path: Path) -> None:
    (decision,) = ask(stored, tmp_path, task_decision, TASK + 1).decisions
    together = decision.together
    assert (together.left, together.fallback) == (27, "")
    assert [(queue.name, queue.planned, queue.code) for queue in together.queues] == [
        (GAMMA, 18, ""),
        (BETA, 15, ""),
        (ALPHA, 0, "flow_left_over"),
    ]
    assert together_sentence(together).endswith("together; 27 jobs of this one have no place yet.")
    assert feasible_sentence(together.queues[2]) == "left over: the limits leave jobs without a place"
    assert {line.probability for line in decision.candidates} == {None}, "nothing was drawn"
    (unplaced,) = ask(stored, tmp_path, task_decision, TASK + 3).decisions
    assert unplaced.together is None and unplaced.remedies.helpful


def test_why_not_shows_the_binding_limit_and_its_cost(stored: Stored, tmp_path: Path) -> None:
    ((left_over,), (full,)) = (
        ask(stored, tmp_path, why_not, stored.database, TASK + n, name).answers for n, name in ((1, ALPHA), (0, GAMMA))
    )
    assert (left_over.candidate.code, left_over.candidate.rule, left_over.candidate.kind) == (
        "flow_left_over",
        "flow",
        "ranking",
    )
    observation = full.candidate.compared
    assert (observation.operator, observation.limit, observation.unit, observation.key) == (
        "<",
        0.0,
        "HS06 h",
        "NQUEUELIMITSITE",
    )
    assert observation.inputs["solver"].startswith("HiGHS")
    assert "queue full" in candidate_sentence(full.candidate) and "HS06 h dearer" in candidate_sentence(full.candidate)


def test_the_command_shows_queues_and_reasons(
    stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explanation = ask(stored, tmp_path, task_decision, TASK + 1)
    show_decision(explanation, explanation.decisions[0])
    text = capsys.readouterr().out
    assert "HS06 h dearer" in text and "left over: the limits" in text
    assert "flow:ALPHA" not in text, "figures of queues are no notes for readers"


@pytest.fixture
def lot_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rules:
    """Rules with the placement of a package, whose plans have other codes than those of ``flow``."""
    offer_page_placement(monkeypatch, tmp_path)
    return rules_with(by="lot")


def test_the_placement_of_a_package_decides_and_replays_a_cycle(stored: Stored, lot_rules: Rules) -> None:
    work, tuning = stored.batch().work, stored.tuning()
    assert work is not None
    cycle = stored.brokerage.cycle(stored.snapshot, work, tuning, lot_rules)
    chunks = list(cycle.assign(SEED))
    jobs = [chunk.assigned(stored.snapshot.queues.name) for chunk in chunks]
    assert [len(of_chunk) for of_chunk in jobs] == [1, 1, 1, 0], "one queue gets all jobs of a chunk"
    assert all("not_drawn" in chunk.decision.rejected.values() for chunk in chunks[:3])
    (batch,) = decode_batches(stored.brokerage, [cycle.encode(chunk) for chunk in chunks])
    for as_stored in (False, True):
        results = replay_decisions(
            stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, lot_rules, as_stored=as_stored
        )
        assert stored.jobs(results) == jobs
        assert [result.decision for result in results] == [chunk.decision for chunk in chunks]


def test_a_stored_plan_of_another_placement_counts_as_none(stored: Stored, lot_rules: Rules) -> None:
    tuning, brokerage = stored.tuning(), stored.brokerage
    for original in stored.cycle.decisions[:2]:
        (batch,) = decode_batches(brokerage, [original.record.work or b""])
        assert isinstance(batch, StoredChunks)
        decision = brokerage.decide_again(stored.snapshot, tuning, batch, lot_rules)
        assert decision.outcome == "brokered" and decision.notes == ()
        asked = (stored.snapshot, tuning, batch, lot_rules, original.record.decision)
        verdicts = [*brokerage.why_not(*asked, ALPHA), *brokerage.why_not_each(*asked)]
        assert not {verdict.code for verdict in verdicts} & set(FLOW_CODES)
        without_cut = dataclasses.replace(batch, stored=dataclasses.replace(batch.stored, cuts=(None,)))
        (alone,) = brokerage.replay(stored.snapshot, tuning, without_cut, SEED, lot_rules, as_stored=True)
        assert alone.decision == decision
    planned, again = (
        replay_decisions(
            brokerage, stored.snapshot, lambda vo: tuning, [stored.batch()], SEED, lot_rules, as_stored=as_stored
        )
        for as_stored in (False, True)
    )
    assert [len(jobs) for jobs in stored.jobs(again)] == [1, 1, 1, 0], "the cycle is planned again"
    assert stored.jobs(again) == stored.jobs(planned)


def test_a_plan_with_a_code_that_its_placement_lacks_is_a_fault(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlowPlacement, "gives", FLOW_REASONS[:-1])
    with pytest.raises(ValueError, match="placement flow plans with codes of no reason in its gives: flow_left_over"):
        list(cycle_of(stored).assign(SEED))
