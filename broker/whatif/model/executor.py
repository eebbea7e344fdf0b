"""Many cycles and many changes: the work split by (cycle, values), here, over processes, or over a Dask cluster."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from broker.compilation import worker_start
from broker.errors import BrokerError
from broker.gdpconfig.catalogue import Value
from broker.gdpconfig.inspection import state_of
from broker.whatif.model.cases import Case, Change, ProfileRules
from broker.whatif.model.comparison import Difference
from broker.whatif.model.evaluate import CannotDecideAgain, decide_case

RUNS_AHEAD = 2
"""Runs of cycles queued for each process ahead of demand."""
RUNS_EACH = 8
"""Minimum number of runs of cycles for each process, so that none finishes long before the others."""
LONGEST_RUN = 32
"""Maximum number of cycles that a process decides before it returns their results."""
CONNECT_WITHIN = "10s"
"""How long to wait for the scheduler of a cluster."""

Tell = Callable[[int], None]
"""Receives the number of finished (cycle, value) pairs, repeatedly."""


class ClusterUnavailable(BrokerError):
    """The Dask cluster cannot be used: the package is not installed, or nobody answers at its address."""


@dataclass
class Baseline:
    """What the changes are compared with.

    Attributes:
        versions: of the tuning that the cycles used.
        cycles: their identifiers.
        decided_at: the instants for which they decided, aware.
        in_force: the values that the keys of the first change had in the cycles.
    """

    versions: set[int] = field(default_factory=set)
    cycles: set[str] = field(default_factory=set)
    decided_at: set[datetime] = field(default_factory=set)
    in_force: set[tuple[Value | None, ...]] = field(default_factory=set)

    def add(self, case: Case, change: Change) -> None:
        """Add a cycle, and a change that is compared with it."""
        self.versions.add(case.published.version)
        self.cycles.add(case.id)
        self.decided_at.add(case.decided_at)
        self.in_force.add(tuple(state_of(case.published, one.key, one.vo).value for one in change.proposals))

    def join(self, other: Baseline) -> None:
        """Add the cycles of another baseline."""
        for name, values in vars(other).items():
            getattr(self, name).update(values)

    def document(self) -> dict[str, Any]:
        """The baseline as an object."""
        times = sorted(self.decided_at)
        return {
            "versions": sorted(self.versions),
            "cycles": len(self.cycles),
            "from": times[0] if times else None,
            "to": times[-1] if times else None,
        }


@dataclass
class Answers:
    """The results of all changes.

    Attributes:
        differences: one for each change, in order, summed over all cycles.
        engines: versions of the broker that decided the cycles.
        failed: cycles that could not be decided again, each with the reason.
        dropped_rows: cycles that could not be read, each with the reason.
        baseline: what the changes are compared with.
    """

    differences: list[Difference]
    engines: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    dropped_rows: list[str] = field(default_factory=list)
    baseline: Baseline = field(default_factory=Baseline)


class Cycles(Protocol):
    """A sequence of cycles that are read during iteration; another process can read its slices."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Case]: ...

    def __getitem__(self, part: slice, /) -> Cycles: ...


@runtime_checkable
class Dropping(Protocol):
    """Cycles of which some may turn out to be unreadable while they are read."""

    dropped_rows: list[str]


@dataclass(frozen=True)
class Comparing:
    """The parameters shared by all jobs.

    Attributes:
        rules: those of the side before.
        changes: to compare with it.
        by_task: report differences for each task, not only in total.
    """

    rules: ProfileRules
    changes: tuple[Change, ...]
    by_task: bool = True


@dataclass(frozen=True)
class Job:
    """A unit of work for one process.

    Attributes:
        number: of these cycles among all.
        cycles: consecutive ones, so that what does not change between them is reused.
        first: number of the first change.
        stop: number after the last change.
    """

    number: int
    cycles: Cycles
    first: int
    stop: int

    @property
    def pairs(self) -> int:
        """Pairs of cycle and change."""
        return len(self.cycles) * (self.stop - self.first)


def answer(cycles: Cycles, what: Comparing, processes: int, emit: Tell) -> Answers:
    """Decide all cycles again, as they were and with each change.

    Args:
        cycles: read as they are needed, each by the process that decides it.
        what: the rules and changes to compare.
        processes: number of parallel processes; with 1 the work is done in this one.
        emit: for a progress bar.

    Raises:
        ValueRefusedError: the values of a change contradict unchanged values of a cycle.
    """
    count = len(cycles)
    parts = 1 if count >= RUNS_AHEAD * processes else min(processes, len(what.changes))
    if processes == 1 or count * parts <= 1:
        alone = _jobs(cycles, what, parts, 1)
        return gathered(((job, decide_job(job, what)) for job in alone), what, emit)
    size = max(1, min(LONGEST_RUN, count // (processes * RUNS_EACH)))
    jobs = _jobs(cycles, what, parts, size)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, count * parts), context, worker_start.install) as pool:
        try:
            return gathered(_over(pool, jobs, what, processes * RUNS_AHEAD), what, emit)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def answer_on_cluster(cycles: Cycles, what: Comparing, address: str, emit: Tell) -> Answers:
    """Like :func:`answer`, on the workers of the Dask cluster at ``address``.

    Each cycle with its snapshot is sent to all workers once; the work is then split by (value, cycle).

    Raises:
        ClusterUnavailable: ``distributed`` is not installed, or nobody answers at the address.
        ValueRefusedError: as :func:`answer`.
    """
    try:
        import distributed
    except ImportError as error:
        raise ClusterUnavailable(
            f"a cluster needs the package {error.name}", "--dask", "install it: pip install 'gridbroker[dask]'"
        ) from error
    try:
        connect: Any = distributed.Client
        client = connect(address, timeout=CONNECT_WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(
            f"nobody answers: {error or type(error).__name__}", address, "start it, or correct the address"
        ) from error
    with client:
        return gathered(_on_workers(client, _jobs(cycles, what, len(what.changes), 1), what), what, emit)


def _jobs(cycles: Cycles, what: Comparing, parts: int, size: int) -> Iterator[Job]:
    """All jobs in order: the cycles in batches of ``size``, each with every part of the changes."""
    changes = len(what.changes)
    step = max(1, -(-changes // max(1, parts)))
    for number, start in enumerate(range(0, len(cycles), size)):
        part = cycles[start : start + size]
        for first in range(0, changes, step):
            yield Job(number, part, first, min(changes, first + step))


def gathered(done: Iterable[tuple[Job, Answers]], what: Comparing, emit: Tell) -> Answers:
    """Sum all answers in the order of the cycles, in whichever order they arrive."""
    whole = Answers([Difference() for _ in what.changes])
    early: list[dict[int, Difference]] = [{} for _ in what.changes]
    due = [0] * len(what.changes)
    dropped: dict[int, list[str]] = {}
    failed: set[str] = set()
    finished = 0
    for job, answers in done:
        finished += job.pairs
        emit(finished)
        whole.engines |= answers.engines
        whole.baseline.join(answers.baseline)
        failed.update(answers.failed)
        dropped[job.number] = answers.dropped_rows
        for at, change_difference in enumerate(answers.differences, job.first):
            early[at][job.number] = change_difference
            while due[at] in early[at]:
                whole.differences[at].add(early[at].pop(due[at]))
                due[at] += 1
    whole.failed = sorted(failed)
    whole.dropped_rows = [row for number in sorted(dropped) for row in dropped[number]]
    return whole


def decide_job(job: Job, what: Comparing) -> Answers:
    """Run one job. A cycle that cannot be decided again is reported and skipped; bad values end the run."""
    changes = what.changes[job.first : job.stop]
    answers = Answers([Difference() for _ in changes])
    with _uncollected():
        for case in job.cycles:
            answers.engines.add(case.engine)
            try:
                differences = decide_case(case, what.rules, changes, by_task=what.by_task)
            except CannotDecideAgain as error:
                answers.failed.append(f"{case.name}: {error}")
                continue
            answers.baseline.add(case, what.changes[0])
            for whole, cycle_difference in zip(answers.differences, differences, strict=True):
                whole.add(cycle_difference)
    if isinstance(job.cycles, Dropping):
        answers.dropped_rows = list(job.cycles.dropped_rows)
    return answers


@contextmanager
def _uncollected() -> Iterator[None]:
    """Suspend garbage collection: unpacking makes many objects that stay in use and are visited each time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _over(pool: ProcessPoolExecutor, jobs: Iterable[Job], what: Comparing, ahead: int) -> Iterator[tuple[Job, Answers]]:
    """Yield the jobs as they complete; only enough to keep all processes busy are submitted at a time."""
    waiting = iter(jobs)
    running: dict[Future[Answers], Job] = {pool.submit(decide_job, job, what): job for job in islice(waiting, ahead)}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            job = running.pop(future)
            running.update({pool.submit(decide_job, more, what): more for more in islice(waiting, 1)})
            yield job, future.result()


def _on_workers(client: Any, jobs: Iterable[Job], what: Comparing) -> Iterator[tuple[Job, Answers]]:
    """Yield the jobs as the workers of a cluster finish them; cycles are read here and sent to all workers once."""
    import distributed

    compared = client.scatter(what, broadcast=True, hash=False)
    of_future: dict[Any, Job] = {}
    for _, group in groupby(jobs, attrgetter("number")):
        same_cycles = list(group)
        cases = list(same_cycles[0].cycles)
        handles = client.scatter(cases, broadcast=True, hash=False)
        read_away = same_cycles[0].cycles.dropped_rows if isinstance(same_cycles[0].cycles, Dropping) else []
        for job in same_cycles:
            of_future[client.submit(_decide_held, handles, job.first, job.stop, read_away, compared, pure=False)] = job
    as_completed: Any = distributed.as_completed
    for future in as_completed(list(of_future), loop=client.loop):
        yield of_future.pop(future), future.result()


def _decide_held(cases: list[Case], first: int, stop: int, dropped_rows: list[str], what: Comparing) -> Answers:
    """Run a job whose cycles were read in another process."""
    answers = decide_job(Job(0, cases, first, stop), what)
    answers.dropped_rows = dropped_rows
    return answers
