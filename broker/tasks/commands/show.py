"""``broker task show``: what a task asks for, where that came from, and what retry rules did for it."""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli.context import asked
from broker.cli.output import Column, print_json, print_table, remark
from broker.retries.answers.retries import RetryActionLine, actions_of
from broker.sizing.answers.requests import TaskRequests, task_requests
from broker.store.query_context import Answer

MOST_ACTIONS = 50


class ShownTask(Answer):
    """A task: its requests, and what retry rules did for its jobs, the oldest first."""

    requests: TaskRequests
    retries: tuple[RetryActionLine, ...]


def show(
    context: typer.Context,
    task: Annotated[int, typer.Argument(metavar="TASK", help="The task (jeditaskid).")],
    as_json: Annotated[bool, typer.Option("--json", help="One object: requests, retries.")] = False,
) -> None:
    """What a task asks for and where each value came from, and what retry rules did for its failed jobs."""
    with asked(context) as asking:
        found = ShownTask(requests=task_requests(asking, task), retries=actions_of(asking, task=task))
    if as_json:
        print_json(found)
        return
    requests = found.requests
    columns = ("what", "asked", "unit", "from", Column("scouts say", give_up=1), Column("why", give_up=2))
    rows = [(one.name, _or_dash(one.value), one.unit or "-", one.source, _or_dash(one.scouts), one.reason or "-")
            for one in requests.values]  # fmt: skip
    print_table(columns, rows, title=f"Task {requests.jeditaskid}, {requests.status}: what its jobs ask for")
    _say_learned(requests)
    if found.retries:
        shown = [
            (one.acted_at, one.pandaid, one.rule, one.action, "active" if one.active else "passive", one.reason)
            for one in found.retries[-MOST_ACTIONS:]
        ]
        print_table(("at", "job", "rule", "action", "mode", "what it did"), shown, title="Retry rules")


def _say_learned(requests: TaskRequests) -> None:
    one = requests.learned
    if one is None:
        remark("its jobs were not looked at yet; the agent task_sizing does so from 5 finished jobs on")
        return
    used = f"{one.finished} jobs finished, {one.killed} killed for memory"
    if one.ask is None:
        remark(f"{used}; what is enough is not known: {one.unknown}")
    else:
        high = "more than all" if one.high is None else f"{one.high:.0f}"
        remark(
            f"{used}; half used {one.p50 or 0:.0f} MB, {one.ask:.0f} MB are enough (90 %: {one.low or 0:.0f} to {high})"
        )


def _or_dash(value: int | None) -> object:
    return "-" if value is None else value
