"""Alarms: each kind on both sides of its limit, and with missing facts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from agents.service.configuration import ConfigurationError
from broker.history.answers.stored_states import Brokered, ChunkState, DecisionReader
from broker.outcomes.answers.outcomes import held_sentence
from broker.outcomes.statements.held_nodes import HeldNode
from broker.service.answers.alarm_sentences import alarm_lines, alarm_sentence
from broker.service.answers.alarms import (
    AlarmLimits,
    agent_alarms,
    failing,
    flapping,
    held,
    load_limits,
    outcomes_of,
    stale_sources,
    starving,
)
from broker.service.answers.models import AgentLine, Alarm, PartLine, SourceLine
from broker.service.statements.agent_cycles import EndedCycle
from broker.service.statements.metric_reads import EndedJobs
from broker.store.service.agent_pauses import PauseLine
from broker.store.summaries.chunk_states import Change

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
LIMITS = AlarmLimits()


def state(task: int, outcome: str, decided_h: float, waiting_h: float | None = None, **more: Any) -> ChunkState:
    """The state of a chunk that was decided ``decided_h`` hours ago and has waited for ``waiting_h`` hours."""
    values: dict[str, Any] = {
        "decision": task,
        "brokerage": "production_job",
        "jeditaskid": task,
        "datasetid": 1,
        "ramcount": 0.0,
        "decided_at": NOW - timedelta(hours=decided_h),
        "outcome": outcome,
        "reason": "" if outcome == "brokered" else "no_candidates",
        "waiting_since": None if waiting_h is None else NOW - timedelta(hours=waiting_h),
        "times_seen": 1,
        "pending_until": None,
        "assigned": {"BNL/MCORE": 1} if outcome == "brokered" else {},
        "main_code": None if outcome == "brokered" else "lowmemory",
        "reader": DecisionReader(cast(sa.Connection, None), {}),
    }
    return ChunkState(**(values | more))


def brokered(task: int, hours: float) -> Brokered:
    """A task that was brokered ``hours`` ago."""
    return "production_job", task, NOW - timedelta(hours=hours)


def share(name: str | None, *tasks: int) -> dict[int, str | None]:
    return dict.fromkeys(tasks, name)


def test_held_nodes_give_one_alarm_per_queue() -> None:
    until = NOW + timedelta(minutes=30)
    nodes = [held_sentence(HeldNode("BNL", f"n{number}", until, 7, 8, 2)) for number in range(7)]
    alarms = list(held({"BNL": nodes, "KIT": nodes[:1]}))
    assert [(alarm.code, alarm.about, alarm.value) for alarm in alarms] == [
        ("nodes_held", "BNL", 7),
        ("nodes_held", "KIT", 1),
    ]
    sentence = alarm_sentence(alarms[1])
    assert (
        sentence == "nodes of KIT that get no jobs, 1: n0 until 2026-08-01 12:30Z, where 7 of 8 jobs of 2 tasks failed"
    )
    assert "n4" in alarm_sentence(alarms[0]) and "n5" not in alarm_sentence(alarms[0])
    assert list(held({})) == []


@pytest.mark.parametrize(
    ("waiting_h", "later_task", "shares", "starves"),
    [
        (12.5, 11, share("MC", 10, 11), True),
        (12.0, 11, share("MC", 10, 11), False),  # not longer than the limit
        (12.5, 9, share("MC", 9, 10), False),  # the brokered task is older
        (12.5, 11, share("MC", 10) | share("Evgen", 11), False),  # the brokered task belongs to another share
        (12.5, 11, {}, True),  # both shares unknown: treated as one share
    ],
)
def test_a_task_starves_when_later_tasks_of_its_share_were_brokered(
    waiting_h: float, later_task: int, shares: dict[int, str | None], starves: bool
) -> None:
    alarms = list(starving([state(10, "pending", 0.1, waiting_h)], [brokered(later_task, 1)], shares, LIMITS, NOW))
    assert [alarm.about for alarm in alarms] == (["10"] if starves else [])
    if starves:
        assert (alarms[0].value, alarms[0].limit, alarms[0].key) == (12.5, 12.0, "alarms.starving_hours")
        assert alarm_sentence(alarms[0]).startswith("task 10 waits for 12.5 h (lowmemory), limit 12 h")


def test_tasks_brokered_before_the_wait_began_do_not_count() -> None:
    waiting = [state(10, "pending", 0.1, 13)]
    assert not list(starving(waiting, [brokered(11, 14)], share("MC", 10, 11), LIMITS, NOW))


@pytest.mark.parametrize(("changes", "count"), [(5, 0), (6, 1)])
def test_a_chunk_flaps(changes: int, count: int) -> None:
    alarms = list(flapping([Change("production_job", 10, 1, changes, NOW)], LIMITS))
    assert len(alarms) == count and all("changed its outcome or reason" in alarm_sentence(alarm) for alarm in alarms)


@pytest.mark.parametrize(
    ("failed", "finished", "tasks", "count"),
    [(20, 20, 3, 1), (19, 0, 3, 0), (20, 20, 2, 0), (20, 21, 3, 0), (0, 0, 0, 0)],
)
def test_a_queue_fails_when_many_jobs_of_many_tasks_do(failed: int, finished: int, tasks: int, count: int) -> None:
    outcomes = outcomes_of([EndedJobs("BNL", failed, finished, tasks, tasks, None)], LIMITS)
    alarms = list(failing(outcomes, LIMITS))
    assert len(alarms) == count
    if count:
        assert alarm_sentence(alarms[0]) == (
            "50 % of the jobs that ended at BNL failed: 20 failed, 20 finished, 3 tasks"
        )


@pytest.mark.parametrize(
    ("source_state", "severity"), [("stale", "critical"), ("missing", "critical"), ("shrunk", "warning"), ("ok", None)]
)
def test_sources(source_state: str, severity: str | None) -> None:
    line = SourceLine(source="links", state=source_state, age_s=7200.0, limit_s=3600.0, rows=3)
    assert [alarm.severity for alarm in stale_sources([line])] == ([severity] if severity else [])


def agent(**more: Any) -> AgentLine:
    values: dict[str, Any] = dict.fromkeys(AgentLine.model_fields)
    values |= {
        "agent": "timeouts",
        "enabled": True,
        "counts": {},
        "cycles_24h": 3,
        "failed_24h": 0,
        "holder": "here",
        "parts": (),
    }
    return AgentLine(**(values | {"period_s": 60.0, "age_s": 90.0, "started_at": NOW, "last_outcome": "done"} | more))


def ended(*outcomes: str) -> list[EndedCycle]:
    return [EndedCycle("timeouts", outcome, NOW, "Refused: too old") for outcome in outcomes]


@pytest.mark.parametrize(
    ("line", "cycles", "codes"),
    [
        (agent(), ended("done", "refused", "refused"), []),
        (agent(), ended("refused", "refused"), []),
        (agent(), ended("refused", "refused", "refused"), ["agent_refused"]),
        (agent(), ended("failed", "overdue", "failed"), ["agent_failing"]),
        (agent(last_outcome="overdue"), [], ["agent_overdue"]),
        (agent(enabled=False, holder=None), [], []),
    ],
)
def test_agents(line: AgentLine, cycles: list[EndedCycle], codes: list[str]) -> None:
    alarms = list(agent_alarms([line], cycles, LIMITS))
    assert [alarm.code for alarm in alarms] == codes and all(alarm_sentence(alarm) for alarm in alarms)


def test_an_agent_without_a_leader_is_an_alarm_only_while_others_have_one() -> None:
    leaderless = agent(agent="activation", holder=None)
    assert [alarm.about for alarm in agent_alarms([agent(), leaderless], [], LIMITS)] == ["activation"]
    assert not list(agent_alarms([agent(holder=None), leaderless], [], LIMITS))  # no service is running


def test_each_part_of_an_agent_is_judged_separately() -> None:
    """A healthy part does not hide a failing one."""
    parts = [dict.fromkeys(PartLine.model_fields) | {"part": part, "holder": "here"} for part in ("1/2", "2/2")]
    parts[1]["holder"] = None
    line = agent(parts=tuple(PartLine(**values) for values in parts))
    cycles = [EndedCycle("timeouts", outcome, NOW, "Refused: too old", "1/2") for outcome in ("refused",) * 3]
    cycles += [EndedCycle("timeouts", "done", NOW, None, "2/2"), *ended("failed", "failed", "failed")]
    alarms = [(alarm.code, alarm.about) for alarm in agent_alarms([line], cycles, LIMITS)]
    assert alarms == [("agent_refused", "timeouts#1/2"), ("no_leader", "timeouts#2/2")]


@pytest.mark.parametrize(("editor", "severity"), [("ann", "info"), ("brake", "critical")])
def test_a_pause_is_the_only_alarm_of_a_paused_agent(editor: str, severity: str) -> None:
    pause = PauseLine(agent="timeouts", reason="downtime", editor=editor, set_at=NOW, until=NOW + timedelta(hours=1))
    (alarm,) = agent_alarms([agent(pause=pause, last_outcome="overdue")], ended("refused") * 3, LIMITS)
    assert isinstance(alarm, Alarm) and (alarm.code, alarm.severity) == ("agent_paused", severity)
    assert alarm_sentence(alarm) == f"timeouts is paused by {editor}: downtime"


def test_custom_limits_are_loaded_and_invalid_ones_refused(tmp_path: Path) -> None:
    assert load_limits(None) == AlarmLimits()
    (tmp_path / "alarms.yaml").write_text("starving_hours: 1\n")
    assert load_limits(tmp_path).starving_hours == 1
    (tmp_path / "alarms.yaml").write_text("starving_hours: 20\n")
    assert load_limits(tmp_path).starving_hours == 20
    (tmp_path / "alarms.yaml").unlink()
    assert load_limits(tmp_path) == AlarmLimits()
    for text in ("starving: 1", "flapping_changes: 33"):  # more changes than are stored
        (tmp_path / "alarms.yaml").write_text(f"{text}\n")
        with pytest.raises(ConfigurationError, match=text.partition(":")[0]):
            load_limits(tmp_path)


def test_three_or_more_alarms_of_one_kind_share_a_line() -> None:
    changes = [Change("production_job", task, None, 12 - task, NOW) for task in range(6)]
    alarms = list(flapping(changes, AlarmLimits(flapping_changes=6)))
    (line,) = alarm_lines(alarms)
    assert line.sentence == "task 0 changed its outcome or reason 12 times in 6 h; likewise 5 others (1, 2, 3, ...)"
    assert (line.severity, line.code, line.since, line.key) == (
        "warning",
        "task_flapping",
        NOW,
        "alarms.flapping_changes",
    )
    (three,) = alarm_lines(alarms[:3])
    assert three.sentence.endswith("likewise 2 others (1, 2)")
    assert [folded.sentence for folded in alarm_lines(alarms[:2])] == [alarm_sentence(alarm) for alarm in alarms[:2]]
    starving_alarm = alarms[0].model_copy(update={"code": "task_starving"})
    assert [folded.code for folded in alarm_lines([*alarms, starving_alarm])] == ["task_flapping", "task_starving"]
