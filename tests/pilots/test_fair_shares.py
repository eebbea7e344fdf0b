"""Whether shares are kept over many matches, under tiers and limits, when one group has most of the jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import Floats, Texts
from broker.pilots.model.group_fields import Asking
from broker.pilots.model.matcher import Pilot, TaskQueueTable
from broker.pilots.model.task_queue_shares import Claim, task_queue_weights
from broker.pilots.model.waiting_groups import WaitingGroups

MATCHES_PER_S = 1000
#: Of LHCb's waiting jobs: the largest owner group has 81.2 %, the next 18.7 %, and 24 belong to users.
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


def matched(waiting: list[Waiting], matches: int, running: dict[str, int] | None = None) -> list[int]:
    """The positions of the task queues that so many matches take from; ``running``: how many jobs of a type may go."""
    generator = np.random.default_rng(7)
    claims = [Claim("share", one.group, one.owner, one.work, 1.0, one.kind) for one in waiting]
    table = table_of(waiting, task_queue_weights(claims, np.full(len(claims), 1000.0)))
    groups = WaitingGroups.of(table, [{1: 0}] * len(waiting))
    fitting = groups.index.fitting(Asking(Pilot("S", "ce", "q"), "q", frozenset(), None))
    left, room, found = [one.jobs for one in waiting], dict(running or {}), []
    numbers = groups.queues.id.tolist()
    for _ in range(matches):
        drawn = ((place, numbers[place]) for place, _ in groups.candidates(fitting, generator))
        place, queue = next(one for one in drawn if room.get(waiting[one[1]].kind, 1))
        found.append(queue)
        left[queue] -= 1
        if waiting[queue].kind in room:
            room[waiting[queue].kind] -= 1
        if not left[queue]:
            groups.forget(place, 1)
    return found


def table_of(waiting: list[Waiting], weights: Floats) -> TaskQueueTable:
    """Their task queues, numbered as they are listed; they ask for nothing."""

    def column(values: list[Any]) -> Texts:
        found = np.empty(len(values), dtype=np.object_)
        found[:] = values
        return found

    nothing, anywhere = column([None] * len(waiting)), column([()] * len(waiting))
    return TaskQueueTable(
        id=np.arange(len(waiting)), vo=nothing, owner=column([one.owner for one in waiting]),
        owner_group=column([one.group for one in waiting]), panda_queue=nothing, resource_type=nothing, sites=anywhere,
        banned_sites=anywhere, platforms=anywhere, cputime_class_s=np.zeros(len(waiting), dtype=np.int64), pool=nothing,
        specs=nothing, weight=weights, job_type=column([one.kind for one in waiting]),
        tier=np.array([one.tier for one in waiting]), type_weight=np.array([one.type_weight for one in waiting]),
    )  # fmt: skip


def lhcb() -> list[Waiting]:
    """Two groups with many task queues, and three users."""
    return [
        *(Waiting("lhcb_mc", "prod", number, MANY // 40) for number in range(40)),
        *(Waiting("lhcb_data", "data", number, SOME // 10) for number in range(10)),
        *(Waiting(None, f"user{number}", number, OF_USERS // 3) for number in range(3)),
    ]


def test_the_few_jobs_of_users_wait_for_less_than_a_minute() -> None:
    waiting = lhcb()
    found = matched(waiting, 60 * MATCHES_PER_S // 20)  # of a place that has a twentieth of all pilots
    ends = [at for at, queue in enumerate(found) if waiting[queue].group is None]
    assert len(ends) == OF_USERS and ends[-1] / (MATCHES_PER_S / 20) < 60


@pytest.mark.slow
def test_groups_keep_their_shares_over_100_000_matches_whatever_they_have_waiting() -> None:
    waiting = [*lhcb()[:50], *(Waiting(None, f"user{number}", number, 10**6) for number in range(3))]
    taken = Counter(waiting[queue].group or waiting[queue].owner for queue in matched(waiting, 100_000))
    for holder, part in (("lhcb_mc", 1), ("lhcb_data", 1), ("user0", 1 / 3), ("user1", 1 / 3), ("user2", 1 / 3)):
        assert taken[holder] / 100_000 == pytest.approx(part / 3, abs=0.01)


def test_shares_are_kept_within_each_type_over_100_000_matches_under_tiers_weights_and_limits() -> None:
    waiting = [
        Waiting(group, group, number, 10**6, kind, tier, weight)
        for kind, tier, weight in (("first", 1, 1.0), ("heavy", 2, 3.0), ("light", 2, 1.0), ("", 1000, 1.0))
        for group, queues in (("a", 8), ("b", 1))
        for number in range(queues)
    ]
    found = matched(waiting, 100_000, {"first": 15_000})
    by_kind = Counter(waiting[queue].kind for queue in found)
    assert by_kind["first"] == 15_000 and by_kind[""] == 0
    assert [waiting[queue].kind for queue in found[:15_000]] == ["first"] * 15_000
    assert by_kind["heavy"] / (by_kind["heavy"] + by_kind["light"]) == pytest.approx(0.75, abs=0.01)
    for kind in ("first", "heavy", "light"):
        of_a = sum(waiting[queue].group == "a" for queue in found if waiting[queue].kind == kind)
        assert of_a / by_kind[kind] == pytest.approx(0.5, abs=0.02)
