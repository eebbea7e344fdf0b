"""What a simulated month costs: 200 queues, 100,000 cores and 12 million jobs, with figures summed up on the way.

CPU seconds of one process, for the model, the figures and the decisions apart, and memory. Without ``--whole`` some
hours of the month are simulated after its first ones, and the month is told from these: model and figures by jobs that
ended, decisions by time.

Run: python -m benchmarks.bench_month [--policy panda] [--after 2] [--hours 4] [--whole]
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from time import process_time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from broker.garbage_collection import keep_what_is_there  # noqa: E402
from broker.simulation.model.coming_tasks import generate_long  # noqa: E402
from broker.simulation.model.figures import Stats  # noqa: E402
from broker.simulation.model.generated_grid import GridParameters  # noqa: E402
from broker.simulation.model.grid import Grid  # noqa: E402
from broker.simulation.model.job_states import TaskState  # noqa: E402
from broker.simulation.model.loop import ClosedLoop, Run  # noqa: E402
from broker.simulation.model.policies.base import find_policy  # noqa: E402
from broker.simulation.model.running_figures import SummedFigures  # noqa: E402
from broker.simulation.model.scenario import Scenario  # noqa: E402

DAYS, QUEUES, CORES, JOBS, LOAD = 30, 200, 100_000, 12_000_000, 0.6
GOALS_H = {"model and figures": 1.0, "decisions": 4.0}


class TimedFigures(SummedFigures):
    """Running figures with the CPU seconds that they took."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.cpu_s = 0.0

    def task_ended(self, state: TaskState) -> None:
        """As :meth:`SummedFigures.task_ended`."""
        started = process_time()
        super().task_ended(state)
        self.cpu_s += process_time() - started

    def sample(self, grid: Grid) -> int:
        """As :meth:`SummedFigures.sample`."""
        started = process_time()
        first = super().sample(grid)
        self.cpu_s += process_time() - started
        return first

    def stats(self, run: Run) -> Stats:
        """As :meth:`SummedFigures.stats`."""
        started = process_time()
        made = super().stats(run)
        self.cpu_s += process_time() - started
        return made


@dataclass(frozen=True)
class ResourceUse:
    """What a simulation had taken by an instant of its virtual time: CPU seconds, and jobs that had ended."""

    model_s: float
    figures_s: float
    decisions_s: float
    jobs: int

    def since(self, other: ResourceUse) -> ResourceUse:
        """What was taken after another instant."""
        return ResourceUse(
            self.model_s - other.model_s,
            self.figures_s - other.figures_s,
            self.decisions_s - other.decisions_s,
            self.jobs - other.jobs,
        )


class Month:
    """The month under one policy.

    Args:
        policy: by its name.
        seed: of all draws.
    """

    def __init__(self, policy: str, seed: int) -> None:
        began = process_time()
        size = GridParameters(days=DAYS, queues=QUEUES, cores=CORES, jobs=JOBS, load=LOAD, warm_up_s=86_400.0)
        scenario = generate_long(size, seed)
        self.made_s = process_time() - began
        keep_what_is_there()
        self.figures = TimedFigures(scenario)
        self.loop = ClosedLoop(scenario, find_policy(policy), seed, figures=self.figures)
        self._cpu_s = 0.0

    def to(self, hours: float) -> ResourceUse:
        """Simulate to an instant. Returns what has been taken so far."""
        began = process_time()
        self.loop.events.run(3600.0 * hours)
        self._cpu_s += process_time() - began
        decisions, figures = self.loop.decide_s, self.figures.cpu_s
        return ResourceUse(self._cpu_s - decisions - figures, figures, decisions, self.ended())

    def ended(self) -> int:
        """Return how many jobs have finished or failed for good."""
        return self.loop.grid.arrived_jobs - self.open_jobs()

    def open_jobs(self) -> int:
        """Return how many jobs have arrived and not ended."""
        return sum(state.open_jobs for state in self.loop.grid.tasks.values())


def memory_gb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def main() -> None:
    """Measure, and print a row for each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="panda")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--after", type=float, default=2.0, help="hours at the beginning that are not measured")
    parser.add_argument("--hours", type=float, default=4.0, help="that are measured")
    parser.add_argument("--whole", action="store_true", help="simulate the whole month")
    given = parser.parse_args()
    month = Month(given.policy, given.seed)
    first, last = (0.0, 24.0 * DAYS) if given.whole else (given.after, given.after + given.hours)
    before = month.to(first)
    spent = before
    for hour in range(1, 1 + max(1, round(last - first))):
        spent = month.to(min(last, first + hour))
        cpu_s = f"CPU s: model {spent.model_s:.0f}, figures {spent.figures_s:.0f}, decisions {spent.decisions_s:.0f}"
        jobs = f"{spent.jobs:,} jobs ended, {month.open_jobs():,} open"
        print(f"{first + hour:6.1f} h: {jobs}, {memory_gb():.2f} GB; {cpu_s}", file=sys.stderr, flush=True)
    spent = spent.since(before)
    if given.whole:
        made = month.figures.stats(month.loop.result(0.0))
        print(
            f"delivered {100 * made.delivered:.1f} %, wait {made.wait_mean_s / 60:.0f} min, use {100 * made.use:.1f} %"
        )
    report(given.policy, spent, last - first, month, whole=given.whole)


def report(policy: str, spent: ResourceUse, hours: float, month: Month, *, whole: bool) -> None:
    """Print what was taken, and what the month takes by that."""
    by_jobs, by_time = JOBS / max(1, spent.jobs), 24.0 * DAYS / hours
    print(f"{policy}: {QUEUES} queues, {CORES:,} cores; {hours:g} h simulated, {spent.jobs:,} jobs ended")
    print(f"{'':<12}{'CPU s':>10}{'us a job':>10}   " + ("" if whole else f"{DAYS} days, by what was simulated, CPU h"))
    rows = (
        ("model", spent.model_s, by_jobs, "jobs"),
        ("figures", spent.figures_s, by_jobs, "jobs"),
        ("decisions", spent.decisions_s, by_time, "time"),
    )
    for name, cpu_s, factor, by in rows:
        told = "" if whole else f"{cpu_s * factor / 3600.0:10.2f} (times {factor:,.0f} by {by})"
        print(f"{name:<12}{cpu_s:>10.1f}{1e6 * cpu_s / max(1, spent.jobs):>10.0f}   {told}")
    print(f"memory {memory_gb():.2f} GB; the grid was made in {month.made_s:.1f} CPU s")
    goals = ", ".join(f"{name} {hours_:g} CPU h" for name, hours_ in GOALS_H.items())
    print(f"goal for the month: {goals}, 8 GB" + ("" if whole else ". The month itself was not simulated"))


if __name__ == "__main__":
    main()
