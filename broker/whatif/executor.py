"""Many cycles and many changes: the work split by (cycle, values), here, over processes, or over a Dask cluster."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from broker.errors import BrokerError
from broker.gdpconfig.catalogue import Value
from broker.gdpconfig.inspection import state_of
from broker.whatif.cases import Case, Change, ProfileRules
from broker.whatif.comparison import Difference
from broker.whatif.evaluate import CannotDecideAgain, decide_case

CASES_AHEAD = 2
"""Cases read for each process before it asks for them."""
CONNECT_WITHIN = "10s"
"""How long to wait for the scheduler of a cluster."""

Tell = Callable[[int], None]
"""Told how many (cycle, value) pairs are done, again and again."""


class ClusterUnavailable(BrokerError):
    """The Dask cluster cannot be used: the package is not there, or nobody answers at its address."""


@dataclass
class Baseline:
    """What the changes are compared with.

    Attributes:
        versions: of the tuning that the cycles used.
        cycles: how many there are, by their identifiers.
        decided_at: the instants for which they decided, aware.
        in_force: the values that the keys of the first change had in the cycles.
    """

    versions: set[int] = field(default_factory=set)
    cycles: set[str] = field(default_factory=set)
    decided_at: set[datetime] = field(default_factory=set)
    in_force: set[tuple[Value | None, ...]] = field(default_factory=set)

    def add(self, case: Case, change: Change) -> None:
        """One more cycle, and a change that is compared with it."""
        self.versions.add(case.published.version)
        self.cycles.add(case.id)
        self.decided_at.add(case.decided_at)
        self.in_force.add(tuple(state_of(case.published, one.key, one.vo).value for one in change.proposals))

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
    """What came of all changes.

    Attributes:
        differences: one for each change, in order, all cycles together.
        engines: versions of the broker that decided the cycles.
        failed: cycles that could not be decided again, each with the reason.
        baseline: what the changes are compared with.
    """

    differences: list[Difference]
    engines: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    baseline: Baseline = field(default_factory=Baseline)


@dataclass(frozen=True)
class Job:
    """What one process does at once: one cycle, by its number, with the changes from number ``first`` on."""

    number: int
    case: Case
    first: int
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Comparing:
    """What is the same for all jobs.

    Attributes:
        rules: those of the side before.
        changes: to compare with it.
        by_task: tell what is different for each task, not only in total.
    """

    rules: ProfileRules
    changes: tuple[Change, ...]
    by_task: bool = True


Result = tuple[list[Difference], str]
"""The differences of a job, or why there are none."""


def answer(cases: Iterable[Case], count: int, what: Comparing, processes: int, emit: Tell) -> Answers:
    """Decide all cycles again, as they were and with each change.

    Args:
        cases: the cycles, read as they are needed.
        count: how many there are, about.
        what: is compared.
        processes: at once; with 1 the work is done in this one.
        emit: for a progress bar.

    Raises:
        ValueRefusedError: the values of a change contradict those of a cycle that stay.
    """
    parts = 1 if count >= CASES_AHEAD * processes else min(processes, len(what.changes))
    jobs = _Jobs(cases, what, parts)
    if processes == 1 or count * parts == 1:
        return jobs.gathered(((job, _do(job.case, what.rules, job.changes, what.by_task)) for job in jobs), emit)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, max(1, count * parts)), mp_context=context) as pool:
        try:
            return jobs.gathered(_over(pool, jobs, what, processes * CASES_AHEAD), emit)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def answer_on_cluster(cases: Iterable[Case], what: Comparing, address: str, emit: Tell) -> Answers:
    """As :func:`answer`, on the workers of the Dask cluster at ``address``.

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
        jobs = _Jobs(cases, what, len(what.changes))
        return jobs.gathered(_on_workers(client, jobs, what), emit)


class _Jobs:
    """All jobs, in order, and what came of them."""

    def __init__(self, cases: Iterable[Case], what: Comparing, parts: int) -> None:
        self.cases, self._changes = cases, what.changes
        self._size = max(1, -(-len(self._changes) // max(1, parts)))

    def __iter__(self) -> Iterator[Job]:
        for number, case in enumerate(self.cases):
            yield from self.of(number, case)

    def of(self, number: int, case: Case) -> list[Job]:
        """The jobs of one case."""
        starts = range(0, len(self._changes), self._size)
        return [Job(number, case, first, self._changes[first : first + self._size]) for first in starts]

    def gathered(self, done: Iterable[tuple[Job, Result]], emit: Tell) -> Answers:
        """All results, added up in the order of the cycles, whatever the order in which they come."""
        whole = [Difference() for _ in self._changes]
        early: list[dict[int, Difference]] = [{} for _ in self._changes]
        due = [0] * len(self._changes)
        engines: set[str] = set()
        failed: set[str] = set()
        baseline = Baseline()
        finished = 0
        for job, (differences, why) in done:
            finished += len(job.changes)
            emit(finished)
            engines.add(job.case.engine)
            if differences:
                baseline.add(job.case, self._changes[0])
            failed |= {why} - {""}
            for at in range(job.first, job.first + len(job.changes)):
                early[at][job.number] = differences[at - job.first] if differences else Difference()
                while due[at] in early[at]:
                    whole[at].add(early[at].pop(due[at]))
                    due[at] += 1
        return Answers(whole, engines, sorted(failed), baseline)


def _do(case: Case, rules: ProfileRules, changes: Sequence[Change], by_task: bool) -> Result:
    """One job; a cycle that cannot be decided again is told of, and does not stop the others. Bad values do."""
    try:
        with _uncollected():
            found = decide_case(case, rules, changes)
    except CannotDecideAgain as error:
        return [], f"{case.name}: {error}"
    return found if by_task else [Difference(totals=one.totals) for one in found], ""


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for unreachable objects: unpacking makes many that are in use, and each search visits all of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _over(pool: ProcessPoolExecutor, jobs: Iterable[Job], what: Comparing, ahead: int) -> Iterator[tuple[Job, Result]]:
    """The jobs as they are done, with only so many cycles in memory as keep all processes busy."""

    def submitted(job: Job) -> Future[Result]:
        return pool.submit(_do, job.case, what.rules, job.changes, what.by_task)

    waiting = iter(jobs)
    running = {submitted(job): job for job in islice(waiting, ahead)}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            job = running.pop(future)
            running.update({submitted(more): more for more in islice(waiting, 1)})
            yield job, future.result()


def _on_workers(client: Any, jobs: _Jobs, what: Comparing) -> Iterator[tuple[Job, Result]]:
    """The jobs as the workers of a cluster finish them."""
    import distributed

    rules = client.scatter(what.rules, broadcast=True, hash=False)
    of_future: dict[Any, Job] = {}
    for number, case in enumerate(jobs.cases):
        held = client.scatter(case, broadcast=True, hash=False)
        for job in jobs.of(number, case):
            of_future[client.submit(_do, held, rules, job.changes, what.by_task, pure=False)] = job
    as_completed: Any = distributed.as_completed
    for future in as_completed(list(of_future), loop=client.loop):
        yield of_future.pop(future), future.result()
