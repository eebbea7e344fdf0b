"""The report of ``broker what-if``: how two sides of a comparison differ, as tables."""

from __future__ import annotations

from typing import Any

from broker.brokerages.registry import brokerage as brokerage_of
from broker.cli.output import Column, print_table, say
from broker.cli.rendering.cells import Percent, utc
from broker.whatif.model.comparison import Difference, Totals, mean_of, queue_documents, task_documents, total_document
from broker.whatif.model.executor import Baseline

MOST_ROWS = 20


def show(difference: Difference, change: str, baseline: Baseline) -> None:
    """Print the figures of all brokerages, then the tasks with any difference."""
    say(baseline_words(baseline))
    for brokerage, totals in sorted(difference.totals.items()):
        _stats(brokerage, totals, change)
        _outcomes(totals)
        _queues(totals)
        _rejections(totals)
    if difference.totals:
        _tasks(difference)
    else:
        say("no cycle could be decided again")


def baseline_words(baseline: Baseline) -> str:
    """The baseline in words: versions of the tuning, number of cycles, and their time span."""
    times, versions = sorted(baseline.decided_at), sorted(baseline.versions)
    if not times:
        return "Baseline: no cycle."
    span = f"of {utc(times[0])}" if times[0] == times[-1] else f"from {utc(times[0])} to {utc(times[-1])}"
    tuning = ", ".join(str(version) for version in versions)
    return f"Baseline: tuning version {tuning}, {len(baseline.cycles)} cycle(s) {span}."


def _stats(brokerage: str, totals: Totals, change: str) -> None:
    output = total_document(brokerage, totals)
    rows = [
        ("decisions", totals.decisions, totals.decisions),
        *(
            (outcome, output["outcomes"]["before"].get(outcome, 0), output["outcomes"]["after"].get(outcome, 0))
            for outcome in sorted({*output["outcomes"]["before"], *output["outcomes"]["after"]})
        ),
        ("candidates of a decision", mean_of(totals.candidates_before), mean_of(totals.candidates_after)),
        (_assigned(brokerage), output["jobs"]["before"], output["jobs"]["after"]),
    ]
    print_table(("figure", "before", "after"), rows, title=f"{brokerage}, {totals.cycles} cycle(s): {change}")
    say(
        f"{totals.changed} of {totals.decisions} decisions differ; "
        f"tasks that become unschedulable: {totals.losing_last}; that get a first one: {totals.gaining_first}; "
        f"jobs placed differently: {totals.jobs_moved}"
    )


def _assigned(name: str) -> str:
    """What the brokerage assigns, as a heading for the count."""
    what = brokerage_of(name).assigned
    return what if what == "jobs" else f"{what} placed"


def _outcomes(totals: Totals) -> None:
    changed = [(*pair, count) for pair, count in totals.outcomes.most_common() if pair[0] != pair[1]]
    if changed:
        print_table(("before", "after", "decisions"), changed, title="Outcomes that change")


def _queues(totals: Totals) -> None:
    queues = queue_documents(totals)
    touched = {name: row for name, row in queues.items() if row["gained"] or row["lost"] or _moves(row)}
    ranked = sorted(touched.items(), key=lambda item: (-abs(item[1]["share_after"] - item[1]["share_before"]), item[0]))
    if not touched:
        return
    print_table(
        (
            "queue",
            Column("decisions gained", 2),
            Column("decisions lost", 1),
            "jobs before",
            "jobs after",
            "share before",
            "share after",
        ),
        [(name, *list(row.values())[:4], *map(Percent, list(row.values())[4:])) for name, row in ranked[:MOST_ROWS]],
        title=_title("Queues", len(ranked)),
    )


def _moves(figures: dict[str, float]) -> bool:
    return figures["jobs_before"] != figures["jobs_after"]


def _rejections(totals: Totals) -> None:
    before, after = totals.rejected_before, totals.rejected_after
    codes = sorted({*before, *after}, key=lambda code: (-abs(after[code] - before[code]), code))
    differing = [code for code in codes if before[code] != after[code]]
    rows = [(code, before[code], after[code], after[code] - before[code]) for code in differing[:MOST_ROWS]]
    if rows:
        print_table(("reason", "before", "after", "difference"), rows, title=_title("Rejections", len(differing)))


def _tasks(difference: Difference) -> None:
    documents = task_documents(difference)
    if not documents:
        say("no decision differs")
        return
    print_table(
        ("task", Column("brokerage", 2), Column("decisions", 1), "outcomes", "gains", "loses", Column("candidates", 3)),
        [_task(one) for one in documents[:MOST_ROWS]],
        title=_title("Tasks", len(documents)),
    )


def _task(document: dict[str, Any]) -> tuple[object, ...]:
    outcomes = ", ".join(f"{was} to {is_}" for was, is_, _ in document["outcomes"] if was != is_) or "same"
    lost = _some(document["lost"]) + (" (its last)" if document["loses_last_queue"] else "")
    counts = document["candidates"]
    return (
        document["jeditaskid"],
        document["brokerage"],
        document["changed"],
        outcomes,
        _some(document["gained"]),
        lost,
        f"{counts['before']:g} to {counts['after']:g}",
    )


def _some(queues: dict[str, str]) -> str:
    """The first three queues with their codes, and the number of the others."""
    words = [f"{name} ({code})" for name, code in list(queues.items())[:3]]
    return ", ".join([*words, *([f"{len(queues) - 3} more"] if len(queues) > 3 else [])])


def _title(what: str, count: int) -> str:
    return what if count <= MOST_ROWS else f"{what} (first {MOST_ROWS} of {count})"
