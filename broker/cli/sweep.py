"""``broker sweep``: what stored cycles, or a scenario, would have decided with each value of a grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.context import settings_of
from broker.cli.output import print_json, print_table
from broker.cli.stored_cases import StoredCases
from broker.cli.what_if import (
    At,
    Last,
    Only,
    Processes,
    Rule,
    ScenarioFile,
    Seed,
    SnapshotId,
    Vo,
    Wanted,
    cases_of,
    cores,
    progress,
    report,
    rule_set,
    tell_of_others,
)
from broker.errors import FAILED
from broker.gdpconfig.proposals import Proposal, grid, read_ranges
from broker.gdpconfig.shipped import shipped_catalogue
from broker.whatif.cases import Change, RuleSet
from broker.whatif.comparison import Difference, Totals
from broker.whatif.documents import mean_of, total_documents
from broker.whatif.plot import check_plot, plot_sweep
from broker.whatif.rule_switches import read_switches, with_switches
from broker.whatif.running import Comparing, answer, answer_on_cluster

_OUTCOMES = ("brokered", "pending", "throttled")


def sweep(
    context: typer.Context,
    ranges: Annotated[
        list[str], typer.Argument(metavar="KEY=FROM:TO:STEP", help="A key and its values.", show_default=False)
    ],
    rule: Rule = None,
    last: Last = None,
    snapshot: SnapshotId = None,
    scenario: ScenarioFile = None,
    at: At = "now",
    brokerage: Only = None,
    vo: Vo = "atlas",
    processes: Processes = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster, as tcp://host:8786.")
    ] = None,
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="One object a point and brokerage.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw figures by value.")] = None,
) -> None:
    """What would have been decided with each value of a grid; nothing is changed."""
    points = grid(read_ranges(shipped_catalogue(), ranges, vo))
    switches = read_switches(rule or [])
    tell_of_others(points[0])
    if plot is not None:
        check_plot(plot)
    before = rule_set(settings_of(context).config)
    after = RuleSet(with_switches(before.profile, switches), before.quota_closed)
    what = Comparing(before, tuple(Change(point, after) for point in points), by_task=False)
    wanted = Wanted(last, snapshot, scenario, at, tuple(brokerage) if brokerage else None, seed)
    with cases_of(context, wanted, before) as cases, progress(len(cases) * len(points)) as tell:
        if dask is None:
            answers = answer(cases, len(cases), what, processes or cores(), tell)
        else:
            answers = answer_on_cluster(cases, what, dask, tell)
        left_out = cases.left_out if isinstance(cases, StoredCases) else []
    report(answers, left_out)
    if json:
        _print_points(points, answers.differences, {one.rule: one.on for one in switches})
    else:
        _show(points, answers.differences)
    if plot is not None:
        plot_sweep([_label(point) for point in points], _series(answers.differences), " ".join(ranges), plot)
    if left_out or answers.failed:
        raise typer.Exit(FAILED)


def _print_points(points: Sequence[tuple[Proposal, ...]], found: Sequence[Difference], rules: dict[str, bool]) -> None:
    for point, one in zip(points, found, strict=True):
        for document in total_documents(one):
            told = {**document, "kind": "point", "set": {value.key: value.value for value in point}, "rules": rules}
            print_json(told)


def _show(points: Sequence[tuple[Proposal, ...]], found: Sequence[Difference]) -> None:
    """One table: a row for each brokerage as it was, then one for each value."""
    keys = [value.key for value in points[0]]
    rows: list[tuple[object, ...]] = []
    for brokerage in sorted(found[0].totals):
        rows.append((*("as it was" for _ in keys), brokerage, *_figures(found[0].totals[brokerage], 0)))
        rows += [
            (*(value.value for value in point), brokerage, *_figures(one.totals[brokerage], 1))
            for point, one in zip(points, found, strict=True)
        ]
    columns = (*keys, "brokerage", "changed", *_OUTCOMES, "candidates", "lose last", "get first", "jobs", "moved")
    print_table(columns, rows, title=f"{found[0].total('decisions')} decisions of {found[0].total('cycles')} cycle(s)")


def _figures(totals: Totals, side: int) -> tuple[object, ...]:
    outcomes = [sum(n for pair, n in totals.outcomes.items() if pair[side] == outcome) for outcome in _OUTCOMES]
    if side == 0:
        return (0, *outcomes, mean_of(totals.candidates_before), 0, 0, totals.jobs_before.total(), 0)
    jobs = (totals.jobs_after.total(), totals.jobs_moved)
    return (
        totals.changed,
        *outcomes,
        mean_of(totals.candidates_after),
        totals.losing_last,
        totals.gaining_first,
        *jobs,
    )


def _label(point: tuple[Proposal, ...]) -> str:
    return ", ".join(f"{value.value}" for value in point)


def _series(found: Sequence[Difference]) -> dict[str, Sequence[float]]:
    def figures(name: str) -> list[float]:
        return [one.total(name) for one in found]

    nothing: Counter[int] = Counter()
    candidates = [sum((totals.candidates_after for totals in one.totals.values()), nothing) for one in found]
    return {
        "decisions that change": figures("changed"),
        "candidates of a decision": [mean_of(counts) for counts in candidates],
        "tasks that lose their last queue": figures("losing_last"),
        "jobs that go elsewhere": figures("jobs_moved"),
    }
