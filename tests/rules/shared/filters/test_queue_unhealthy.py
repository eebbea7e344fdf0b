"""Unhealthy queues are closed by kind of jobs, up to a share of all queues, and stay open for a few probe jobs."""

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


def health(state: str = "excluded", statistic: float = 11.0, **overrides: Any) -> LearnedHealth:
    figures = {"ended_jobs": 50, "failed_jobs": 47, "failed_tasks": 9, "hours": 6.0, "until_s": math.nan}
    return LearnedHealth(state, statistic, **(figures | overrides))  # type: ignore[arg-type]


def grid(queues: int = 20, jobs: float = 0.0, **learned: LearnedHealth) -> Any:
    """Make a grid of queues Q0, Q1 ... of which the first has two candidates; ``Q0_production`` is its health."""
    names = [f"Q{place}" for place in range(queues)]
    unified = np.array([0, *range(queues)])
    counts = np.zeros((queues, 6))
    counts[:, 2] = jobs
    records = {tuple(name.split("_")): record for name, record in learned.items()}
    return SimpleNamespace(
        now_s=NOW_S,
        offered={QUEUE_HEALTH: records},
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


def closed_positions(snapshot: Any, labels: tuple[str, ...] = ("managed",), **keys: Any) -> list[list[int]]:
    """Return for each chunk the positions of the closed candidates."""
    pairs, rule = pairs_of(snapshot, labels, **{**ON, **keys}), QueueUnhealthy()
    if not rule.applies(pairs).any():
        return [[] for _ in labels]
    keep = np.broadcast_to(rule.keep(pairs), (len(labels), len(snapshot.queues.unified)))
    return [np.flatnonzero(~row).tolist() for row in keep]


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
def test_which_candidates_are_closed(
    learned: dict[str, LearnedHealth], keys: dict[str, Any], expected: list[int]
) -> None:
    assert closed_positions(grid(**learned), **keys) == [expected]


@pytest.mark.parametrize(("label", "kind"), [("managed", PRODUCTION), ("user", ANALYSIS), ("panda", ANALYSIS)])
def test_a_queue_is_closed_for_the_kind_that_fails(label: str, kind: str) -> None:
    snapshot = grid(**{f"Q1_{kind}": health()})
    assert closed_positions(snapshot, (label, "managed" if kind == ANALYSIS else "user")) == [[2], []]


def test_at_most_a_share_of_queues_is_closed_by_evidence() -> None:
    learned = {f"Q{place}_production": health(statistic=10.0 + place) for place in range(6)}
    assert closed_positions(grid(20, **learned)) == [[5, 6]]
    assert closed_positions(grid(20, **learned), **{MOST_CLOSED: 0.2}) == [[3, 4, 5, 6]]
    assert closed_positions(grid(9, **learned)) == [[6]]  # one queue may always be closed


@pytest.mark.parametrize(
    ("probes", "probes_there", "expected"),
    [(0, 0, 5), (2, 0, 3), (0, 2, 3), (1, 3, 1), (5, 0, 0), (0, 5, 0), (4, 4, 0)],
)
def test_on_probation_as_many_chunks_may_send_a_job_as_probes_are_missing(
    probes: int, probes_there: int, expected: int
) -> None:
    snapshot = grid(Q1_production=health("probation", probes=probes, probes_there=probes_there))
    for minute in range(9):
        snapshot.now_s = NOW_S + 60.0 * minute
        assert [bool(positions) for positions in closed_positions(snapshot, ("managed",) * 7)].count(False) == expected


def test_each_chunk_has_its_turn() -> None:
    snapshot, open_rows = grid(Q1_production=health("probation")), set[int]()
    for minute in range(20):
        snapshot.now_s = NOW_S + 60.0 * minute
        open_rows |= {
            row for row, positions in enumerate(closed_positions(snapshot, ("managed",) * 23)) if not positions
        }
    assert open_rows == set(range(23))


def test_with_fewer_chunks_than_probes_each_may_send_one() -> None:
    assert closed_positions(grid(Q1_production=health("probation")), ("managed",) * 2) == [[], []]


def test_the_rule_does_not_apply_to_a_single_preassigned_queue() -> None:
    assert not QueueUnhealthy().applies(pairs_of(grid(Q0_production=health()), single=True, **ON)).any()


def test_the_observation_agrees_with_the_mask_and_shows_the_figures() -> None:
    snapshot = grid(Q0_production=health())
    pairs, rule = pairs_of(snapshot, **ON), QueueUnhealthy()
    for position, keep in enumerate(rule.keep(pairs)[0].tolist()):
        pair = JobPairs(
            pairs.chunks,
            SimpleNamespace(unified_name=snapshot.queues.unified_name[None, [position]]),  # type: ignore[arg-type]
            pairs.facts, pairs.tuning, pairs.rows, np.array([position]), pairs.prepared,
        )  # fmt: skip
        observation = rule.observe(pair)
        assert (
            observation.operator == "<"
            and (observation.value is None or float(observation.value) < float(observation.limit)) == keep
        )
        if not keep:
            inputs = observation.inputs
            assert (inputs["failed_jobs"], inputs["ended_jobs"], inputs["failed_tasks"], inputs["within_h"]) == (
                47,
                50,
                9,
                6.0,
            )
            assert (inputs["failed_percent"], inputs["limit_percent"]) == (94.0, 43.9)


def test_the_rule_needs_no_source_while_it_is_off() -> None:
    rule = QueueUnhealthy()
    assert rule.needs(tuning_for(rule)) == ()
    assert rule.needs(tuning_for(rule, **ON)) == (QUEUE_HEALTH,)


def test_the_source_builds_the_records_of_the_agent() -> None:
    columns = QueueHealthSource.reads[0].columns_stored
    row = ("Q0", "production", "probation", 12.5, 1.0, 3601.0, 10, 9, 3, None, 2, 1, 4, 6)
    raw = RawSource(QUEUE_HEALTH, {QUEUE_HEALTH: Rows(columns, (row,))})
    record = QueueHealthSource().build(raw, grid())["Q0", "production"]
    assert (record.state, record.statistic, record.hours) == ("probation", 12.5, 1.0)
    assert (record.failed_tasks, record.probes, record.probes_there, record.probe_room) == (3, 2, 1, 2)
    assert math.isnan(record.until_s) and (record.finished_lately, record.failed_lately) == (4, 6)


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
    sizes = group_sizes(snapshot, Chunks(label), probing=switched_on, trial_jobs=0)  # type: ignore[arg-type]
    assert sizes.tolist() == expected


@pytest.mark.parametrize(
    ("finished", "failed", "trial_jobs", "trial_expected"),
    [(2, 0, 3, True), (3, 0, 3, False), (3, 3, 3, False), (3, 4, 3, True), (2, 0, 2, False), (0, 9, 0, False)],
)
def test_a_queue_is_on_trial_until_jobs_of_both_kinds_finish_there(
    finished: int, failed: int, trial_jobs: int, trial_expected: bool
) -> None:
    records = {"Q0_production": health("healthy", finished_lately=finished - 1, failed_lately=failed)}
    snapshot = grid(2, **records, Q0_analysis=health("healthy", finished_lately=1))
    unknown = bool(trial_jobs)  # Q1 has no record
    assert on_trial(snapshot, trial_jobs).tolist() == [trial_expected, trial_expected, unknown]
    snapshot.queues.job_chunk_size = np.array([math.nan, math.nan, 7.0])
    sizes = group_sizes(snapshot, Chunks("managed"), probing=False, trial_jobs=trial_jobs)  # type: ignore[arg-type]
    assert sizes.tolist() == [-1 if trial_expected else 0, -1 if trial_expected else 0, -1 if unknown else 7]


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


def test_failing_queues_are_sorted_by_evidence_and_name() -> None:
    learned = {("B", PRODUCTION): health(), ("A", PRODUCTION): health(), ("C", PRODUCTION): health(statistic=12.0)}
    names = [f"Q{number}" for number in range(20)]
    assert failing_queues(learned, PRODUCTION, names, 10.0, 0.1) == ["C", "A"]
    assert failing_queues(learned, PRODUCTION, names, 10.0, 0.0) == []
    assert failing_queues(learned, PRODUCTION, [], 10.0, 0.1) == ["C"]
    assert failing_queues(learned, ANALYSIS, names, 10.0, 0.1) == []
