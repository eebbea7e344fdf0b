"""The profile ``flow``: the chunks of a cycle decided together, stored, explained and decided again."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
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
from broker.engine.job.placement import FLOW_CODES
from broker.flow.model.cycle import decide
from broker.flow.model.flow_problem import program_of, share_debts
from broker.flow.model.problem import FlowProblem
from broker.flow.model.program import SolverMissing
from broker.gdpconfig import Tuning
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import read_proposals
from broker.snapshot.snapshot import Snapshot
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import StoredCycle, stored_cycles
from broker.store.query_context import Asking
from broker.store.snapshots.stored_snapshots import stored_snapshot
from broker.whatif.answers.stored_cases import Selection, stored_cases
from broker.whatif.model.cases import Change, ProfileRules
from broker.whatif.model.evaluate import decide_case
from tests.brokerages.small_grid import NOW, TASK, one_cycle
from tests.brokerages.stored_grids import ALPHA, BETA, GAMMA, SEED, flow_scenario
from tests.conftest import TestServer

#: Caps that hold nothing here.
WIDE = {"NQUEUELIMITSITE_MC Simulation": 200, "NQUEUELIMITSITE_Other": 200}


@dataclasses.dataclass(frozen=True)
class Stored:
    """One cycle as it was stored."""

    database: Database
    snapshot: Snapshot
    cycle: StoredCycle
    rules: Rules

    def batch(self) -> StoredChunks:
        (found,) = decode_batches(self.brokerage, [one.record.work or b"" for one in self.cycle.decisions])
        assert isinstance(found, StoredChunks)
        return found

    @property
    def brokerage(self) -> JobBrokerage:
        found = brokerage_of("production_job")
        assert isinstance(found, JobBrokerage)
        return found

    def tuning(self, **values: Any) -> Tuning:
        return Tuning(self.cycle.origin.tuning, "atlas").with_values(values)

    def again(self, as_stored: bool = False, **values: Any) -> list[ReplayedDecision]:
        tuning = self.tuning(**values)
        return replay_decisions(
            self.brokerage, self.snapshot, lambda vo: tuning, [self.batch()], SEED, self.rules, as_stored=as_stored
        )

    def jobs(self, found: list[ReplayedDecision]) -> list[dict[str, int]]:
        return [dict(one.assigned or {}) for one in found]


@pytest.fixture(scope="module")
def stored(test_server: TestServer) -> Iterator[Stored]:
    """The cycle of :func:`flow_scenario`, decided once."""
    url = test_server.create()
    with Database(url) as database:
        record, _ = one_cycle(database, flow_scenario(), seed=SEED, profile="flow")
        assert record.outcome == "done", record
        with database.begin() as connection:
            (cycle,) = stored_cycles(connection)
            snapshot = stored_snapshot(connection, cycle.origin.snapshot or "")
        yield Stored(database, snapshot, cycle, rules_of(load_profile("flow"), "production_job"))
    test_server.drop(sa.make_url(url).database or "")


def test_jobs_are_assigned_up_to_the_caps_and_the_rest_is_left_over(stored: Stored) -> None:
    records = [one.record for one in stored.cycle.decisions]
    assert [one.decision.outcome for one in records] == ["brokered", "brokered", "brokered", "pending"]
    share = [sum(one.assigned.get(name, 0) for one in records[:2]) for name in (ALPHA, BETA, GAMMA)]
    # twice the running jobs of the share, but at least 20, without those that wait
    assert share == [2 * 20 - 5, 2 * 30 - 20, 20 - 2]
    assert sum(records[0].assigned.values()) == 60, "the higher priority goes first"
    assert "flow_left:27" in records[1].decision.notes
    assert [one.name for one in records[1].decision.candidates] == [GAMMA, BETA], "most jobs first"
    assert set(records[1].decision.rejected.values()) & set(FLOW_CODES) == {"flow_left_over"}
    assert [one.plan is not None for one in stored.batch().stored.load] == [True] * 4


def test_replay_decides_the_chunks_together_again(stored: Stored) -> None:
    for as_stored in (False, True):
        found = stored.again(as_stored=as_stored)
        assert [one.decision for one in found] == [one.record.decision for one in stored.cycle.decisions]
        assert stored.jobs(found) == [dict(one.record.assigned) for one in stored.cycle.decisions]
        assert [one.before for one in found] == list(stored.batch().load_before)
    tuning = stored.tuning()
    decided = replay(stored.cycle.decisions, stored.snapshot, lambda vo: tuning, stored.rules, whole=True)
    assert all(one.identical for one in decided)


def test_a_chunk_is_decided_alone_by_its_part_of_the_plan(stored: Stored) -> None:
    for one in stored.cycle.decisions:
        (batch,) = decode_batches(stored.brokerage, [one.record.work or b""])
        again = stored.brokerage.decide_again(stored.snapshot, stored.tuning(), batch, stored.rules)
        assert again == one.record.decision


def test_other_values_are_decided_together_too(stored: Stored) -> None:
    assert stored.brokerage.replayed_cycle(stored.snapshot, stored.tuning(), stored.batch(), stored.rules) is None
    more = stored.jobs(stored.again(**WIDE))
    assert [sum(jobs.values()) for jobs in more] == [60, 60, 60, 0]
    dear = stored.jobs(stored.again(**WIDE, FLOW_BYTE_PRICE=1000.0))
    assert sum(jobs.get(GAMMA, 0) for jobs in dear) < sum(jobs.get(GAMMA, 0) for jobs in more)


def cycle_of(stored: Stored, **values: Any) -> JobsCycle:
    work = stored.batch().work
    assert work is not None
    return stored.brokerage.cycle(stored.snapshot, work, stored.tuning(**values), stored.rules)


def test_a_share_lacks_what_its_target_has_over_its_running_jobs(stored: Stored) -> None:
    # 63 jobs of 8 cores of 10 HS06 run, 3 of them of the share that is to have 60 %
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
    slow = dataclasses.replace(snapshot, links=links)
    engine = stored.brokerage.engine_cycle(snapshot, work.work, stored.tuning(**WIDE), stored.rules)
    problem = program_of(engine, list(engine.results()), work).problem
    assert (problem.queues.link == -1).all(), "nothing was measured"
    engine.snapshot = slow
    made = program_of(engine, list(engine.results()), work).problem
    assert made.link_gb[gamma] == pytest.approx(6.0 * 1800 / 1000) and made.link_gb.sum() == made.link_gb[gamma]

    def moved(one: FlowProblem) -> float:
        jobs = decide(one, SEED).jobs
        return float((one.chunks.input_gb[one.pairs.chunk] * one.pairs.missing * jobs).sum())

    assert 0 < moved(made) <= made.link_gb[gamma] < moved(problem)


def test_past_the_time_limit_the_greedy_order_is_recorded_and_replayed(stored: Stored) -> None:
    cycle = cycle_of(stored, FLOW_TIME_LIMIT=0.0)
    chunks = list(cycle.assign(SEED))
    assert all("flow_fallback:time_limit" in one.decision.notes for one in chunks[:3])
    assert [one.before.plan.solver for one in chunks if one.before.plan is not None] == ["greedy"] * 4
    (batch,) = decode_batches(stored.brokerage, [cycle.encode(one) for one in chunks])
    tuning = stored.tuning()
    again = replay_decisions(stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, stored.rules)
    assert [one.decision for one in again] == [one.decision for one in chunks]
    assert stored.jobs(again) == [one.assigned(stored.snapshot.queues.name) for one in chunks]


def test_a_canary_tries_prices_on_some_chunks_of_one_program(stored: Stored) -> None:
    found = {}
    for name, other in (("same", {}), ("dear", {"FLOW_BYTE_PRICE": 1000.0})):
        rows = np.array([False, True, False, False])
        split = cycle_of(stored, **WIDE).split(cycle_of(stored, **WIDE, **other), rows)
        found[name] = [one.assigned(stored.snapshot.queues.name) for one in split.assign(SEED)]
    assert found["same"] == stored.jobs(stored.again(**WIDE))
    assert found["dear"][1].get(GAMMA, 0) == 0 < found["same"][1].get(GAMMA, 0)
    assert [sum(jobs.values()) for jobs in found["dear"]] == [60, 60, 60, 0]


def test_a_chunk_that_a_canary_chose_is_replayed_with_what_was_tried(stored: Stored) -> None:
    tried = {**WIDE, "FLOW_BYTE_PRICE": 1000.0}
    split = cycle_of(stored, **WIDE).split(cycle_of(stored, **tried), np.array([False, True, False, False]))
    chunk = list(split.assign(SEED))[1]
    (batch,) = decode_batches(stored.brokerage, [split.encode(chunk)])
    tuning = stored.tuning(**tried)
    (again,) = replay_decisions(
        stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, stored.rules, as_stored=True
    )
    assert again.decision == chunk.decision
    assert dict(again.assigned or {}) == chunk.assigned(stored.snapshot.queues.name)


def test_a_cycle_in_which_nothing_fits_needs_no_solver(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    *_, last = stored.cycle.decisions
    (batch,) = decode_batches(stored.brokerage, [last.record.work or b""])
    tuning = stored.tuning()
    (again,) = replay_decisions(stored.brokerage, stored.snapshot, lambda vo: tuning, [batch], SEED, stored.rules)
    assert (again.decision.outcome, again.decision.reason, again.assigned) == ("pending", "no_candidates", {})


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
    alone = replay_decisions(stored.brokerage, stored.snapshot, lambda vo: tuning, [stored.batch()], SEED, rules)
    by_weight: Counter[str] = sum((Counter(jobs) for jobs in stored.jobs(alone)), Counter())
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


def test_users_chunks_are_not_decided_together() -> None:
    entry = {"brokerage": "analysis_job", "steps": {"placement": {"by": "flow"}}}
    with pytest.raises(ProfileError, match="analysis_job: placement: option by"):
        rules_of(read_profile(yaml.safe_dump({"profile": "own", "brokerages": [entry]})), "analysis_job")


def test_a_plan_is_stored_and_read_back(stored: Stored) -> None:
    for load in stored.batch().stored.load:
        assert CountedLoad.of_stored(load.stored()) == load


def asking(stored: Stored, folder: Path, answer: Any, *arguments: Any) -> Any:
    """The answer of an installation with the profile ``flow``."""
    (folder / "broker.yaml").write_text("profile: flow\n", encoding="utf-8")
    with stored.database.begin() as connection:
        return answer(Asking(connection, stored.database.names, NOW, folder), *arguments)


def test_explain_has_every_feasible_queue_with_its_reduced_cost_and_what_binds(stored: Stored, tmp_path: Path) -> None:
    (one,) = asking(stored, tmp_path, task_decision, TASK + 1).decisions
    together = one.together
    assert (together.left, together.fallback) == (27, "")
    assert [(queue.name, queue.planned, queue.code) for queue in together.queues] == [
        (GAMMA, 18, ""),
        (BETA, 15, ""),
        (ALPHA, 0, "flow_left_over"),
    ]
    assert together_sentence(together).endswith("together; 27 jobs of this one have no place yet.")
    assert feasible_sentence(together.queues[2]) == "left over: the limits leave jobs without a place"
    assert {line.probability for line in one.candidates} == {None}, "nothing was drawn"
    (none,) = asking(stored, tmp_path, task_decision, TASK + 3).decisions
    assert none.together is None and none.remedies.helpful


def test_why_not_says_what_binds_and_by_how_much(stored: Stored, tmp_path: Path) -> None:
    ((line,), (full,)) = (
        asking(stored, tmp_path, why_not, stored.database, TASK + n, name).answers
        for n, name in ((1, ALPHA), (0, GAMMA))
    )
    assert (line.candidate.code, line.candidate.rule, line.candidate.kind) == ("flow_left_over", "flow", "ranking")
    seen = full.candidate.compared
    assert (seen.operator, seen.limit, seen.unit, seen.key) == ("<", 0.0, "HS06 h", "NQUEUELIMITSITE")
    assert seen.inputs["solver"].startswith("HiGHS")
    assert "queue full" in candidate_sentence(full.candidate) and "HS06 h dearer" in candidate_sentence(full.candidate)


def test_the_commands_show_it(stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asking(stored, tmp_path, task_decision, TASK + 1)
    show_decision(found, found.decisions[0])
    shown = capsys.readouterr().out
    assert "HS06 h dearer" in shown and "left over: the limits" in shown
    assert "flow:ALPHA" not in shown, "figures of queues are no notes for readers"
