"""Run and print a comparison: progress, checkpoints, the table, and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from broker.cli.output import ColumnText, lay_out, print_json, print_table, remark
from broker.simulation.answers.figures_of_merit import FIGURES, cell, sentence
from broker.simulation.commands.case_checkpoints import TABLE, CaseCheckpoints
from broker.simulation.commands.documents import policy_document
from broker.simulation.model.comparing import Case, CaseResult, Comparison, compare, simulate_all, simulate_case
from broker.simulation.model.intervals import FEWEST_SEEDS
from broker.simulation.model.steady import steady_hour

#: Figures shown in the table.
SHOWN = (
    "delivered", "finish_mean_s", "wait_mean_s", "wait_95_s", "use", "wan_bytes_job", "failed", "rebrokered",
    "share_deviation", "jain",
)  # fmt: skip
#: Minimum seconds between two lines of progress if stderr is no terminal.
LINE_EVERY_S = 15.0
Emit = Callable[[int, CaseResult], None]


def run_cases(
    cases: Sequence[Case],
    processes: int,
    dask: str | None,
    checkpoints: CaseCheckpoints | None = None,
    simulate: Callable[[Case], CaseResult] = simulate_case,
) -> list[CaseResult]:
    """Run all cases. Returns the results in their order; cases that the folder already holds are not run again.

    Args:
        cases: cases of the comparison.
        processes: number of parallel processes.
        dask: address of a scheduler, None to work locally.
        checkpoints: folder to which each case is written when it finishes, with the table so far; None keeps nothing.
        simulate: runs one case.

    Raises:
        SimulationError: a scenario cannot be simulated, or a file of the folder cannot be read or written.
        BrokerError: the cluster cannot be reached.
    """
    results = {} if checkpoints is None else checkpoints.load(cases)
    if checkpoints is not None:
        _report_checkpoints(checkpoints, cases, len(results))
    remaining = [place for place in range(len(cases)) if place not in results]
    with progress(len(remaining)) as emit:

        def finished(number: int, result: CaseResult) -> None:
            place = remaining[number]
            results[place] = result
            if checkpoints is not None:
                checkpoints.keep(cases[place], result)
                checkpoints.keep_table(_table_text(results))
            emit(number, result)

        simulate_all([cases[place] for place in remaining], processes, finished, dask, simulate)
    return [results[place] for place in range(len(cases))]


def _report_checkpoints(checkpoints: CaseCheckpoints, cases: Sequence[Case], known: int) -> None:
    if known:
        remark(f"note: {known} of {len(cases)} simulations are taken from {checkpoints.folder}")
    others = checkpoints.others(cases)
    if others:
        remark(f"note: {checkpoints.folder} holds {others} simulations of other settings, which are left alone")
    if known < len(cases):
        remark(f"the table so far: {checkpoints.folder / TABLE}")


@contextmanager
def progress(cases: int) -> Iterator[Emit]:
    """Progress of this many simulations on stderr: a bar on a terminal, else occasional lines with the time left."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(cases, monotonic, remark)
        return
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=cases)
        yield lambda place, result: bar.advance(task)


class Lines:
    """Progress in lines, at most one every 15 s.

    Args:
        cases: total number of cases.
        clock: returns the time in seconds.
        say: prints a line.
    """

    def __init__(self, cases: int, clock: Callable[[], float], say: Callable[[str], None]) -> None:
        self._cases, self._clock, self._say = cases, clock, say
        self._began_s = self._last_line_s = clock()
        self._done = 0

    def __call__(self, place: int, result: CaseResult) -> None:
        """Count a finished case."""
        self._done += 1
        now = self._clock()
        if self._done < self._cases and now - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = now
            left_s = (now - self._began_s) / self._done * (self._cases - self._done)
            last = f"last: {result.label}, seed {result.seed}"
            self._say(f"simulated {self._done} of {self._cases} ({last}); {_duration_text(left_s)} left")


def _duration_text(seconds: float) -> str:
    minutes = max(1, round(seconds / 60.0))
    return f"about {minutes} min" if minutes < 120 else f"about {seconds / 3600.0:.1f} h"


def show(comparisons: Sequence[Comparison], results: Sequence[CaseResult], json: bool, warm_up_s: float = 0.0) -> None:
    """Print the comparison as a table with sentences, or as one object a policy.

    Args:
        comparisons: comparisons of the policies; the others are compared with the first.
        results: results of all simulations.
        json: print objects in place of a table.
        warm_up_s: warm-up of the scenario; policies whose use is not steady by then are reported.
    """
    if json:
        for one in comparisons:
            print_json(policy_document(one, results))
    else:
        print_table(("policy", *(FIGURES[name].title for name in SHOWN)), _rows(comparisons), title=_title(comparisons))
        for one in comparisons[1:]:
            remark(sentence(one, comparisons[0]))
    seeds = len(comparisons[0].seeds) if comparisons else 0
    if seeds < FEWEST_SEEDS and not json:
        remark(f"note: {seeds} seed(s) tell little: take at least {FEWEST_SEEDS}")
    for line in unsteady(results, warm_up_s):
        remark(line)


def unsteady(results: Sequence[CaseResult], warm_up_s: float) -> list[str]:
    """A line for each policy whose use of the grid is not steady after the warm-up."""
    lines = []
    for label in dict.fromkeys(result.label for result in results):
        own = [result for result in results if result.label == label and result.curves.get("use")]
        samples = min((len(one.hours) for one in own), default=0)
        if not warm_up_s or not samples:
            continue
        use = np.array([one.curves["use"][:samples] for one in own])
        steady_h = steady_hour(np.array(own[0].hours[:samples]), use)
        if steady_h is None:
            lines.append(f"note: use of {label} is not steady in the first half: simulate more days")
        elif steady_h * 3600.0 > warm_up_s:
            lines.append(
                f"note: use of {label} is steady from hour {steady_h:.1f} on, and the warm-up ends at "
                f"{warm_up_s / 3600.0:.1f}: take --warm-up {math.ceil(steady_h)}h and more days"
            )
    return lines


def _rows(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    return [(one.label, *(_cell(one, name) for name in SHOWN)) for one in comparisons]


def _title(comparisons: Sequence[Comparison]) -> str:
    seeds = len(comparisons[0].seeds) if comparisons else 0
    first = comparisons[0].label if comparisons else "nothing"
    return (
        f"mean +- half-width of the 95 % interval, {seeds} seed(s); * differs from {first}, paired; "
        "delivered and task h decide, the others after Holm"
    )


def _cell(comparison: Comparison, name: str) -> str:
    mean = comparison.means[name]
    return f"{cell(name, mean.mean, mean.half_width)}{'*' if name in comparison.significant else ''}"


def _table_text(results: Mapping[int, CaseResult]) -> str:
    """The comparison of the finished cases, over the seeds that all policies so far have in common."""
    comparisons = compare([results[place] for place in sorted(results)])
    if not comparisons or not comparisons[0].seeds:
        return "no seed is finished with all policies yet\n"
    headings = ("policy", *(FIGURES[name].title for name in SHOWN))
    columns = [
        ColumnText(heading, tuple(row[place] for row in _rows(comparisons)), right=place > 0)
        for place, heading in enumerate(headings)
    ]
    words = [sentence(one, comparisons[0]) for one in comparisons[1:]]
    return "\n".join((_title(comparisons), *lay_out(columns, None).lines, *words)) + "\n"
