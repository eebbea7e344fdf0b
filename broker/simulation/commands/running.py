"""A comparison while it runs and as it is printed: progress, what is kept of it, the table, and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from broker.cli.output import Body, lay_out, print_json, print_table, remark
from broker.simulation.answers.figures_of_merit import FIGURES, cell, sentence
from broker.simulation.commands.documents import policy_document
from broker.simulation.commands.kept_cases import TABLE, KeptCases
from broker.simulation.model.comparing import Case, CaseResult, Comparison, compare, simulate_all, simulate_case
from broker.simulation.model.intervals import FEWEST_SEEDS
from broker.simulation.model.steady import steady_hour

#: What the table shows.
SHOWN = (
    "delivered", "finish_mean_s", "wait_mean_s", "wait_95_s", "use", "wan_bytes_job", "failed", "rebrokered",
    "share_deviation", "jain",
)  # fmt: skip
#: Seconds between two lines of progress where stderr is no terminal.
LINE_EVERY_S = 15.0
Emit = Callable[[int, CaseResult], None]


def run_cases(
    cases: Sequence[Case],
    processes: int,
    dask: str | None,
    kept: KeptCases | None = None,
    simulate: Callable[[Case], CaseResult] = simulate_case,
) -> list[CaseResult]:
    """The results of all cases, in their order; those that the folder has are not run again.

    Args:
        cases: of the comparison.
        processes: at once.
        dask: address of a scheduler, None to work here.
        kept: the folder into which each case is written as it is finished, with the table so far; None keeps nothing.
        simulate: runs one.

    Raises:
        SimulationError: a scenario cannot be simulated, or a file of the folder read or written.
        BrokerError: the cluster cannot be reached.
    """
    found = {} if kept is None else kept.found(cases)
    if kept is not None:
        _say_what_is_kept(kept, cases, len(found))
    left = [place for place in range(len(cases)) if place not in found]
    with progress(len(left)) as emit:

        def finished(number: int, result: CaseResult) -> None:
            place = left[number]
            found[place] = result
            if kept is not None:
                kept.keep(cases[place], result)
                kept.keep_table(_table_text(found))
            emit(number, result)

        simulate_all([cases[place] for place in left], processes, finished, dask, simulate)
    return [found[place] for place in range(len(cases))]


def _say_what_is_kept(kept: KeptCases, cases: Sequence[Case], known: int) -> None:
    if known:
        remark(f"note: {known} of {len(cases)} simulations are taken from {kept.folder}")
    others = kept.others(cases)
    if others:
        remark(f"note: {kept.folder} holds {others} simulations of other settings, which are left alone")
    if known < len(cases):
        remark(f"the table so far: {kept.folder / TABLE}")


@contextmanager
def progress(cases: int) -> Iterator[Emit]:
    """Progress on stderr over so many simulations: a bar on a terminal, else a line now and then with the time left."""
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
        cases: in all.
        clock: seconds.
        say: takes a line.
    """

    def __init__(self, cases: int, clock: Callable[[], float], say: Callable[[str], None]) -> None:
        self._cases, self._clock, self._say = cases, clock, say
        self._began_s = self._said_s = clock()
        self._done = 0

    def __call__(self, place: int, result: CaseResult) -> None:
        """Count a finished case."""
        self._done += 1
        now = self._clock()
        if self._done < self._cases and now - self._said_s >= LINE_EVERY_S:
            self._said_s = now
            left_s = (now - self._began_s) / self._done * (self._cases - self._done)
            last = f"last: {result.label}, seed {result.seed}"
            self._say(f"simulated {self._done} of {self._cases} ({last}); {_long(left_s)} left")


def _long(seconds: float) -> str:
    minutes = max(1, round(seconds / 60.0))
    return f"about {minutes} min" if minutes < 120 else f"about {seconds / 3600.0:.1f} h"


def show(comparisons: Sequence[Comparison], results: Sequence[CaseResult], json: bool, warm_up_s: float = 0.0) -> None:
    """Print the comparison: as a table with what it says in words, or one object a policy.

    Args:
        comparisons: of the policies, the first is what the others are compared with.
        results: of all simulations.
        json: objects in place of a table.
        warm_up_s: of the scenario; a policy whose use is not steady by then is named.
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
    """A line for each policy whose use of the grid still moves after the warm-up."""
    lines = []
    for label in dict.fromkeys(result.label for result in results):
        own = [result for result in results if result.label == label and result.curves.get("use")]
        samples = min((len(one.hours) for one in own), default=0)
        if not warm_up_s or not samples:
            continue
        use = np.array([one.curves["use"][:samples] for one in own])
        found = steady_hour(np.array(own[0].hours[:samples]), use)
        if found is None:
            lines.append(f"note: use of {label} is not steady in the first half: simulate more days")
        elif found * 3600.0 > warm_up_s:
            lines.append(
                f"note: use of {label} is steady from hour {found:.1f} on, and the warm-up ends at "
                f"{warm_up_s / 3600.0:.1f}: take --warm-up {math.ceil(found)}h and more days"
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


def _cell(one: Comparison, name: str) -> str:
    mean = one.means[name]
    return f"{cell(name, mean.mean, mean.half_width)}{'*' if name in one.told else ''}"


def _table_text(found: Mapping[int, CaseResult]) -> str:
    """The comparison of what is finished, by the seeds that all policies seen so far have."""
    comparisons = compare([found[place] for place in sorted(found)])
    if not comparisons or not comparisons[0].seeds:
        return "no seed is finished with all policies yet\n"
    headings = ("policy", *(FIGURES[name].title for name in SHOWN))
    columns = [
        Body(heading, tuple(row[place] for row in _rows(comparisons)), right=place > 0)
        for place, heading in enumerate(headings)
    ]
    words = [sentence(one, comparisons[0]) for one in comparisons[1:]]
    return "\n".join((_title(comparisons), *lay_out(columns, None).lines, *words)) + "\n"
