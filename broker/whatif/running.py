"""Many cycles and many changes: the work split by (cycle, values), here, over processes, or over a Dask cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from broker.errors import BrokerError
from broker.whatif.cases import Case, Change, RuleSet
from broker.whatif.comparison import Difference
from broker.whatif.deciding import CannotDecideAgain, decide_case

CASES_AHEAD = 2
"""Cases read for each process before it asks for them."""
CONNECT_WITHIN = "10s"
"""How long to wait for the scheduler of a cluster."""

Tell = Callable[[int], None]
"""Told how many (cycle, value) pairs are done, again and again."""


class ClusterUnavailable(BrokerError):
    """The Dask cluster cannot be used: the package is not there, or nobody answers at its address."""


@dataclass
class Answers:
    """What came of all changes.

    Attributes:
        differences: one for each change, in order, all cycles together.
        engines: versions of the broker that decided the cycles.
        failed: cycles that could not be decided again, each with the reason.
    """

    differences: list[Difference]
    engines: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """What one process does at once: one cycle, with some of the changes."""

    case: Case
    first: int
    changes: tuple[Change, ...]


Result = tuple[list[Difference], str]
"""The differences of a job, or why there are none."""


def answer(
    cases: Iterable[Case], count: int, rules: RuleSet, changes: Sequence[Change], processes: int, tell: Tell
) -> Answers:
    """Decide all cycles again, as they were and with each change.

    Args:
        cases: the cycles, read as they are needed.
        count: how many there are, about.
        rules: those of the side before.
        changes: to compare with it.
        processes: at once; with 1 the work is done in this one.
        tell: for a progress bar.

    Raises:
        ValueRefusedError: the values of a change contradict those of a cycle that stay.
    """
    parts = 1 if count >= CASES_AHEAD * processes else min(processes, len(changes))
    jobs = _Jobs(cases, changes, parts)
    if processes == 1 or count * parts == 1:
        return jobs.gathered(((job, _do(job, rules)) for job in jobs), tell)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, max(1, count * parts)), mp_context=context) as pool:
        try:
            return jobs.gathered(_over(pool, jobs, rules, processes * CASES_AHEAD), tell)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def answer_on_cluster(
    cases: Iterable[Case], rules: RuleSet, changes: Sequence[Change], address: str, tell: Tell
) -> Answers:
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
        jobs = _Jobs(cases, changes, len(changes))
        return jobs.gathered(_on_workers(client, jobs, rules), tell)


class _Jobs:
    """All jobs, in order, and what came of them."""

    def __init__(self, cases: Iterable[Case], changes: Sequence[Change], parts: int) -> None:
        self._cases, self._changes = cases, tuple(changes)
        size = -(-len(self._changes) // max(1, parts))
        self.starts = range(0, len(self._changes), size)
        self._size = size

    def __iter__(self) -> Iterator[Job]:
        for case in self._cases:
            yield from self.of(case)

    @property
    def cases(self) -> Iterable[Case]:
        return self._cases

    def of(self, case: Case) -> list[Job]:
        """The jobs of one case."""
        return [Job(case, first, self._changes[first : first + self._size]) for first in self.starts]

    def gathered(self, done: Iterable[tuple[Job, Result]], tell: Tell) -> Answers:
        """All results, put together in the order of the cycles, whatever the order in which they came."""
        found: dict[int, list[tuple[tuple[str, str], Difference]]] = {at: [] for at in range(len(self._changes))}
        engines: set[str] = set()
        failed: set[str] = set()
        finished = 0
        for job, (differences, why) in done:
            finished += len(job.changes)
            tell(finished)
            engines.add(job.case.engine)
            if why:
                failed.add(why)
            order = (job.case.decided_at.isoformat(), job.case.id)
            for at, one in enumerate(differences, start=job.first):
                found[at].append((order, one))
        whole = [_together(found[at]) for at in range(len(self._changes))]
        return Answers(whole, engines, sorted(failed))


def _together(parts: list[tuple[tuple[str, str], Difference]]) -> Difference:
    whole = Difference()
    for _, one in sorted(parts, key=lambda part: part[0]):
        whole.add(one)
    return whole


def _do(job: Job, rules: RuleSet) -> Result:
    """One job; a cycle that cannot be decided again is told of, and does not stop the others. Bad values do."""
    try:
        return decide_case(job.case, rules, job.changes), ""
    except CannotDecideAgain as error:
        return [], f"{job.case.name}: {error}"


def _over(pool: ProcessPoolExecutor, jobs: Iterable[Job], rules: RuleSet, ahead: int) -> Iterator[tuple[Job, Result]]:
    """The jobs as they are done, with only so many cycles in memory as keep all processes busy."""
    waiting = iter(jobs)
    running: dict[Future[Result], Job] = {pool.submit(_do, job, rules): job for job in islice(waiting, ahead)}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            job = running.pop(future)
            running.update({pool.submit(_do, more, rules): more for more in islice(waiting, 1)})
            yield job, future.result()


def _on_workers(client: Any, jobs: _Jobs, rules: RuleSet) -> Iterator[tuple[Job, Result]]:
    """The jobs as the workers of a cluster finish them."""
    import distributed

    held_rules = client.scatter(rules, broadcast=True, hash=False)
    of_future: dict[Any, Job] = {}
    for case in jobs.cases:
        held = client.scatter(case, broadcast=True, hash=False)
        for job in jobs.of(case):
            future = client.submit(_do_held, held, held_rules, job.changes, pure=False)
            of_future[future] = job
    as_completed: Any = distributed.as_completed
    for future in as_completed(list(of_future), loop=client.loop):
        yield of_future.pop(future), future.result()


def _do_held(case: Case, rules: RuleSet, changes: tuple[Change, ...]) -> Result:
    """A job on a worker that holds the case already."""
    return _do(Job(case, 0, changes), rules)
