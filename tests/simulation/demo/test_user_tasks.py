from __future__ import annotations

from typing import Any

from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.summary import UserTask, user_tasks

Row = dict[str, Any]
BUSY = "etanaka"


def decision(task: int, outcome: str, **more: Any) -> Row:
    funnel = [["status", 5, 4], ["lowmemory", 4, 0]]
    rejected = {"A": "status", **{name: "lowmemory" for name in ("B/SCORE", "B/MCORE", "B", "C", "D")}}
    reasons = {"funnel": funnel, "rejected": rejected, "candidates": []}
    return {"jeditaskid": task, "outcome": outcome, "reason": "", "assigned": {}, **reasons, **more}


def test_there_are_twenty_tasks_of_five_users(demo_facts: DemoFacts, demo_scenario: Row) -> None:
    rows = [row for row in demo_scenario["tables"]["jedi_tasks"] if row["prodsourcelabel"] == "user"]
    assert (len(rows), {row["username"] for row in rows}) == (20, set(demo_facts.users))
    assert {row["nucleus"] for row in rows} == {None}
    assert [row["username"] for row in rows].count(BUSY) == 1


def test_one_user_has_more_running_jobs_than_the_cap(demo_facts: DemoFacts, demo_scenario: Row) -> None:
    tables = demo_scenario["tables"]
    (cap,) = [int(row["value"]) for row in tables["config"] if row["key"] == "CAP_RUNNING_USER_JOBS"]
    running = [row["produsername"] for row in tables["jobsactive4"] if row["jobstatus"] == "running"]
    assert {user for user in demo_facts.users if running.count(user) > cap} == {BUSY}
    (program,) = {row["app"] for row in tables["config"] if row["component"] == "prio_mgr"}
    assert program == "pandaserver"


def test_outcomes_of_user_tasks() -> None:
    throttle = {"condition": "running_jobs", "figure": 225.0, "cap": 150.0, "unit": "jobs", "key": "a key"}
    decisions = [
        decision(1, "brokered", assigned={"CERN/SCORE": 3, "CERN/MCORE": 1, "pic/SCORE": 2}),
        decision(2, "throttled", throttle=throttle),
        decision(3, "pending"),
    ]
    assert user_tasks(decisions) == (
        UserTask(1, "brokered", "", 6, 2),
        UserTask(2, "throttled", "", 0, 0, "running_jobs", 225.0, 150.0, "jobs"),
        UserTask(3, "pending", "", 0, 0, codes=(("lowmemory", 3), ("status", 1))),
    )
