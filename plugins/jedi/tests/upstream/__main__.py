"""Compare a profile with PanDA's own brokers on fresh grids, and say what differs and why."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path

from upstream.run import KINDS, Counted, count, kinds_of


def main() -> None:
    """Run a comparison from the command line."""
    parser = argparse.ArgumentParser(prog="python -m upstream", description=__doc__)
    parser.add_argument("profile", help="profile of ours")
    parser.add_argument("seeds", help="first and last seed of the grids, such as 0-49; each brokerage has its own")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these brokerages")
    parser.add_argument("--json", type=Path, help="file for every difference")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    with redirect_stdout(sys.stderr):  # PanDA prints
        kinds = given.kind or kinds_of(given.profile)
        found = {kind: count(given.profile, seeds, kind, told=_tell) for kind in kinds}
    for kind, counted in found.items():
        _report(kind, counted)
    if given.json is not None:
        every = [dataclasses.asdict(one) for counted in found.values() for one in counted.differences]
        given.json.write_text(json.dumps(every, indent=1), encoding="utf-8")


def _tell(seed: int, so_far: Counted) -> None:
    print(f"seed {seed}: {len(so_far.differences)} of {so_far.results} differ so far", file=sys.stderr)


def _report(kind: str, counted: Counted) -> None:
    told = f"{counted.equal} of {counted.results} equal ({counted.agreement:.2%})"
    print(f"{kind}: {told} on {counted.grids} grids, {counted.brokered} brokered by PanDA")
    by_cause = Counter(cause for one in counted.differences for cause in one.causes)
    for cause, number in by_cause.most_common():
        example = next(one for one in counted.differences if cause in one.causes)
        print(f"  {number:5}  {cause}   (seed {example.seed}, task {example.task})")


main()
