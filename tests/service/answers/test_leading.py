from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from broker.service.answers.service import AgentLeader, leader_of
from broker.store.service.agent_runs import LastRun
from broker.store.service.leases import LeaseRow, in_use

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def row(name: str, holder: str, epoch: int, expires_in_s: float = 10.0) -> LeaseRow:
    return LeaseRow(name, holder, epoch, NOW + timedelta(seconds=expires_in_s), expires_in_s)


def run(outcome: str, ago_s: float, part: str | None = None) -> LastRun:
    return LastRun("a", part, "one", 1, outcome, NOW - timedelta(seconds=ago_s), None, ago_s, {}, None)


def test_an_undivided_agent_has_one_leader_and_no_parts() -> None:
    last = run("done", 5)
    assert leader_of("a", [row("a", "one", 7), row("b", "two", 8)], last, {}) == AgentLeader(last, "one", 7, 10.0, ())
    assert leader_of("a", [row("a", "one", 7, -1.0)], None, {}) == AgentLeader(None, None, 7, None, ())
    assert leader_of("a", [], None, {}) == AgentLeader(None, None, None, None, ())


def test_each_part_has_its_leader_and_the_failed_run_is_shown_first() -> None:
    rows = [row("a#1/3", "one", 7), row("a#2/3", "two", 9, 4.25), row("a#3/3", "one", 8, -2.0)]
    last = {"a#1/3": run("failed", 30, "1/3"), "a#2/3": run("done", 5, "2/3")}
    leader = leader_of("a", rows, run("done", 5), last)
    assert (leader.run, leader.holder, leader.epoch, leader.expires_in_s) == (last["a#1/3"], "one, two", 9, 4.2)
    parts: list[tuple[Any, ...]] = [(part.part, part.holder, part.last_outcome) for part in leader.parts]
    assert parts == [("1/3", "one", "failed"), ("2/3", "two", "done"), ("3/3", None, None)]


def test_leases_of_a_superseded_division_are_not_in_use() -> None:
    old, new = (
        [row("a", "one", 1, -5.0), row("a#1/3", "one", 2, -5.0)],
        [row("a#1/2", "one", 3), row("a#2/2", "x", 4, -1)],
    )
    assert in_use([*old, *new, row("b", "one", 5, -5.0)]) == [*new, row("b", "one", 5, -5.0)]
    assert in_use(old) == old
