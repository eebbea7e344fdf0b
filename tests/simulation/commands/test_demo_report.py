from __future__ import annotations

import json
from dataclasses import replace

import pytest

from broker.domain.decisions import Observation
from broker.engine.shared.answer import Answer
from broker.simulation.commands.demo_report import DemoRun, print_next, print_report, report_object
from broker.simulation.model.demo.summary import FunnelLine, QueueUse, Summary, UserTask, WaitingChunk

ANSWER = Answer(
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


def test_the_report_shows_assignments_funnel_and_what_waits(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(RUN)
    shown = capsys.readouterr().out
    for text in ("BNL", "1000", "80.0 %", "status", "66.7 %", "too_much_memory", "lowmemory 60, status 3"):
        assert text in shown
    assert "288,900 MB" in shown
    assert "1,250 jobs of 2 of 3 input chunks went to 2 queues in 1.8 s." in shown


def test_tasks_of_users_are_shown_with_what_stopped_them(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = (
        UserTask(7, "throttled", "throttled_running_jobs", 0, 0, "running_jobs", 225.0, 150.0, "jobs"),
        UserTask(8, "pending", "no_candidates", 0, 0, codes=(("lowmemory", 60),)),
        UserTask(9, "brokered", "", 12, 3),
    )
    run = replace(RUN, user_tasks=tasks, users={7: "etanaka"})
    print_report(run)
    shown = capsys.readouterr().out
    for text in ("Tasks of users", "running jobs 225 jobs, cap 150", "etanaka", "12 jobs of 1 of 3 tasks of users"):
        assert text in shown
    told = json.loads(json.dumps(report_object(run)))["user_tasks"][0]
    assert (told["user"], told["condition"], told["figure"], told["cap"]) == ("etanaka", "running_jobs", 225.0, 150.0)


def test_queues_beyond_the_table_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(QueueUse(f"Q{number:02d}", 10, 1, 1.0) for number in range(25))
    print_report(replace(RUN, summary=replace(RUN.summary, queues=many, jobs=250)))
    shown = capsys.readouterr().out
    assert "(5 more queues got 50 jobs)" in shown
    assert "Q19" in shown
    assert "Q20" not in shown


def test_names_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(replace(RUN, titles={7: ("evil\x1b[31m", "")}))
    print_next(replace(RUN, where="/home/\x1b[31m"))
    assert "\x1b" not in capsys.readouterr().out


def test_nothing_decided_is_shown_as_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    empty = Summary(0, 0, 0, 0, 0, 0, (), (), (), ())
    print_report(replace(RUN, summary=empty, explained=None))
    assert "0 jobs of 0 of 0 input chunks went to 0 queues" in capsys.readouterr().out


def test_what_to_try_next(capsys: pytest.CaptureFixture[str]) -> None:
    print_next(RUN)
    shown = capsys.readouterr().out
    assert "/home/somebody/demo" in shown
    assert "  broker explain 7\n" in shown


def test_the_object_is_json_with_the_same_figures() -> None:
    told = json.loads(json.dumps(report_object(RUN)))
    assert told["jobs"] == 1250
    assert told["queues"][0] == {"queue": "BNL", "jobs": 1000, "tasks": 2, "weight": 2.5}
    assert told["waiting"][0]["codes"] == [["lowmemory", 60], ["status", 3]]
    assert told["explained"]["answers"][0]["compared"]["limit"] == 24_000.0
    assert told["next"] == ["broker explain 7"]
    assert report_object(replace(RUN, explained=None))["explained"] is None
