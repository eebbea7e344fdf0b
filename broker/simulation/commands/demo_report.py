"""The report of the demonstration: tables for people, one object for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from broker.api.plain import plain
from broker.cli.output import escaped, print_table
from broker.decisions.answers.decision_model import rejected_candidate
from broker.decisions.answers.sentences import candidate_sentence
from broker.engine.shared.answer import CandidateVerdict
from broker.simulation.model.demo.summary import NucleusGiven, Summary, UserTask

SHOWN_QUEUES = 20
PERCENT = 100


@dataclass(frozen=True)
class DemoRun:
    """The result of the demonstration.

    Attributes:
        summary: the summed decisions.
        titles: short name and remark of each task, by id.
        grid: numbers of sites, queues and so on, by name.
        seconds: time of each stage by name.
        explained: a task explained in detail, with the reasons why some queues rejected it.
        where: the address of the database, for people.
        commands: commands to try next, one a line.
        nuclei: the tasks that waited for a nucleus, with their outcomes.
        user_tasks: the tasks of users, with their outcomes.
        users: the user of each task of a user, by task.
    """

    summary: Summary
    titles: Mapping[int, tuple[str, str]]
    grid: Mapping[str, int]
    seconds: Mapping[str, float]
    explained: tuple[int, Sequence[CandidateVerdict]] | None
    where: str
    commands: Sequence[str]
    nuclei: Sequence[NucleusGiven] = ()
    user_tasks: Sequence[UserTask] = ()
    users: Mapping[int, str] = field(default_factory=dict)


def report_object(run: DemoRun) -> dict[str, Any]:
    """The run as one object for ``--json``."""
    return {
        "demo": dict(run.grid),
        "nuclei": [asdict(task) for task in run.nuclei],
        **asdict(run.summary),
        "user_tasks": [{"user": run.users.get(task.jeditaskid), **asdict(task)} for task in run.user_tasks],
        "explained": None
        if run.explained is None
        else {
            "jeditaskid": run.explained[0],
            "answers": [plain(rejected_candidate(answer)) for answer in run.explained[1]],
        },
        "seconds": {name: round(seconds, 3) for name, seconds in run.seconds.items()},
        "database": run.where,
        "next": list(run.commands),
    }


def _explained(jeditaskid: int, answers: Sequence[CandidateVerdict]) -> dict[str, Any]:
    return {"jeditaskid": jeditaskid, "answers": [plain(rejected_candidate(answer)) for answer in answers]}


def print_report(run: DemoRun) -> None:
    """Print assignments, the common funnel, and the waiting tasks with their reasons."""
    summary = run.summary
    counted = ", ".join(f"{number:,} {name}" for name, number in run.grid.items())
    print(f"A synthetic grid with real names: {counted}.\n")
    _print_nuclei(run)
    _print_assignments(summary)
    _print_funnel(summary)
    _print_waiting(run)
    _print_user_tasks(run)
    _print_explanation(run)
    total_s = sum(run.seconds.values())
    print(
        f"{summary.jobs:,} jobs of {summary.brokered} of {summary.chunks} input chunks went to {len(summary.queues)}"
        f" queues in {total_s:.1f} s."
    )
    placed = [task for task in run.user_tasks if task.jobs]
    if run.user_tasks:
        jobs = sum(task.jobs for task in placed)
        print(f"{jobs:,} jobs of {len(placed)} of {len(run.user_tasks)} tasks of users went to queues of analysis.")


def print_next(run: DemoRun) -> None:
    """Print the place of the grid and commands to try on it."""
    print(f"\nThe grid stays in {escaped(run.where)}. Try next:")
    for command in run.commands:
        print(f"  {escaped(command)}")


def _print_nuclei(run: DemoRun) -> None:
    rows = []
    for task in run.nuclei:
        name, remark = run.titles.get(task.jeditaskid, ("", ""))
        weight = None if task.weight is None else round(task.weight, 6)
        nucleus = task.nucleus or f"none: {task.reason}"
        rows.append((task.jeditaskid, name, nucleus, task.candidates, weight, task.jobs, task.queues, remark))
    columns = ("task", "name", "nucleus", "of", "weight", "jobs", "queues", "about it")
    if rows:
        print_table(columns, rows, title="Tasks that waited for a nucleus, and their jobs")


def _print_assignments(summary: Summary) -> None:
    shown = summary.queues[:SHOWN_QUEUES]
    rows: list[tuple[object, ...]] = [
        (use.queue, use.jobs, use.tasks, round(use.weight, 4), _percent(use.jobs, summary.jobs)) for use in shown
    ]
    rest = summary.queues[SHOWN_QUEUES:]
    title = f"Assignments: the {len(shown)} queues with the most jobs"
    if rest:
        title += f" ({len(rest)} more queues got {sum(use.jobs for use in rest):,} jobs)"
    print_table(("queue", "jobs", "tasks", "mean weight", "share"), rows, title=title)


def _print_funnel(summary: Summary) -> None:
    rows = [
        (
            line.code,
            line.queues_removed,
            line.queues_left,
            _percent(line.queues_left, summary.candidate_queues),
            line.removed,
            line.left,
        )
        for line in summary.funnel
    ]
    title = (
        f"Filter summary over all tasks: {summary.candidate_queues:,} pairs of an input chunk and a queue to begin with"
        f" ({summary.candidates:,} with a pseudo-queue)"
    )
    columns = ("reason", "queues rejected", "remaining", "of all", "pseudo-queues rejected", "remaining")
    print_table(columns, rows, title=title)


def _print_waiting(run: DemoRun) -> None:
    rows = []
    for chunk in run.summary.waiting:
        name, remark = run.titles.get(chunk.jeditaskid, ("", ""))
        codes = ", ".join(f"{code} {number}" for code, number in chunk.codes)
        rows.append((chunk.jeditaskid, name, chunk.reason, codes, remark))
    print_table(("task", "name", "reason", "queues rejected by", "about it"), rows, title="Tasks that found no queue")


def _print_user_tasks(run: DemoRun) -> None:
    rows = []
    for task in run.user_tasks:
        name, remark = run.titles.get(task.jeditaskid, ("", ""))
        user = run.users.get(task.jeditaskid, "")
        rows.append((task.jeditaskid, user, name, task.outcome, task.jobs, task.queues, _why(task), remark))
    columns = ("task", "user", "name", "outcome", "jobs", "queues", "why", "about it")
    if rows:
        print_table(columns, rows, title="Tasks of users")


def _why(task: UserTask) -> str:
    if task.condition is not None:
        return f"{task.condition.replace('_', ' ')} {task.figure:g} {task.unit}, cap {task.cap:g}"
    return ", ".join(f"{code} {number}" for code, number in task.codes)


def _print_explanation(run: DemoRun) -> None:
    if run.explained is None:
        return
    task, answers = run.explained
    print(f"Why task {task} ({escaped(run.titles.get(task, ('', ''))[0])}) found no queue, one example of each reason:")
    for answer in answers:
        print(f"  {escaped(candidate_sentence(rejected_candidate(answer)))}")
    print()


def _percent(part: int, whole: int) -> str:
    return f"{PERCENT * part / whole:.1f} %" if whole else ""
