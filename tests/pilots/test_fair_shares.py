"""Shares hold over many matches, under tiers and limits, even when one group has most of the jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import Floats, Texts
from broker.pilots.model.group_fields import PilotRequest
from broker.pilots.model.matcher import Pilot, TaskQueueTable
from broker.pilots.model.task_queue_shares import Claim, task_queue_weights
from broker.pilots.model.waiting_groups import WaitingGroups

MATCHES_PER_S = 1000
#: Waiting jobs of LHCb: 81.2 % belong to the largest owner group, 18.7 % to the next, and 24 jobs to users.
MANY, SOME, OF_USERS = 812_000, 187_000, 24


@dataclass(frozen=True)
class Waiting:
    """Jobs of one task queue."""

    group: str | None
    owner: str
    work: int
    jobs: int
    kind: str = ""
    tier: int = 1000
    type_weight: float = 1.0


def match_in_turn(waiting: list[Waiting], matches: int, running: dict[str, int] | None = None) -> list[int]:
    """The positions of the task queues from which the matches take jobs; ``running`` limits the jobs of each type."""
    generator = np.random.default_rng(7)
    claims = [
        Claim("share", task_queue.group, task_queue.owner, task_queue.work, 1.0, task_queue.kind)
        for task_queue in waiting
    ]
    table = table_of(waiting, task_queue_weights(claims, np.full(len(claims), 1000.0)))
    groups = WaitingGroups.of(table, [{1: 0}] * len(waiting))
    fitting = groups.index.fitting(PilotRequest(Pilot("S", "ce", "q"), "q", frozenset(), None))
    jobs_left, room, positions = [task_queue.jobs for task_queue in waiting], dict(running or {}), []
    numbers = groups.queues.id.tolist()
    for _ in range(matches):
        draws = ((place, numbers[place]) for place, _ in groups.candidates(fitting, generator))
        place, queue = next(draw for draw in draws if room.get(waiting[draw[1]].kind, 1))
        positions.append(queue)
        jobs_left[queue] -= 1
        if waiting[queue].kind in room:
            room[waiting[queue].kind] -= 1
        if not jobs_left[queue]:
            groups.forget(place, 1)
    return positions


def table_of(waiting: list[Waiting], weights: Floats) -> TaskQueueTable:
    """Task queues without requirements, numbered in the order of the list."""

    def column(values: list[Any]) -> Texts:
        array = np.empty(len(values), dtype=np.object_)
        array[:] = values
        return array

    none, empty = column([None] * len(waiting)), column([()] * len(waiting))
    return TaskQueueTable(
        id=np.arange(len(waiting)), vo=none, owner=column([row.owner for row in waiting]),
        owner_group=column([row.group for row in waiting]), panda_queue=none, resource_type=none, sites=empty,
        banned_sites=empty, platforms=empty, cputime_class_s=np.zeros(len(waiting), dtype=np.int64), pool=none,
        specs=none, weight=weights, job_type=column([row.kind for row in waiting]),
        tier=np.array([row.tier for row in waiting]), type_weight=np.array([row.type_weight for row in waiting]),
    )  # fmt: skip


def lhcb() -> list[Waiting]:
    """Two groups with many task queues each, and three users."""
    return [
        *(Waiting("lhcb_mc", "prod", number, MANY // 40) for number in range(40)),
        *(Waiting("lhcb_data", "data", number, SOME // 10) for number in range(10)),
        *(Waiting(None, f"user{number}", number, OF_USERS // 3) for number in range(3)),
    ]


def test_the_few_jobs_of_users_wait_for_less_than_a_minute() -> None:
    waiting = lhcb()
    positions = match_in_turn(waiting, 60 * MATCHES_PER_S // 20)  # at a place with a twentieth of all pilots
    matches_of_users = [at for at, queue in enumerate(positions) if waiting[queue].group is None]
    assert len(matches_of_users) == OF_USERS and matches_of_users[-1] / (MATCHES_PER_S / 20) < 60


@pytest.mark.slow
def test_groups_keep_their_shares_over_100_000_matches_whatever_the_number_of_waiting_jobs() -> None:
    waiting = [*lhcb()[:50], *(Waiting(None, f"user{number}", number, 10**6) for number in range(3))]
    jobs_of = Counter(waiting[queue].group or waiting[queue].owner for queue in match_in_turn(waiting, 100_000))
    for holder, part in (("lhcb_mc", 1), ("lhcb_data", 1), ("user0", 1 / 3), ("user1", 1 / 3), ("user2", 1 / 3)):
        assert jobs_of[holder] / 100_000 == pytest.approx(part / 3, abs=0.01)


def test_shares_are_kept_within_each_type_over_100_000_matches_under_tiers_weights_and_limits() -> None:
    waiting = [
        Waiting(group, group, number, 10**6, kind, tier, weight)
        for kind, tier, weight in (("first", 1, 1.0), ("heavy", 2, 3.0), ("light", 2, 1.0), ("", 1000, 1.0))
        for group, queues in (("a", 8), ("b", 1))
        for number in range(queues)
    ]
    positions = match_in_turn(waiting, 100_000, {"first": 15_000})
    by_kind = Counter(waiting[queue].kind for queue in positions)
    assert by_kind["first"] == 15_000 and by_kind[""] == 0
    assert [waiting[queue].kind for queue in positions[:15_000]] == ["first"] * 15_000
    assert by_kind["heavy"] / (by_kind["heavy"] + by_kind["light"]) == pytest.approx(0.75, abs=0.01)
    for kind in ("first", "heavy", "light"):
        jobs_of_a = sum(waiting[queue].group == "a" for queue in positions if waiting[queue].kind == kind)
        assert jobs_of_a / by_kind[kind] == pytest.approx(0.5, abs=0.02)
