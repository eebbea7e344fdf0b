"""Cycles stored with all learning switched on are decided again exactly, and differently with other values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker import resources
from broker.brokerages.profile import Profile, read_profile
from broker.decisions.answers.replay import Replayer
from broker.engine.job.running import Running
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import read_proposals
from broker.outcomes.statements.outcome_rows import note_refresh
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import decode
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import stored_cycles
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.whatif.answers.stored_cases import Selection, stored_cases
from broker.whatif.model.cases import Case, Change, ProfileRules
from broker.whatif.model.comparison import Totals
from broker.whatif.model.evaluate import decide_case
from tests.brokerages.small_grid import NOW, TASK, next_cycle
from tests.brokerages.stored_grids import ALPHA, GAMMA, SEED, flow_scenario
from tests.brokerages.test_analysis_scenarios import analysis

KEYS: dict[str, Any] = {
    "LEARNED_FAILING_QUEUES": True, "LEARNED_MOST_CLOSED_SHARE": 1.0, "LEARNED_TRIAL_JOBS": 3,
    "LEARNED_TASK_FAILS_HERE": True, "LEARNED_TAKE_BACK": True, "LEARNED_CAPACITY": True, "LEARNED_AVOID_NODES": True,
    "LEARNED_CAPACITY_AS_RUNNING": True, "LEARNED_REQUESTS": True, "SCOUT_REQUESTS": True,
    "LEARNED_RETRY_ELSEWHERE": True,
    "NQUEUELIMITSITE_MC Simulation": 200, "NQUEUELIMITSITE_Other": 200,
}  # fmt: skip
TYPES = {bool: "boolean", float: "float", int: "integer"}
NOW_S = NOW.timestamp()
HOUR = int(NOW_S // 3600)
_SET = """INSERT INTO doma_panda.config (app, component, key, vo, value, type, descr)
    VALUES ('jedi', 'jobbroker', :key, 'atlas', :value, :type, '-')"""
_HEALTH = """INSERT INTO broker.queue_health VALUES (:queue, :kind, '', :state, :statistic, :since, 20, 19, '{1,2,3}',
    '{}', :since, NULL, 1, :ended, :failed, :last, 1, 1, 1, 1)"""
_TASK = "INSERT INTO broker.task_ends VALUES (:task, :queue, :hour, :finished, :failed)"
_CORES = "INSERT INTO broker.queue_cores VALUES (:at, :queue, 'all', :most)"
_RECORD = """INSERT INTO broker.queue_record VALUES
    (:at, :queue, :kind, 'p', 'MCORE', 90, 10, 0, 0, 1, 1, 90, 9, 9, '{}')"""


def learn(database: Database, kind: str, beta_finished: int) -> None:
    """Close GAMMA, let the first task fail at ALPHA, and let some jobs finish at BETA: below 3 it is on trial."""
    at = NOW.replace(minute=0)
    health = {"kind": kind, "since": NOW_S - 3600, "last": NOW_S - 600}
    with database.begin() as connection:

        def execute(statement: str, **values: Any) -> None:
            connection.execute(sa.text(statement), values)

        for key, value in KEYS.items():
            execute(_SET, key=key, value=str(value), type=TYPES[type(value)])
        execute(_HEALTH, queue=GAMMA, state="excluded", statistic=15.0, ended=20, failed=19, **health)
        execute(_HEALTH, queue="BETA", state="healthy", statistic=0.0, ended=beta_finished, failed=0, **health)
        execute(_HEALTH, queue=ALPHA, state="healthy", statistic=0.0, ended=200, failed=10, **health)
        execute(_TASK, task=TASK, queue=ALPHA, hour=HOUR, finished=0, failed=4)
        execute(_TASK, task=TASK, queue="BETA", hour=HOUR, finished=9, failed=0)
        for queue, most in ((ALPHA, 160), ("BETA", 9000), (GAMMA, 80)):
            execute(_CORES, at=at, queue=queue, most=most)
            execute(_RECORD, at=at, queue=queue, kind=kind)
        note_refresh(connection, NOW)


def profile_of(name: str) -> Profile:
    return read_profile(shipped(name), shipped)


def shipped(name: str) -> str:
    return resources.path(f"config/profiles/{name}.yaml").read_text(encoding="utf-8")


def store(database: Database, grid: Scenario, kind: str, agent: str, profile: str) -> Case:
    """Run one cycle of a brokerage on a scenario with learned data and return it as a stored case."""
    load(database, grid)
    learn(database, kind, beta_finished=20 if profile == "flow" else 2)
    record, _ = next_cycle(database, SEED, agent, profile)
    assert (record.outcome, record.error) == ("done", None)
    (case,) = stored_cases(database, Selection())
    return case


def totals_with(case: Case, profile: str, *values: str) -> Totals:
    """Return the totals of deciding the case again with other values."""
    rules, proposals = ProfileRules(profile_of(profile)), read_proposals(shipped_catalogue(), values, "atlas")
    (comparison,) = decide_case(case, rules, [Change(proposals, rules)])
    return comparison.totals[case.brokerage]


pytestmark = pytest.mark.slow

CASES = {
    "jobs": ("production_job", "production", "seed", "LEARNED_FAILING_EVIDENCE=20"),
    "flow": ("production_job", "production", "flow", "LEARNED_CAPACITY_PRIOR=1000"),
    "analysis": ("analysis_job", "analysis", "seed", "LEARNED_FAILING_EVIDENCE=20"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cycle_with_all_learning_switched_on_is_decided_again_exactly(
    database: Database, name: str, tmp_path: Path
) -> None:
    agent, kind, profile, change = CASES[name]
    if profile == "flow":
        pytest.importorskip("highspy", reason="the extra flow is not installed")
    case = store(database, analysis() if agent == "analysis_job" else flow_scenario(), kind, agent, profile)
    same, changed = totals_with(case, profile), totals_with(case, profile, change)
    assert {"queue_unhealthy", "task_fails_here"} <= {code for code, count in same.rejected_before.items() if count}
    assert (same.changed, same.jobs_moved) == (0, 0) and same.rejected_before == same.rejected_after
    assert changed.changed or changed.jobs_moved
    (tmp_path / "broker.yaml").write_text(f"profile: {profile}\n", encoding="utf-8")
    with database.read_snapshot() as connection:
        replayer = Replayer(connection, TuningStore(database.names), pytest.fail, tmp_path)
        (cycle,) = stored_cycles(connection)
        comparisons = replayer.replay(cycle)
    assert len(comparisons) == len(cycle.decisions) > 0 and all(comparison.identical for comparison in comparisons)
    if name == "jobs":
        assert totals_with(case, profile, "LEARNED_TRIAL_JOBS=0").jobs_moved
        sources = {source: decode(*part) for source, part in case.snapshot.parts.items()}
        snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, sources, case.snapshot.states)
        free_jobs = Running().free_jobs(snapshot, case.published.tuning("atlas"))
        assert free_jobs is not None and free_jobs[snapshot.queues.unified_name == "BETA"].max() > 100
