"""A difference as tables for people."""

from __future__ import annotations

from typing import Any

import typer

from broker.cli.output import print_table
from broker.whatif.comparison import Difference, Totals
from broker.whatif.documents import mean_of, queue_documents, task_documents, total_document

MOST_ROWS = 20


def show(found: Difference, change: str) -> None:
    """All brokerages, then the tasks of which anything is different."""
    for brokerage, totals in sorted(found.totals.items()):
        _figures(brokerage, totals, change)
        _outcomes(totals)
        _queues(totals)
        _rejections(totals)
    if found.totals:
        _tasks(found)
    else:
        typer.echo("no cycle could be decided again")


def _figures(brokerage: str, totals: Totals, change: str) -> None:
    told = total_document(brokerage, totals)
    rows = [
        ("decisions", totals.decisions, totals.decisions),
        *(
            (outcome, told["outcomes"]["before"].get(outcome, 0), told["outcomes"]["after"].get(outcome, 0))
            for outcome in sorted({*told["outcomes"]["before"], *told["outcomes"]["after"]})
        ),
        ("candidates of a decision", mean_of(totals.candidates_before), mean_of(totals.candidates_after)),
        ("jobs" if brokerage != "production_task" else "tasks placed", told["jobs"]["before"], told["jobs"]["after"]),
    ]
    print_table(("", "before", "after"), rows, title=f"{brokerage}, {totals.cycles} cycle(s): {change}")
    typer.echo(
        f"{totals.changed} of {totals.decisions} decisions differ; "
        f"tasks that lose their last queue: {totals.losing_last}; that get a first one: {totals.gaining_first}; "
        f"jobs that go elsewhere: {totals.jobs_moved}"
    )


def _outcomes(totals: Totals) -> None:
    changed = [(*pair, count) for pair, count in totals.outcomes.most_common() if pair[0] != pair[1]]
    if changed:
        print_table(("before", "after", "decisions"), changed, title="Outcomes that change")


def _queues(totals: Totals) -> None:
    queues = queue_documents(totals)
    touched = {name: one for name, one in queues.items() if one["gained"] or one["lost"] or _moves(one)}
    ranked = sorted(touched.items(), key=lambda item: (-abs(item[1]["share_after"] - item[1]["share_before"]), item[0]))
    if not touched:
        return
    print_table(
        ("queue", "gained by", "lost by", "jobs before", "jobs after", "share before", "share after"),
        [(name, *one.values()) for name, one in ranked[:MOST_ROWS]],
        title=_title("Queues", len(ranked)),
    )


def _moves(one: dict[str, float]) -> bool:
    return one["jobs_before"] != one["jobs_after"]


def _rejections(totals: Totals) -> None:
    before, after = totals.rejected_before, totals.rejected_after
    codes = sorted({*before, *after}, key=lambda code: (-abs(after[code] - before[code]), code))
    differing = [code for code in codes if before[code] != after[code]]
    rows = [(code, before[code], after[code], after[code] - before[code]) for code in differing[:MOST_ROWS]]
    if rows:
        print_table(("reason", "before", "after", "difference"), rows, title=_title("Rejections", len(differing)))


def _tasks(found: Difference) -> None:
    documents = task_documents(found)
    if not documents:
        typer.echo("no decision differs")
        return
    print_table(
        ("task", "brokerage", "decisions", "outcomes", "gains", "loses", "candidates"),
        [_task(one) for one in documents[:MOST_ROWS]],
        title=_title("Tasks", len(documents)),
    )


def _task(one: dict[str, Any]) -> tuple[object, ...]:
    outcomes = ", ".join(f"{was} to {is_}" for was, is_, _ in one["outcomes"] if was != is_) or "same"
    lost = _some(one["lost"]) + (" (its last)" if one["loses_last_queue"] else "")
    counts = one["candidates"]
    return (
        one["jeditaskid"],
        one["brokerage"],
        one["changed"],
        outcomes,
        _some(one["gained"]),
        lost,
        f"{counts['before']:g} to {counts['after']:g}",
    )


def _some(queues: dict[str, str]) -> str:
    """A few queues with their codes, and how many more there are."""
    told = [f"{name} ({code})" for name, code in list(queues.items())[:3]]
    return ", ".join([*told, *([f"{len(queues) - 3} more"] if len(queues) > 3 else [])])


def _title(what: str, count: int) -> str:
    return what if count <= MOST_ROWS else f"{what} (first {MOST_ROWS} of {count})"
