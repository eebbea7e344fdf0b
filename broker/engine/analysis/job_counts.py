"""Job counts for analysis chunks at each unified queue: of the share, of its type and of the user.

The figures of the Analysis Stabilizer are among them: active jobs of users, as read and as stored with a decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from broker.domain.analysis import FIGURES, AnalysisFacts, StabilizerLoad, stabilize, stats_of_all
from broker.domain.arrays import AnyArray, Floats, Ints, RowsByKind, Texts, numbered
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.work import WorkTable
from broker.engine.analysis.queue_attributes import AnalysisQueues
from broker.engine.analysis.steps import UserFigures
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.active_user_jobs import ACTIVE_USER_JOBS, UserCounts
from broker.snapshot.sources.recent_starts import RECENT_STARTS

STARTS_HOURS = 6.0
RUNNING = COUNTED_STATUSES.index("running")
QUEUED = [COUNTED_STATUSES.index(status) for status in ("defined", "assigned", "activated", "starting")]

KeyT = TypeVar("KeyT", bound=Hashable)


def _gathered(keys: Sequence[KeyT], stats: Callable[[KeyT], Any]) -> RowsByKind:
    """Compute ``stats`` (figures, U) once for each distinct key."""
    known, kind = numbered(keys)
    return RowsByKind(np.stack([stats(key) for key in known], axis=1), kind)


def of_type(snapshot: Snapshot, work: WorkTable, rows: slice) -> RowsByKind:
    """(2, T, U): queued and running jobs of the share and resource type; of all types for a task without one."""
    by_type, size = snapshot.analysis.by_type, len(snapshot.unified)

    def stats(key: tuple[str, str | None]) -> Floats:
        share, kind = key
        tables = [table for (name, of), table in by_type.items() if name == share and kind in (None, of)]
        return np.sum(tables, axis=0) if tables else np.zeros((2, size))

    shares = [share or "" for share in work.gshare[rows].tolist()]
    return _gathered(list(zip(shares, work.resource_type[rows].tolist(), strict=True)), stats)


def of_user(snapshot: Snapshot, work: WorkTable, rows: slice) -> RowsByKind:
    """(2, T, U): queued and running jobs of the user in the share, of the label of the task."""
    by_user, size = snapshot.analysis.by_user, len(snapshot.unified)

    def stats(key: tuple[str, str, str]) -> Floats:
        table = np.zeros((2, size))
        jobs = by_user.get(key)
        if jobs is not None:
            table[0, jobs.unified], table[1, jobs.unified] = jobs.queued, jobs.running
        return table

    names = [[name or "" for name in column[rows].tolist()] for column in (work.username, *_share_columns(work))]
    return _gathered(list(zip(*names, strict=True)), stats)


def _share_columns(work: WorkTable) -> tuple[Texts, Texts]:
    return work.gshare, work.prodsourcelabel


def of_share(snapshot: Snapshot, queues: AnalysisQueues, work: WorkTable, rows: slice) -> RowsByKind:
    """(5, T, U): users with jobs, running jobs of all users, to-running rate, and the share's totals over all queues.

    Running jobs are those of the label of the task, without merge jobs; where there is no job of that kind at all,
    those of the share. The rate counts the started jobs of all shares, scaled by the share's part of the running
    ones. The totals (queued, running) are the same for every queue.
    """
    grid, jobs, size = snapshot.analysis, snapshot.jobs, len(snapshot.unified)
    position = {accounting_key: index for index, accounting_key in enumerate(jobs.accounting_keys)}
    everybody = jobs.total[:, RUNNING]
    nothing = np.zeros(size)

    def stats(key: tuple[str, str]) -> Floats:
        share = key[0]
        counts = (
            jobs.by_accounting_key[:, position[share]] if share in position else np.zeros((size, len(COUNTED_STATUSES)))
        )
        part = np.divide(counts[:, RUNNING], everybody, out=np.zeros(size), where=everybody > 0)
        totals = counts[:, QUEUED].sum(), counts[:, RUNNING].sum()
        return np.stack(
            [
                grid.users.get(share, nothing),
                _known_else(grid.users_running.get(key), counts[:, RUNNING]),
                queues.starts / STARTS_HOURS * part,
                *(np.full(size, total) for total in totals),
            ]
        )

    names = [[name or "" for name in column[rows].tolist()] for column in _share_columns(work)]
    return _gathered(list(zip(*names, strict=True)), stats)


def _known_else(values: Floats | None, otherwise: Floats) -> Floats:
    return otherwise if values is None else np.where(np.isnan(values), otherwise, values)


def of_task(snapshot: Snapshot, bad_jobs: Texts) -> RowsByKind:
    """(3, T, U): jobs of the task that finished, that failed or were closed, and that were closed.

    See ``AnalysisWork.bad_jobs``. Queues without candidates are left out.
    """
    known, kind = numbered(bad_jobs.tolist())
    with_jobs = [at for at, text in enumerate(known) if text]
    stats: list[dict[str, list[float]]] = json.loads(f"[{','.join(known[at] for at in with_jobs)}]")
    counted = [(at, *item) for at, of_queues in zip(with_jobs, stats, strict=True) for item in of_queues.items()]
    names = snapshot.unified.name.tolist()
    position = {str(names[at]): at for at in set(snapshot.queues.unified.tolist())}
    # one column for each queue that any task names, and one for all others
    seen = [name for name in dict.fromkeys(name for _, name, _ in counted) if name in position]
    column = {name: at for at, name in enumerate(seen)}
    table = np.zeros((3, len(known), len(seen) + 1))
    rows = [(at, column[name], *jobs) for at, name, jobs in counted if name in column]
    if rows:
        at, queue, finished, failed, closed = np.array(rows, dtype=np.float64).T
        table[:, at.astype(np.int64), queue.astype(np.int64)] = finished, failed + closed, closed
    of_queue = np.full(len(names), len(seen), dtype=np.int64)
    of_queue[[position[name] for name in seen]] = np.arange(len(seen))
    return RowsByKind(table, kind, of_queue)


class ActiveUsers:
    """The facts that step ``user_figures`` computes; a snapshot of another profile may lack its input."""

    def __init__(self, snapshot: Snapshot, chunks: WorkTable, step: UserFigures) -> None:
        self._snapshot, self._chunks, self._step = snapshot, chunks, step

    def stats(self, rows: slice, facts: AnalysisFacts) -> dict[str, Any]:
        """The facts that differ; none by default."""
        options, queues = self._step.options, self._snapshot.queues.unified
        changes: dict[str, Any] = {}
        if options.starts == "until_five_minutes_ago" and RECENT_STARTS in self._snapshot.offered:
            changes["to_running_rate"] = self._rate(facts)
        if options.jobs == "active" and ACTIVE_USER_JOBS in self._snapshot.offered:
            names = [str(name) for name in self._snapshot.unified.name]
            counts = cast(UserCounts, self._snapshot.offered[ACTIVE_USER_JOBS])
            columns = (self._chunks.prodsourcelabel, self._chunks.gshare, self._chunks.username)
            keys = zip(*(column[rows].tolist() for column in columns), strict=True)
            owners = [(label or "", share or "", user or "") for label, share, user in keys]
            known = {key: counts.of_user(*key, names)[:, queues] for key in dict.fromkeys(owners)}
            table = np.stack([known[key] for key in owners])
            users = np.nan_to_num(table[:, 3])
            if options.users == "and_total":
                users = np.where(np.isnan(table[:, 3]), 1.0, users + 1.0)
            running = np.where(np.isnan(table[:, 4]), facts.running, table[:, 4])
            changes |= {"user_queued": table[:, 0], "user_running": table[:, 1]}
            changes |= {"users": users, "users_running": running}
            if options.absent == "not_looked_at":
                changes["user_ignored"] = table[:, 2] == 0
        return changes

    def _rate(self, facts: AnalysisFacts) -> Any:
        """(T, Q): the queue's starts in an hour, in proportion to the running jobs of the share."""
        starts: dict[str, float] = self._snapshot.offered[RECENT_STARTS]
        rate = np.array([starts.get(str(name), 0.0) for name in self._snapshot.unified.name])
        at = self._snapshot.queues.unified
        everybody = self._snapshot.jobs.total[:, RUNNING][at]
        part = np.divide(facts.running, everybody[None, :], out=np.zeros(facts.running.shape), where=everybody > 0)
        return rate[at][None, :] * part


#: Jobs that were placed for the accounting key of a chunk, for its user, and users that were new, at the same pairs.
Placed = tuple[Floats, Floats, Floats]


def load_at(facts: AnalysisFacts, chunk: AnyArray, queue: Ints, placed: Placed | None) -> StabilizerLoad:
    """(N,): the load at pairs of chunks of a block and candidates, including placed jobs."""

    def at(name: str) -> Floats:
        return facts.at(name, chunk, queue)

    defined, user_queued, users = at("defined"), at("user_queued"), at("users")
    if placed is not None:
        defined, user_queued, users = defined + placed[0], user_queued + placed[1], users + placed[2]
    return StabilizerLoad(
        defined + at("assigned") + at("activated") + at("starting"),
        at("users_running"),
        at("to_running_rate"),
        user_queued,
        at("user_running"),
        users,
    )


def figures_at(load: StabilizerLoad, number_of: Callable[[str], float]) -> Floats:
    """(F, N): the figures in the order of ``FIGURES``."""
    seen = stats_of_all(load, stabilize(load, number_of))
    return np.array([seen[name] for name in FIGURES], dtype=np.float64)
