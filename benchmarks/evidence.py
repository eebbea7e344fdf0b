"""The tables of docs/explanation/policies.md from shipped profiles: ``make evidence``.

Each finished simulation is kept in ``build/evidence``, so that a stopped run goes on. With ``--write`` the tables are
written anew between the marks of the page; without it they are printed. ``--reduced`` takes a few minutes. Cells with
``by_seed: true`` take the seeds that ``benchmarks/evidence/`` holds from there, and add those that they run; ``--anew``
runs all.

Run: python -m benchmarks.evidence [--reduced] [--write] [--only CELL] [--seeds N] [--anew]
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.evidence_by_seed import with_recorded
from broker.cli.context import duration
from broker.simulation.answers.figures_of_merit import FIGURES, cell, primary_verdict
from broker.simulation.commands.case_checkpoints import CaseCheckpoints
from broker.simulation.commands.running import run_cases
from broker.simulation.commands.simulate import grid_of, size_of
from broker.simulation.model.comparing import PRIMARY, Case, Comparison, ScenarioOf, compare
from broker.simulation.model.limits_of_work import delivered_bound, mean_wait_bound_s

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "benchmarks/evidence"
PAGE, BEGIN, END = ROOT / "docs/explanation/policies.md", "<!-- evidence -->\n", "<!-- end of evidence -->\n"
SECONDARY = ("wait_mean_s", "wait_95_s", "use", "wan_bytes_job", "failed", "rebrokered", "share_deviation")
REFERENCE = "clairvoyant"
VERDICTS = ("better", "worse", "no difference", "not told")


def cases_of(asked: Mapping[str, Any], one: Mapping[str, Any]) -> list[Case]:
    """The simulations of one cell."""
    size = {**asked["size"], **one.get("size", {})}
    sized = size_of(size["days"], size["queues"], size["cores"], one.get("load"), size["warm_up"])
    if "cycle" in size:
        cycle_s = duration(size["cycle"], f"{one['name']}: cycle").total_seconds()
        sized = dataclasses.replace(sized, changes=(("cycle_s", cycle_s),))
    made = grid_of(None, str(one["grid"]), sized)
    seeds = range(asked["first_seed"], asked["first_seed"] + asked["seeds"])
    rows = asked["sets"][one["policies"]] if "policies" in one else [{"label": policy} for policy in asked["policies"]]
    return [_case(row, seed, made) for seed in seeds for row in rows]


def _case(row: Mapping[str, Any], seed: int, made: ScenarioOf) -> Case:
    """A policy by its name, or a profile with values of keys under a label of its own."""
    return Case(row["label"], row.get("policy", row["label"]), seed, made, tuple(sorted(row.get("set", {}).items())))


def bounds(cases: Sequence[Case]) -> str:
    """What no policy can do better, over the seeds of the cases."""
    grids = {case.seed: case.scenario_of(case.seed) for case in cases}
    most = [delivered_bound(made, seed) for seed, made in grids.items()]
    least = [mean_wait_bound_s(made, seed) / 60.0 for seed, made in grids.items()]
    said = f"No policy delivers more than {100 * sum(most) / len(most):.1f} %"
    wait = sum(least) / len(least)
    return f"{said}, or lets jobs wait less than {wait:.1f} min." if wait >= 0.05 else f"{said}."


def table(name: str, comparisons: Sequence[Comparison], bound: str = "") -> str:
    """The rows of one cell: figures with intervals, and of those that decide what the difference says."""
    first = comparisons[0]
    heads = ["policy", *(FIGURES[figure].title for figure in PRIMARY), f"against {first.label}", "of what can be done"]
    heads += [FIGURES[figure].title for figure in SECONDARY]
    lines = [
        f"### {name}",
        "",
        f"{len(first.seeds)} seeds. {bound}".rstrip(),
        "",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    best = next((one for one in comparisons if one.label == REFERENCE), None)
    for one in comparisons:
        shown = [_interval(one, figure) for figure in PRIMARY]
        row = [one.label, *shown, _verdicts(one, first), _part(one, best)]
        row += [_interval(one, figure) + ("\\*" if figure in one.significant else "") for figure in SECONDARY]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _interval(one: Comparison, figure: str) -> str:
    return cell(figure, one.means[figure].mean, one.means[figure].half_width).replace("+-", "±")


def _verdicts(one: Comparison, first: Comparison) -> str:
    """For each figure that decides: better, worse, no difference of 2 %, or not told and with how many seeds it is."""
    if one is first:
        return "-"
    said = []
    for figure in PRIMARY:
        found = one.differences[figure]
        text = cell(figure, found.mean, found.half_width).replace("+-", "±")
        word = primary_verdict(figure, found, first.means[figure].mean)
        seeds = f", {one.seeds_needed.get(figure, 0)} seeds would" if word == "not told" else ""
        said.append(f"{text}: {word}{seeds}")
    return "; ".join(said)


def _part(one: Comparison, best: Comparison | None) -> str:
    """Delivered work as a part of that of the clairvoyant schedule."""
    whole = None if best is None else best.means["delivered"].mean
    return f"{100 * one.means['delivered'].mean / whole:.0f} %" if whole else "not run"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the tables, and print or write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reduced", action="store_true", help="few seeds on a small grid: some five minutes")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--only", action="append", help="a cell by its name; repeat")
    parser.add_argument("--seeds", type=int, help="in place of those of evidence.yaml")
    parser.add_argument("--anew", action="store_true", help="run seeds that are recorded in benchmarks/evidence, too")
    parser.add_argument("--processes", type=int, default=1, help="at once")
    parser.add_argument("--out", type=Path, default=ROOT / "build/evidence", help="where finished simulations are kept")
    given = parser.parse_args(arguments)
    asked = yaml.safe_load((ROOT / "benchmarks/evidence.yaml").read_text(encoding="utf-8"))
    cells = [one for one in asked["cells"] if not given.only or one["name"] in given.only]
    if not cells:
        parser.error(f"no such cell; there are: {', '.join(one['name'] for one in asked['cells'])}")
    if given.reduced:
        asked |= asked["reduced"]
        cells = [{key: value for key, value in one.items() if key != "size"} for one in cells]
    if given.seeds:
        asked["seeds"] = given.seeds
    tables = []
    for one in cells:
        print(f"{one['name']}:", file=sys.stderr, flush=True)
        folder = str(one["name"]).replace(" ", "-").replace(",", "")
        checkpoints = CaseCheckpoints(given.out / folder)
        cases = cases_of(asked, one)
        run = partial(run_cases, processes=given.processes, dask=None, checkpoints=checkpoints)
        recorded = one.get("by_seed") and not given.reduced
        results = with_recorded(cases, RECORDED / f"{folder}.csv", run, given.anew) if recorded else run(cases)
        compared = compare(results)
        tables.append(table(one["name"], compared, bounds(cases)))
        print(tables[-1], flush=True)
    if given.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables, asked["cells"]), encoding="utf-8")


def written(page: str, tables: Sequence[str], cells: Sequence[Mapping[str, Any]]) -> str:
    """The page with these tables in place of the ones of their names; other cells keep theirs, unknown ones go.

    Before them stands what all of them say together (:func:`summary`).
    """
    before, rest = page.split(BEGIN)
    inside, after = rest.split(END)
    there = {part.split("\n", 1)[0]: f"### {part.rstrip()}\n" for part in inside.split("### ")[1:]}
    there |= {one.split("\n", 1)[0].removeprefix("### "): one for one in tables}
    names = [str(one["name"]) for one in cells]
    kept = {name: there[name] for name in names if name in there}
    own = {str(one["name"]) for one in cells if "policies" in one}
    parts = [summary(kept, [name for name in names if name not in kept], own), *kept.values()]
    return before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + after


def summary(tables: Mapping[str, str], missing: Sequence[str], uncounted: Collection[str] = ()) -> str:
    """What the tables say together: seeds of each, cells that were not run, and verdicts by policy, counted.

    Args:
        tables: by the name of the cell.
        missing: names of cells without a table.
        uncounted: names of cells with policies of their own, whose verdicts are not counted.
    """
    by_seeds: dict[str, list[str]] = {}
    found: dict[str, list[list[str]]] = {}
    for name, text in tables.items():
        seeds = re.search(r"^(\d+) seeds?\b", text, re.MULTILINE)
        by_seeds.setdefault(seeds[1] if seeds else "an unknown number of", []).append(name)
        if name in uncounted:
            continue
        for policy, said in re.findall(r"^\| (\w+) \|(?:[^|]*\|){2} ([^|]*:[^|]*) \|", text, re.MULTILINE):
            found.setdefault(policy, []).append([_word(one) for one in said.split(";")])
    ran = [f"With {seeds} seeds: {'; '.join(names)}." for seeds, names in by_seeds.items()]
    left = f"Not run: {'; '.join(missing)}." if missing else "All cells were run."
    heads = ["policy", "cells", *(f"{FIGURES[figure].title}: {', '.join(VERDICTS)}" for figure in PRIMARY)]
    lines = [" ".join((*ran, left)), "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for policy, cells in found.items():
        counts = [[[one[place] for one in cells].count(word) for word in VERDICTS] for place in range(len(PRIMARY))]
        lines.append(f"| {policy} | {len(cells)} | {' | '.join(', '.join(map(str, one)) for one in counts)} |")
    return "\n".join(lines if found else lines[:1]) + "\n"


def _word(said: str) -> str:
    """The verdict of a difference as :func:`table` writes it."""
    return next(word for word in VERDICTS if f": {word}" in said)


if __name__ == "__main__":
    main()
