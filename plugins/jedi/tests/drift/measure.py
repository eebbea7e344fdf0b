"""Count, in this environment, how far the profiles decide as its panda-server does: ``python -m drift.measure``."""

from __future__ import annotations

import dataclasses
import json
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

from upstream.run import count, kinds_of

PROFILES = ("panda", "panda-gen")


def measure(seeds: range) -> dict[str, Any]:
    """Counts and differences by brokerage; where it cannot be run, the error."""
    kinds = [(kind, profile) for profile in PROFILES for kind in kinds_of(profile)]
    counts = {kind: {"profile": profile, **_counted(profile, kind, seeds)} for kind, profile in kinds}
    return {"version": version("panda-server"), "kinds": counts}


def _counted(profile: str, kind: str, seeds: range) -> dict[str, Any]:
    def told(seed: int, so_far: Any) -> None:
        print(f"{kind}, seed {seed}: {len(so_far.differences)} of {so_far.results} differ so far", file=sys.stderr)

    try:
        counted = count(profile, seeds, kind, told=told)
    except Exception as error:  # another panda-server may break anything: that is a finding, and is told as one
        traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name} {last.lineno}"
        return {
            "error": f"{type(error).__name__}: {error} ({place})"[:300],
            "grids": 0,
            "results": 0,
            "differences": [],
        }
    differences = [dataclasses.asdict(one) for one in counted.differences]
    return {"error": "", "grids": counted.grids, "results": counted.results, "differences": differences}


def main(file: str, first: str, grids: str) -> None:
    """Measure on so many grids from a first seed on, and write JSON to a file."""
    measured = measure(range(int(first), int(first) + int(grids)))
    Path(file).write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
