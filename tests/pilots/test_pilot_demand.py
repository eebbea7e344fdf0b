"""How many pilots a queue can use: which jobs fit, which pilots cover them, and both sides of each limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.pilots.model.pilot_demand import (
    SENTENCES,
    Demand,
    Limits,
    QueueNow,
    Slot,
    Starts,
    WaitingJobs,
    paced,
    pilot_demand,
    sentence,
)
from broker.pilots.model.worker_distribution import SlotType, Workers

TYPES = {
    "SCORE": SlotType(1, 1, 2000),
    "MCORE": SlotType(2, None, 2000),
    "MCORE_HIMEM": SlotType(2, None, None),
}
SLOT = Slot(cores=8, memory_mb=16000, walltime_s=86400, disk_mb=20000)
FREE: dict[str, Any] = {"most_waiting": None, "most_new": None}
QUEUE = QueueNow("online", SLOT, Limits(**FREE), {}, Starts(), TYPES)


def group(number: int, resource_type: str = "SCORE", **needs: Any) -> dict[str, Any]:
    defaults = {"share_rank": 0, "priority": 100, "cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0}
    return {"number": number, "resource_type": resource_type, "lacks": "", **defaults, **needs}


def waiting(*groups: dict[str, Any]) -> WaitingJobs:
    texts = ("resource_type", "lacks")
    columns: dict[str, Any] = {
        name: np.array([group_values[name] for group_values in groups], dtype=np.object_ if name in texts else np.int64)
        for name in WaitingJobs.__dataclass_fields__
    }
    return WaitingJobs(**columns)


def single_demand(queue: QueueNow, *groups: dict[str, Any]) -> Demand:
    (demand,) = pilot_demand(queue, waiting(*groups))
    return demand


def test_the_sentence_of_the_example() -> None:
    queue = replace(QUEUE, limits=Limits(**FREE | {"most_waiting": 32}), workers={"SCORE": Workers(submitted=20)})
    demand = single_demand(queue, group(40))
    assert sentence(demand, "KIT") == "12 wanted at KIT: 40 jobs fit, 20 pilots wait, cap 32"


@pytest.mark.parametrize(
    ("needs", "misfit"),
    [
        ({"cores": 8}, None), ({"cores": 9}, "cores"),
        ({"memory_mb": 16000}, None), ({"memory_mb": 16001}, "memory"),
        ({"walltime_s": 86400}, None), ({"walltime_s": 86401}, "walltime"),
        ({"disk_mb": 20000}, None), ({"disk_mb": 20001}, "disk"),
        ({"lacks": "platform"}, "platform"),
        # a failed match is reported before any size that is too small
        ({"lacks": "submit_pool", "cores": 9}, "submit_pool"),
        ({"cores": 9, "memory_mb": 16001}, "cores"),
    ],
)  # fmt: skip
def test_which_jobs_fit_a_slot(needs: dict[str, Any], misfit: str | None) -> None:
    demand = single_demand(QUEUE, group(3, **needs))
    assert (demand.jobs, demand.fitting) == (3, 3 if misfit is None else 0)
    assert demand.misfits == ({} if misfit is None else {misfit: 3})
    assert (demand.wanted, demand.reason) == ((3, "fits") if misfit is None else (0, "none_fits"))


def test_unknown_properties_of_a_slot_limit_nothing() -> None:
    queue = replace(QUEUE, slot=Slot())
    assert single_demand(queue, group(2, cores=99, memory_mb=10**6, walltime_s=10**6, disk_mb=10**9)).wanted == 2


@pytest.mark.parametrize(
    ("limits", "workers", "wanted", "reason"),
    [
        (Limits(**FREE), Workers(), 10, "fits"),
        (Limits(**FREE), Workers(submitted=4, ready=1), 5, "fits"),
        (Limits(**FREE), Workers(submitted=10), 0, "covered"),
        (Limits(**FREE), Workers(running=10), 10, "fits"),
        (Limits(**FREE | {"most_waiting": 10}), Workers(), 10, "fits"),
        (Limits(**FREE | {"most_waiting": 9}), Workers(), 9, "most_waiting"),
        (Limits(**FREE | {"most_waiting": 4}), Workers(submitted=5), 0, "most_waiting"),
        (Limits(**FREE | {"most_pilots": 15}), Workers(running=5), 10, "fits"),
        (Limits(**FREE | {"most_pilots": 14}), Workers(running=5), 9, "most_pilots"),
        (Limits(**FREE | {"most_new": 10}), Workers(), 10, "fits"),
        (Limits(**FREE | {"most_new": 9}), Workers(), 9, "most_new"),
        (Limits(**FREE | {"by_type": {"SCORE": 15}}), Workers(running=5), 10, "fits"),
        (Limits(**FREE | {"by_type": {"SCORE": 14}}), Workers(running=5), 9, "resource_type_limit"),
        (Limits(**FREE | {"by_type": {"MCORE": 0, "HIMEM": 0}}), Workers(), 10, "fits"),
        # the lowest of several limits
        (Limits(**FREE | {"most_waiting": 8, "most_new": 7, "by_type": {"SCORE": 9}}), Workers(), 7, "most_new"),
    ],
)
def test_limits(limits: Limits, workers: Workers, wanted: int, reason: str) -> None:
    demand = single_demand(replace(QUEUE, limits=limits, workers={"SCORE": workers}), group(10))
    assert (demand.wanted, demand.reason) == (wanted, reason)
    assert demand.reason in SENTENCES


@pytest.mark.parametrize(("cores", "wanted"), [(24, 3), (23, 2), (7, 0)])
def test_high_memory_types_share_one_limit_in_cores(cores: int, wanted: int) -> None:
    queue = replace(QUEUE, limits=Limits(**FREE | {"by_type": {"HIMEM": cores}}))
    demand = single_demand(queue, group(3, "MCORE_HIMEM", cores=8, memory_mb=16000))
    assert demand.wanted == wanted


def test_pilots_use_up_the_limits_share_by_share_and_by_priority() -> None:
    queue = replace(QUEUE, limits=Limits(**FREE | {"most_new": 10}))
    groups = (
        group(8, "MCORE", share_rank=1, priority=900),
        group(4, "SCORE", share_rank=0, priority=100),
        group(3, "MCORE_HIMEM", share_rank=0, priority=500),
    )
    demands = {demand.resource_type: demand for demand in pilot_demand(queue, waiting(*groups))}
    assert {name: demand.wanted for name, demand in demands.items()} == {"MCORE_HIMEM": 3, "SCORE": 4, "MCORE": 3}
    assert (demands["SCORE"].reason, demands["MCORE"].reason, demands["MCORE"].limit) == ("fits", "most_new", 10)


def test_a_falling_demand_leaves_a_surplus() -> None:
    queue = replace(QUEUE, workers={"SCORE": Workers(running=2, submitted=5), "MCORE": Workers(submitted=1)})
    demands = {demand.resource_type: demand for demand in pilot_demand(queue, waiting(group(3)))}
    assert (demands["SCORE"].surplus, demands["SCORE"].wanted) == (2, 0)
    assert (demands["MCORE"].surplus, demands["MCORE"].reason) == (1, "no_jobs")


@pytest.mark.parametrize(
    ("status", "wanted", "surplus"), [("online", 1, 0), ("brokeroff", 1, 0), ("test", 1, 0), ("offline", 0, 2)]
)
def test_a_drained_queue_gets_pilots_for_its_jobs_and_an_offline_queue_gets_none(
    status: str, wanted: int, surplus: int
) -> None:
    demand = single_demand(replace(QUEUE, status=status, workers={"SCORE": Workers(submitted=2)}), group(3))
    assert (demand.wanted, demand.surplus) == (wanted, surplus)


def test_no_number_is_wanted_while_the_workers_are_unknown() -> None:
    demand = single_demand(replace(QUEUE, workers=None, limits=Limits(**FREE | {"kept_idle": 1})), group(3))
    assert (demand.wanted, demand.waiting, demand.running, demand.reason) == (None, None, None, "workers_unknown")
    assert sentence(demand, "Q").startswith(
        "not known how many are wanted at Q: 3 jobs fit, what is there is not known"
    )


def test_an_idle_queue_keeps_the_configured_number_of_pilots() -> None:
    assert pilot_demand(QUEUE, waiting()) == ()
    awake = replace(QUEUE, limits=Limits(**FREE | {"kept_idle": 2}))
    (demand,) = pilot_demand(awake, waiting())
    assert (demand.resource_type, demand.wanted, demand.reason) == ("SCORE", 2, "kept_idle")
    running = replace(awake, workers={"SCORE": Workers(running=1)})
    assert [row.wanted for row in pilot_demand(running, waiting())] == [0]
    assert pilot_demand(replace(awake, status="offline"), waiting()) == ()
    (demand,) = pilot_demand(awake, waiting(group(3, cores=9)))
    assert (demand.wanted, demand.misfits) == (2, {"cores": 3})


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        (Starts(19, 3600, 600), None),
        (Starts(20, 0, 600), None),
        # 20 an hour and ten minutes of waiting: 3.3 starts expected, p80 below 5
        (Starts(20, 3600, 600), 10),
        (Starts(360, 3600, 600), 134),
        (Starts(360, 3600, 0), 10),
    ],
)
def test_the_pace_of_starts_limits_how_many_wait(starts: Starts, expected: int | None) -> None:
    assert paced(starts, 10) == expected
    demand = single_demand(replace(QUEUE, starts=starts), group(1000))
    assert (demand.wanted, demand.reason) == ((1000, "fits") if expected is None else (expected, "pace"))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.sampled_from(sorted(TYPES)), st.integers(0, 3), st.integers(0, 9))),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 20),
)
def test_no_limit_is_ever_exceeded(
    groups: list[tuple[int, str, int, int]], most_waiting: int, most_new: int, submitted: int
) -> None:
    limits = Limits(most_waiting=most_waiting, most_new=most_new)
    queue = replace(QUEUE, limits=limits, workers={"SCORE": Workers(submitted=submitted)})
    jobs = waiting(*(group(n, name, share_rank=rank, priority=priority) for n, name, rank, priority in groups))
    demands = pilot_demand(queue, jobs)
    total = sum(demand.wanted or 0 for demand in demands)
    assert total <= most_new and (not total or total + submitted <= most_waiting)
    for demand in demands:
        assert 0 <= (demand.wanted or 0) <= demand.fitting
        assert demand.surplus == max((demand.waiting or 0) - demand.fitting, 0)
