"""The figures of the Analysis Stabilizer: active jobs of users, and what is kept with a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import AnyArray, Floats, Ints
from broker.domain.stabilizer import FIGURES, StabilizerLoad, stabilize, stats_of_all
from broker.domain.work import WorkTable
from broker.engine.analysis.job_counts import RUNNING
from broker.engine.analysis.steps import UserFigures
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.active_user_jobs import ACTIVE_USER_JOBS, UserCounts
from broker.snapshot.sources.recent_starts import RECENT_STARTS


class ActiveUsers:
    """The facts that step ``user_figures`` computes; a snapshot of another profile may lack its input."""

    def __init__(self, snapshot: Snapshot, chunks: WorkTable, step: UserFigures) -> None:
        self._snapshot, self._chunks, self._step = snapshot, chunks, step

    def stats(self, rows: slice, facts: AnalysisFacts) -> dict[str, Any]:
        """The facts that differ; none by default."""
        options, queues = self._step.options, self._snapshot.queues.unified
        found: dict[str, Any] = {}
        if options.starts == "until_five_minutes_ago" and RECENT_STARTS in self._snapshot.offered:
            found["to_running_rate"] = self._rate(facts)
        if options.jobs == "active" and ACTIVE_USER_JOBS in self._snapshot.offered:
            names = [str(name) for name in self._snapshot.unified.name]
            counts = cast(UserCounts, self._snapshot.offered[ACTIVE_USER_JOBS])
            columns = (self._chunks.prodsourcelabel, self._chunks.gshare, self._chunks.username)
            keys = zip(*(column[rows].tolist() for column in columns), strict=True)
            asked = [(label or "", share or "", user or "") for label, share, user in keys]
            known = {key: counts.of_user(*key, names)[:, queues] for key in dict.fromkeys(asked)}
            table = np.stack([known[key] for key in asked])
            users = np.nan_to_num(table[:, 3])
            if options.users == "and_total":
                users = np.where(np.isnan(table[:, 3]), 1.0, users + 1.0)
            running = np.where(np.isnan(table[:, 4]), facts.running, table[:, 4])
            found |= {"user_queued": table[:, 0], "user_running": table[:, 1]}
            found |= {"users": users, "users_running": running}
            if options.absent == "not_looked_at":
                found["user_ignored"] = table[:, 2] == 0
        return found

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
    """(N,): the load at pairs of chunks of a block and candidates, with what was placed."""

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
    """(F, N): the figures in their order."""
    seen = stats_of_all(load, stabilize(load, number_of))
    return np.array([seen[name] for name in FIGURES], dtype=np.float64)
