"""A failing queue is detected in the closed loop, costs only its probe jobs, and its waiting jobs are moved."""

from __future__ import annotations

from typing import Any

import pytest

from broker.domain.queue_health import HealthLimits
from broker.rules.shared.filters.retry_elsewhere import RetryElsewhere
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.loop import ClosedLoop, Run
from broker.simulation.model.real.brokered import Brokered

pytestmark = pytest.mark.slow

PARAMETERS = GridParameters(days=0.5, queues=8, cores=600, nuclei=2, warm_up_s=7200.0)
ALL = {"LEARNED_FAILING_QUEUES": True, "LEARNED_TASK_FAILS_HERE": True, "LEARNED_TAKE_BACK": True}


def simulate(seed: int, profile: str = "seed", **values: Any) -> tuple[Run, Brokered]:
    policies: list[Brokered] = []

    def policy(scenario: Any, number: int) -> Brokered:
        policies.append(Brokered(scenario, number, values, profile))
        return policies[-1]

    run = ClosedLoop(make_grid("black_hole", PARAMETERS, seed), policy, seed).run()
    return run, policies[0]


@pytest.mark.parametrize(("profile", "seeds"), [("seed", (3, 4)), ("flow", (204, 208))])
def test_a_queue_on_probation_gets_only_its_probe_jobs(profile: str, seeds: tuple[int, ...]) -> None:
    if profile == "flow":
        pytest.importorskip("highspy", reason="the extra flow is not installed")
    most = 0
    for seed in seeds:
        run, policy = simulate(seed, profile, **ALL)
        most = max(most, policy.keeper.health.most_probes)
        assert not policy.faults and run.events > 0
    assert 0 < most <= HealthLimits().probe_jobs


def test_a_retry_avoids_the_queues_where_it_failed_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    avoided = [0]
    judge = RetryElsewhere.keep_among

    def counting(rule: RetryElsewhere, alive: Any, pairs: Any) -> Any:
        survivors = judge(rule, alive, pairs)
        assert (survivors & alive)[alive.any(axis=1)].any(axis=1).all()
        avoided[0] += int((alive & ~survivors).sum())
        return survivors

    monkeypatch.setattr(RetryElsewhere, "keep_among", counting)
    _, without = simulate(3)
    assert (avoided[0], without.faults) == (0, {})
    _, policy = simulate(3, LEARNED_RETRY_ELSEWHERE=True)
    assert avoided[0] > 0 and not policy.faults


def test_fewer_jobs_fail_with_learning_and_runs_are_reproducible() -> None:
    def failed(run: Run) -> int:
        return len(run.runs.of("failed"))

    without = [failed(simulate(seed)[0]) for seed in (3, 4)]
    learned = [failed(simulate(seed, **ALL)[0]) for seed in (3, 4)]
    assert sum(learned) < sum(without)
    assert failed(simulate(3, **ALL)[0]) == learned[0]
