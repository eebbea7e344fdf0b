"""Compare another panda-server with the one that the profiles are made after, on fresh grids."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from drift.commits import commits_since
from drift.environment import InstallError, is_path, make_environment, this_python
from drift.report import report

TESTS = Path(__file__).parents[1]


def main() -> int:
    """Run both on the same grids, print the report and write it to a file."""
    parser = argparse.ArgumentParser(prog="python -m drift", description=__doc__)
    parser.add_argument("server", help="release such as 1.0.4, or folder with a checkout of panda-server")
    parser.add_argument("--grids", type=int, default=10, help="grids for each brokerage")
    parser.add_argument("--first-seed", type=int, default=7000, help="seed of the first grid; each grid has its own")
    parser.add_argument("--environment", type=Path, default=Path(".venv-drift"), help="folder to install it in")
    parser.add_argument("--out", type=Path, default=Path("build/panda-drift.md"), help="file for the report")
    given = parser.parse_args()
    try:
        python = make_environment(given.server, given.environment)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    before, after = _measured([this_python(), python], given.first_seed, given.grids)
    commits = commits_since(Path(given.server), before["version"]) if is_path(given.server) else None
    text = report(before, after, given.server, commits)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text, encoding="utf-8")
    print(text)
    return int(any(one["error"] for one in after["kinds"].values()))


def _measured(pythons: list[Path], first: int, grids: int) -> list[dict[str, Any]]:
    """Both at the same time, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="panda-drift-") as folder:
        files = [Path(folder) / f"{at}.json" for at in range(len(pythons))]
        running = [
            subprocess.Popen(
                [python.absolute(), "-m", "drift.measure", file, str(first), str(grids)],
                cwd=TESTS,
                stdout=subprocess.DEVNULL,
            )
            for python, file in zip(pythons, files, strict=True)
        ]
        statuses = [process.wait() for process in running]
        for python, status in zip(pythons, statuses, strict=True):
            if status:
                raise SystemExit(f"error: {python} -m drift.measure ended with {status}; its output is above")
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]


if __name__ == "__main__":
    sys.exit(main())
