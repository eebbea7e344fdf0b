"""Queues that are closed for how jobs end there: by kind of jobs, at most a share of them, and open for few probes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from broker.domain.queue_health import ANALYSIS, PRODUCTION
from broker.rules.contract import JobPairs
from broker.rules.shared.filters.queue_unhealthy import EVIDENCE, MOST_CLOSED, SWITCH, QueueUnhealthy
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.queue_health import (
    QUEUE_HEALTH,
    LearnedHealth,
    QueueHealthSource,
    failing_queues,
    group_sizes,
    on_probation,
    on_trial,
)
from tests.rules.builders import tuning_for

NOW_S = 1_785_585_600.0
ON = {SWITCH: True}


def health(state: str = "excluded", statistic: float = 11.0, **more: Any) -> LearnedHealth:
    figures = {"ended_jobs": 50, "failed_jobs": 47, "failed_tasks": 9, "hours": 6.0, "until_s": math.nan}
    return LearnedHealth(state, statistic, **(figures | more))  # type: ignore[arg-type]


def grid(queues: int = 20, jobs: float = 0.0, **learned: LearnedHealth) -> Any:
    """Queues Q0, Q1 ... of which the first has two candidates; ``Q0_production`` is what is known of it."""
    names = [f"Q{place}" for place in range(queues)]
    unified = np.array([0, *range(queues)])
    counts = np.zeros((queues, 6))
    counts[:, 2] = jobs
    known = {tuple(name.split("_")): one for name, one in learned.items()}
    return SimpleNamespace(
        now_s=NOW_S,
        offered={QUEUE_HEALTH: known},
        jobs=SimpleNamespace(total=counts),
        unified=SimpleNamespace(name=np.array(names, dtype=object), status=np.array(["online"] * queues, dtype=object)),
        queues=SimpleNamespace(unified=unified, unified_name=np.array(names, dtype=object)[unified]),
    )


def pairs_of(snapshot: Any, labels: tuple[str, ...] = ("managed",), single: bool = False, **keys: Any) -> JobPairs:
    rule = QueueUnhealthy()
    tuning = tuning_for(rule, **keys)
    work = SimpleNamespace(chunks=[None] * len(labels))
    return JobPairs(
        SimpleNamespace(prodsourcelabel=np.array(labels, dtype=object)[:, None]),  # type: ignore[arg-type]
        SimpleNamespace(unified_name=snapshot.queues.unified_name[None, :]),  # type: ignore[arg-type]
        SimpleNamespace(one_preassigned=np.array([[single]])),  # type: ignore[arg-type]
        tuning,
        np.arange(len(labels)),
        np.arange(len(snapshot.queues.unified)),
        {rule.name: rule.prepare(snapshot, work, tuning)},
    )


def closed(snapshot: Any, labels: tuple[str, ...] = ("managed",), **keys: Any) -> list[list[int]]:
    """For each chunk the positions of the candidates that it may not have."""
    pairs, rule = pairs_of(snapshot, labels, **{**ON, **keys}), QueueUnhealthy()
    if not rule.applies(pairs).any():
        return [[] for _ in labels]
    kept = np.broadcast_to(rule.keep(pairs), (len(labels), len(snapshot.queues.unified)))
    return [np.flatnonzero(~row).tolist() for row in kept]


@pytest.mark.parametrize(
    ("learned", "keys", "expected"),
    [
        ({"Q0_production": health()}, {}, [0, 1]),
        ({"Q0_production": health("suspected")}, {}, []),
        ({"Q0_production": health()}, {SWITCH: False}, []),
        ({"Q0_production": health(statistic=10.0)}, {}, [0, 1]),
        ({"Q0_production": health(statistic=9.99)}, {}, []),
        ({"Q0_production": health(statistic=12.0)}, {EVIDENCE: 12.5}, []),
        ({"Q0_production": health()}, {MOST_CLOSED: 0.0}, []),
        ({"Q0_analysis": health()}, {}, []),
        ({"elsewhere_production": health()}, {}, []),
        ({}, {}, []),
    ],
)
def test_what_is_closed(learned: dict[str, LearnedHealth], keys: dict[str, Any], expected: list[int]) -> None:
    assert closed(grid(**learned), **keys) == [expected]


@pytest.mark.parametrize(("label", "kind"), [("managed", PRODUCTION), ("user", ANALYSIS), ("panda", ANALYSIS)])
def test_a_queue_is_closed_for_the_kind_that_fails(label: str, kind: str) -> None:
    snapshot = grid(**{f"Q1_{kind}": health()})
    assert closed(snapshot, (label, "managed" if kind == ANALYSIS else "user")) == [[2], []]


def test_at_most_a_share_is_closed_those_with_most_evidence_first() -> None:
    learned = {f"Q{place}_production": health(statistic=10.0 + place) for place in range(6)}
    assert closed(grid(20, **learned)) == [[5, 6]]
    assert closed(grid(20, **learned), **{MOST_CLOSED: 0.2}) == [[3, 4, 5, 6]]
    assert closed(grid(9, **learned)) == [[6]]  # one always may be


@pytest.mark.parametrize(
    ("probes", "there", "expected"), [(0, 0, 5), (2, 0, 3), (0, 2, 3), (1, 3, 1), (5, 0, 0), (0, 5, 0), (4, 4, 0)]
)
def test_on_probation_so_many_chunks_may_send_a_job_as_probe_jobs_are_wanted(
    probes: int, there: int, expected: int
) -> None:
    snapshot = grid(Q1_production=health("probation", probes=probes, probes_there=there))
    for minute in range(9):
        snapshot.now_s = NOW_S + 60.0 * minute
        assert [bool(one) for one in closed(snapshot, ("managed",) * 7)].count(False) == expected


def test_each_chunk_has_its_turn() -> None:
    snapshot, tried = grid(Q1_production=health("probation")), set[int]()
    for minute in range(20):
        snapshot.now_s = NOW_S + 60.0 * minute
        tried |= {row for row, shut in enumerate(closed(snapshot, ("managed",) * 23)) if not shut}
    assert tried == set(range(23))


def test_with_fewer_chunks_each_may_send_one() -> None:
    assert closed(grid(Q1_production=health("probation")), ("managed",) * 2) == [[], []]


def test_a_single_preassigned_queue_is_not_asked() -> None:
    assert not QueueUnhealthy().applies(pairs_of(grid(Q0_production=health()), single=True, **ON)).any()


def test_what_is_seen_agrees_with_what_is_kept_and_says_the_figures() -> None:
    snapshot = grid(Q0_production=health())
    pairs, rule = pairs_of(snapshot, **ON), QueueUnhealthy()
    for at, kept in enumerate(rule.keep(pairs)[0].tolist()):
        one = JobPairs(
            pairs.chunks,
            SimpleNamespace(unified_name=snapshot.queues.unified_name[None, [at]]),  # type: ignore[arg-type]
            pairs.facts, pairs.tuning, pairs.rows, np.array([at]), pairs.prepared,
        )  # fmt: skip
        seen = rule.observe(one)
        assert seen.operator == "<" and (seen.value is None or float(seen.value) < float(seen.limit)) == kept
        if not kept:
            said = seen.inputs
            assert (said["failed_jobs"], said["ended_jobs"], said["failed_tasks"], said["within_h"]) == (47, 50, 9, 6.0)
            assert (said["failed_percent"], said["limit_percent"]) == (94.0, 43.9)


def test_nothing_is_needed_while_it_is_off() -> None:
    rule = QueueUnhealthy()
    assert rule.needs(tuning_for(rule)) == ()
    assert rule.needs(tuning_for(rule, **ON)) == (QUEUE_HEALTH,)


def test_the_source_builds_what_the_agent_left() -> None:
    columns = QueueHealthSource.reads[0].columns_stored
    row = ("Q0", "production", "probation", 12.5, 1.0, 3601.0, 10, 9, 3, None, 2, 1, 4, 6)
    raw = RawSource(QUEUE_HEALTH, {QUEUE_HEALTH: Rows(columns, (row,))})
    found = QueueHealthSource().build(raw, grid())["Q0", "production"]
    assert (found.state, found.statistic, found.hours) == ("probation", 12.5, 1.0)
    assert (found.failed_tasks, found.probes, found.probes_there, found.probe_room) == (3, 2, 1, 2)
    assert math.isnan(found.until_s) and (found.finished_lately, found.failed_lately) == (4, 6)


def test_candidates_of_a_queue_on_probation_are_known_by_kind() -> None:
    learned = {"Q0_production": health("probation"), "Q1_production": health()}
    assert on_probation(grid(3, **learned), PRODUCTION).tolist() == [True, True, False, False]
    assert on_probation(grid(3, **learned), ANALYSIS).tolist() == [False] * 4


@pytest.mark.parametrize(
    ("label", "switched_on", "expected"),
    [("managed", True, [-1, -1, 7]), ("managed", False, [0, 0, 7]), ("user", True, [0, 0, 7])],
)
def test_a_chunk_gives_a_queue_on_probation_one_job(label: str, switched_on: bool, expected: list[int]) -> None:
    snapshot = grid(2, Q0_production=health("probation"))
    snapshot.queues.job_chunk_size = np.array([math.nan, math.nan, 7.0])
    found = group_sizes(snapshot, Chunks(label), probing=switched_on, trial_jobs=0)  # type: ignore[arg-type]
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("finished", "failed", "trial_jobs", "tried"),
    [(2, 0, 3, True), (3, 0, 3, False), (3, 3, 3, False), (3, 4, 3, True), (2, 0, 2, False), (0, 9, 0, False)],
)
def test_a_queue_is_on_trial_until_jobs_of_both_kinds_finish_there(
    finished: int, failed: int, trial_jobs: int, tried: bool
) -> None:
    some = {"Q0_production": health("healthy", finished_lately=finished - 1, failed_lately=failed)}
    snapshot = grid(2, **some, Q0_analysis=health("healthy", finished_lately=1))
    unknown = bool(trial_jobs)  # nothing is known of Q1
    assert on_trial(snapshot, trial_jobs).tolist() == [tried, tried, unknown]
    snapshot.queues.job_chunk_size = np.array([math.nan, math.nan, 7.0])
    sizes = group_sizes(snapshot, Chunks("managed"), probing=False, trial_jobs=trial_jobs)  # type: ignore[arg-type]
    assert sizes.tolist() == [-1 if tried else 0, -1 if tried else 0, -1 if unknown else 7]


def test_without_the_source_no_queue_is_on_trial() -> None:
    snapshot = grid(2)
    del snapshot.offered[QUEUE_HEALTH]
    assert not on_trial(snapshot, 3).any()


def test_healthy_queues_are_left_alone() -> None:
    rule = QueueUnhealthy()
    assert rule.prepare(grid(3, Q0_production=health("healthy", 20.0)), None, tuning_for(rule, **ON)) is None
    assert rule.needs(tuning_for(rule, LEARNED_TRIAL_JOBS=3)) == (QUEUE_HEALTH,) and rule.needs(tuning_for(rule)) == ()


class Chunks:
    """One chunk."""

    def __init__(self, label: str) -> None:
        self.prodsourcelabel = [label]

    def __len__(self) -> int:
        return 1


def test_those_with_most_evidence_come_first_and_equal_ones_by_name() -> None:
    learned = {("B", PRODUCTION): health(), ("A", PRODUCTION): health(), ("C", PRODUCTION): health(statistic=12.0)}
    names = [f"Q{number}" for number in range(20)]
    assert failing_queues(learned, PRODUCTION, names, 10.0, 0.1) == ["C", "A"]
    assert failing_queues(learned, PRODUCTION, names, 10.0, 0.0) == []
    assert failing_queues(learned, PRODUCTION, [], 10.0, 0.1) == ["C"]
    assert failing_queues(learned, ANALYSIS, names, 10.0, 0.1) == []
