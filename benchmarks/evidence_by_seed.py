"""The figures of each seed in ``benchmarks/evidence/``: cells that take hours are run a few seeds at a time.

A row is one simulation: its name, which tells policy, seed and settings, CPU seconds, and the fields of ``Stats``.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from broker.simulation.commands.case_checkpoints import name_of
from broker.simulation.model.comparing import Case, CaseResult
from broker.simulation.model.figures import Stats

FIGURES = tuple(field.name for field in dataclasses.fields(Stats))
HEADS = ("case", "seed", "events", "decide_s", "total_s", *FIGURES)


def read(path: Path) -> dict[str, CaseResult]:
    """The recorded simulations by their names, without curves; none if the file does not exist.

    Raises:
        ValueError: the file has other columns.
    """
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        heads, *rows = csv.reader(lines)
    if tuple(heads) != HEADS:
        raise ValueError(f"{path}: columns {heads}; expected {list(HEADS)}: remove the file and run its cell again")
    return {row[0]: _result(row) for row in rows}


def write(path: Path, known: Mapping[str, CaseResult]) -> None:
    """Write simulations in the order of their seeds and names, with nine digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow(HEADS)
        for name, result in sorted(known.items(), key=lambda entry: (entry[1].seed, entry[0])):
            figures = [f"{figure:.9g}" for figure in dataclasses.astuple(result.stats)]
            cpu_s = (f"{result.decide_s:.1f}", f"{result.total_s:.1f}")
            table.writerow((name, result.seed, result.events, *cpu_s, *figures))


def with_recorded(
    cases: Sequence[Case],
    path: Path,
    run: Callable[[Sequence[Case]], Sequence[CaseResult]],
    anew: bool = False,
) -> list[CaseResult]:
    """The results of all cases in their order: those in the file are read, the others run and added to it.

    Args:
        cases: cases of one cell.
        path: the file of the cell.
        run: runs the cases that the file does not hold.
        anew: run all cases, and replace what the file holds of them.

    Raises:
        ValueError: the file has other columns.
    """
    recorded = read(path)
    known = {} if anew else recorded
    missing = [case for case in cases if name_of(case) not in known]
    added = dict(zip(map(name_of, missing), run(missing), strict=True)) if missing else {}
    if added:
        write(path, recorded | added)
        known = read(path)  # with nine digits, as a later run reads them
    return [dataclasses.replace(known[name_of(case)], label=case.label) for case in cases]


def _result(row: Sequence[str]) -> CaseResult:
    name, seed, events, decide_s, total_s, *figures = row
    stats = Stats(*map(float, figures))
    return CaseResult(name, int(seed), stats, (), {}, int(events), float(decide_s), float(total_s))
