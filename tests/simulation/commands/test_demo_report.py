from __future__ import annotations

import json
from dataclasses import replace

import pytest

from broker.domain.decisions import Observation
from broker.engine.shared.answer import CandidateVerdict
from broker.simulation.commands.demo_report import DemoRun, print_next, print_report, report_object
from broker.simulation.model.demo.summary import FunnelLine, QueueUse, Summary, UserTask, WaitingChunk

ANSWER = CandidateVerdict(
    "BNL/MCORE",
    "lowmemory",
    "memory_max",
    "persistent",
    "the job needs more memory than a slot has",
    Observation(288_900.0, "<=", 24_000.0, "MB", "queue.maxrss"),
)
RUN = DemoRun(
    summary=Summary(
        tasks=3,
        chunks=3,
        brokered=2,
        jobs=1250,
        candidate_queues=90,
        candidates=300,
        queues=(QueueUse("BNL", 1000, 2, 2.5), QueueUse("pic", 250, 1, 0.5)),
        funnel=(FunnelLine("status", 10, 80, 30, 270), FunnelLine("cap", 20, 60, 70, 200)),
        waiting=(WaitingChunk(7, "no_candidates", (("lowmemory", 60), ("status", 3))),),
        unplaced=(),
    ),
    titles={7: ("too_much_memory", "needs 320 GB")},
    grid={"sites": 2, "queues": 3, "nuclei": 1, "links": 1},
    seconds={"Loading": 1.25, "Brokering": 0.5},
    explained=(7, [ANSWER]),
    where="/home/somebody/demo",
    commands=["broker explain 7"],
)


def test_the_report_shows_assignments_the_funnel_and_waiting_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(RUN)
    output = capsys.readouterr().out
    for text in ("BNL", "1000", "80.0 %", "status", "66.7 %", "too_much_memory", "lowmemory 60, status 3"):
        assert text in output
    assert "288,900 MB" in output
    assert "1,250 jobs of 2 of 3 input chunks went to 2 queues in 1.8 s." in output


def test_user_tasks_are_shown_with_the_reason_that_stopped_them(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = (
        UserTask(7, "throttled", "throttled_running_jobs", 0, 0, "running_jobs", 225.0, 150.0, "jobs"),
        UserTask(8, "pending", "no_candidates", 0, 0, codes=(("lowmemory", 60),)),
        UserTask(9, "brokered", "", 12, 3),
    )
    run = replace(RUN, user_tasks=tasks, users={7: "etanaka"})
    print_report(run)
    output = capsys.readouterr().out
    for text in ("Tasks of users", "running jobs 225 jobs, cap 150", "etanaka", "12 jobs of 1 of 3 tasks of users"):
        assert text in output
    user_task = json.loads(json.dumps(report_object(run)))["user_tasks"][0]
    assert (user_task["user"], user_task["condition"], user_task["figure"], user_task["cap"]) == (
        "etanaka",
        "running_jobs",
        225.0,
        150.0,
    )


def test_queues_beyond_the_table_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(QueueUse(f"Q{number:02d}", 10, 1, 1.0) for number in range(25))
    print_report(replace(RUN, summary=replace(RUN.summary, queues=many, jobs=250)))
    output = capsys.readouterr().out
    assert "(5 more queues got 50 jobs)" in output
    assert "Q19" in output
    assert "Q20" not in output


def test_names_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(replace(RUN, titles={7: ("evil\x1b[31m", "")}))
    print_next(replace(RUN, where="/home/\x1b[31m"))
    assert "\x1b" not in capsys.readouterr().out


def test_a_report_without_decisions_shows_zeros(capsys: pytest.CaptureFixture[str]) -> None:
    empty = Summary(0, 0, 0, 0, 0, 0, (), (), (), ())
    print_report(replace(RUN, summary=empty, explained=None))
    assert "0 jobs of 0 of 0 input chunks went to 0 queues" in capsys.readouterr().out


def test_the_next_commands_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_next(RUN)
    output = capsys.readouterr().out
    assert "/home/somebody/demo" in output
    assert "  broker explain 7\n" in output


def test_the_object_is_json_with_the_same_figures() -> None:
    report = json.loads(json.dumps(report_object(RUN)))
    assert report["jobs"] == 1250
    assert report["queues"][0] == {"queue": "BNL", "jobs": 1000, "tasks": 2, "weight": 2.5}
    assert report["waiting"][0]["codes"] == [["lowmemory", 60], ["status", 3]]
    assert report["explained"]["answers"][0]["compared"]["limit"] == 24_000.0
    assert report["next"] == ["broker explain 7"]
    assert report_object(replace(RUN, explained=None))["explained"] is None
