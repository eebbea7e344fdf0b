"""``broker sweep``: the decisions of stored cycles, or of a scenario, with each value of a grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from broker.brokerages.profile import Profile
from broker.cli.context import installed_catalogue, settings_of
from broker.cli.output import Column, print_json, print_table, say
from broker.cli.rendering.plotting import check_plot
from broker.decisions.answers.rules_in_force import rule_set
from broker.errors import FAILED, Refused
from broker.gdpconfig.proposals import Proposal, grid, read_ranges
from broker.whatif.answers.stored_cases import StoredCases
from broker.whatif.commands.pictures import plot_sweep
from broker.whatif.commands.what_if import (
    At,
    CycleSelection,
    Last,
    Only,
    Processes,
    Rule,
    ScenarioFile,
    Seed,
    SnapshotId,
    Vo,
    affected,
    cases_of,
    cores,
    progress,
    report,
    report_skipped_tasks,
)
from broker.whatif.commands.what_if_report import baseline_words
from broker.whatif.model.cases import Case, Change, ProfileRules, Switch, read_switches, with_switches
from broker.whatif.model.comparison import Difference, Totals, mean_of, total_documents
from broker.whatif.model.executor import Answers, Comparing, answer, answer_on_cluster

BASELINE = "baseline"
_OUTCOMES = ("brokered", "pending", "throttled")

SimulatedGrid = Annotated[
    str | None,
    typer.Option("--grid", metavar="NAME|FILE", help="With --simulate: a grid by name, or a file of a grid."),
]
OwnProfile = Annotated[
    Path | None, typer.Option("--profile", metavar="FILE", help="With --simulate: profile of your own that decides.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="With --simulate: keep each finished simulation, and resume from there."),
]
Store = Annotated[
    bool, typer.Option("--store", help="With --simulate: keep the figures, for the web page and the API.")
]
Simulated = Annotated[
    bool, typer.Option("--simulate", help="Judge by the consequences on a simulated grid, not by decisions.")
]
Cluster = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Scheduler of a Dask cluster, as tcp://host:8786.")
]


def sweep(
    context: typer.Context,
    ranges: Annotated[
        list[str], typer.Argument(metavar="KEY=FROM:TO:STEP", help="A key and its values.", show_default=False)
    ],
    rule: Rule = None,
    last: Last = None,
    snapshot: SnapshotId = None,
    scenario: ScenarioFile = None,
    at: At = None,
    brokerage: Only = None,
    vo: Vo = None,
    processes: Processes = None,
    dask: Cluster = None,
    seed: Seed = 0,
    simulated: Simulated = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="With --simulate: seeds of each value.")] = 10,
    simulated_grid: SimulatedGrid = None,
    profile: OwnProfile = None,
    out: Folder = None,
    store: Store = False,
    json: Annotated[bool, typer.Option("--json", help="One object per point and brokerage.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg|png", help="Draw figures by value.")] = None,
) -> None:
    """Show what would have been decided with each value of a grid; nothing is changed."""
    catalogue = installed_catalogue(context)
    points = grid(read_ranges(catalogue, ranges, vo or catalogue.vo))
    if simulated:
        from broker.simulation.commands.sweeping import named_grid, sweep_simulated

        own = None if simulated_grid is None else (simulated_grid, named_grid(simulated_grid))
        keeper = context if store else None
        sweep_simulated(points, seeds, processes or cores(), dask, json, own, profile, out, keeper)
        return
    _only_simulated({"--grid": simulated_grid, "--profile": profile, "--out": out})
    switches = _checked(store, rule, plot)
    report_skipped_tasks(points[0])
    before = rule_set(settings_of(context).config)
    what = _comparing(before, with_switches(before.profile, switches), points)
    selection = CycleSelection(
        last, snapshot, scenario, at, tuple(brokerage or ()) or affected(before, what.changes[0]), seed
    )
    with cases_of(context, selection, before) as cases, progress(len(cases) * len(points)) as emit:
        answers = _answered(cases, what, processes or cores(), dask, emit)
    report(answers)
    _print_answers(points, answers, switches if json else None)
    if plot is not None:
        _plot(points, answers, " ".join(ranges), plot)
    if answers.dropped_rows or answers.failed:
        raise typer.Exit(FAILED)


def _only_simulated(options: Mapping[str, object]) -> None:
    """Refuse options that only apply to simulations.

    Raises:
        Refused: one of the options is given.
    """
    option = next((name for name, value in options.items() if value is not None), None)
    if option is not None:
        raise Refused(f"{option} is about a simulated grid", "broker sweep", "add --simulate, or leave it out")


def _checked(store: bool, rule: list[str] | None, plot: Path | None) -> tuple[Switch, ...]:
    """The switched rules; options that would fail after the work are refused before it."""
    if store:
        raise Refused(
            "--store keeps simulations, and a sweep over stored cycles is none",
            "broker sweep",
            "add --simulate, or run the sweep through the API, which keeps it",
        )
    switches = read_switches(rule or [])
    check_plot(plot)
    return switches


def _print_answers(points: Sequence[tuple[Proposal, ...]], answers: Answers, switches: Sequence[Switch] | None) -> None:
    """Print the points: as JSON with the switched rules, or, without ``switches``, as a table."""
    if switches is not None:
        _print_points(points, answers, {one.rule: one.on for one in switches})
    else:
        _show(points, answers)


def _plot(points: Sequence[tuple[Proposal, ...]], answers: Answers, ranges: str, file: Path) -> None:
    title = f"{ranges}. {baseline_words(answers.baseline)}"
    labels = [_label(point) for point in points]
    plot_sweep(labels, _series(answers.differences), title, file, _place_in_force(points, answers))


def _comparing(before: ProfileRules, profile: Profile, points: Sequence[tuple[Proposal, ...]]) -> Comparing:
    """The comparison of what is in force with each point, under the rules of a profile."""
    after = ProfileRules(profile, before.options)
    return Comparing(before, tuple(Change(point, after) for point in points), by_task=False)


def _answered(
    cases: Sequence[Case] | StoredCases, what: Comparing, processes: int, dask: str | None, emit: Callable[[int], None]
) -> Answers:
    """The answers, computed by local processes or a Dask cluster."""
    if dask is None:
        return answer(cases, what, processes, emit)
    return answer_on_cluster(cases, what, dask, emit)


def _print_points(points: Sequence[tuple[Proposal, ...]], answers: Answers, rules: dict[str, bool]) -> None:
    baseline = answers.baseline.document()
    for point, difference in zip(points, answers.differences, strict=True):
        for document in total_documents(difference):
            values = {value.key: value.value for value in point}
            print_json({**document, "kind": "point", "set": values, "rules": rules, "baseline": baseline})


def _show(points: Sequence[tuple[Proposal, ...]], answers: Answers) -> None:
    """Print one table: for each brokerage a row of the baseline, then one for each value."""
    say(baseline_words(answers.baseline))
    differences = answers.differences
    keys = [value.key for value in points[0]]
    rows: list[tuple[object, ...]] = []
    for brokerage in sorted(differences[0].totals):
        rows.append((*(BASELINE for _ in keys), brokerage, *_stats(differences[0].totals[brokerage], 0)))
        rows += [
            (*(value.value for value in point), brokerage, *_stats(one.totals[brokerage], 1))
            for point, one in zip(points, differences, strict=True)
        ]
    columns: tuple[str | Column, ...] = (
        *keys,
        Column("brokerage", 1 if len(differences[0].totals) == 1 else 0),
        "changed",
        *_OUTCOMES,
        Column("candidates", 3),
        Column("lose last queue", 4),
        Column("get first queue", 5),
        Column("jobs", 2),
        Column("jobs moved", 6),
    )
    print_table(
        columns,
        rows,
        title=f"{differences[0].total('decisions')} decisions of {differences[0].total('cycles')} cycle(s)",
    )


def _stats(totals: Totals, side: int) -> tuple[object, ...]:
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


def _place_in_force(points: Sequence[tuple[Proposal, ...]], answers: Answers) -> float | None:
    """The position of the value in force among the points of one key; None if it is outside them or no number."""
    if len(points[0]) != 1 or len(answers.baseline.in_force) != 1:
        return None
    (in_force,) = next(iter(answers.baseline.in_force))
    values = [one[0].value for one in points]
    numbers = [float(one) for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) != len(values) or not isinstance(in_force, int | float) or isinstance(in_force, bool):
        return None
    if not min(numbers) <= in_force <= max(numbers):
        return None
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return float(np.interp(in_force, [numbers[n] for n in order], order))


def _label(point: tuple[Proposal, ...]) -> str:
    return ", ".join(f"{value.value}" for value in point)


def _series(differences: Sequence[Difference]) -> dict[str, Sequence[float]]:
    def stats(name: str) -> list[float]:
        return [one.total(name) for one in differences]

    nothing: Counter[int] = Counter()
    candidates = [sum((totals.candidates_after for totals in one.totals.values()), nothing) for one in differences]
    return {
        "decisions that change": stats("changed"),
        "candidates of a decision": [mean_of(counts) for counts in candidates],
        "tasks that become unschedulable": stats("losing_last"),
        "jobs placed differently (%)": [
            100 * one.total("jobs_moved") / max(1, sum(totals.jobs_before.total() for totals in one.totals.values()))
            for one in differences
        ],
    }
