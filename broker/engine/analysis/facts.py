"""The facts of analysis about a block of chunks, each computed when a rule reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisFacts, AnalysisWork, load_of, stabilize
from broker.domain.arrays import AnyArray, Bools, RowsByKind
from broker.domain.facts import JobFacts, Later
from broker.domain.work import WorkTable
from broker.engine.analysis.candidates import AnalysisCandidates
from broker.engine.analysis.data_facts import GB_OF_WEIGHT, AnalysisData
from broker.engine.analysis.job_counts import ActiveUsers, of_share, of_task, of_type, of_user
from broker.engine.analysis.queue_attributes import AnalysisQueues
from broker.engine.analysis.throttle import Requester, over_quota
from broker.snapshot.snapshot import Snapshot

#: The facts that differ between a pass with and one without the locality check.
PASS_FACTS = ("local_pass", "needs_wan", "avoids_vp", "lacks_files", "without_vp", "locality_weight")


@dataclass(frozen=True)
class FactsOfAnalysis:
    """Inputs of the facts of a cycle.

    Attributes:
        snapshot: the grid.
        chunks: the chunks of the cycle.
        request: their columns of analysis.
        at: figures of queues.
        named: the candidates, and how queues were named.
        data: where the input is.
        requesters: (T,) the requester of each chunk.
        users: figures of users as the profile reads them.
        number_of: the values of the stabilizer.
    """

    snapshot: Snapshot
    chunks: WorkTable
    request: AnalysisWork
    at: AnalysisQueues
    named: AnalysisCandidates
    data: AnalysisData
    requesters: list[Requester]
    users: ActiveUsers
    number_of: Callable[[str], float]

    def of_block(self, rows: slice, base: JobFacts, local_pass: Bools) -> AnalysisFacts:
        """The facts of the chunks ``rows``.

        Args:
            rows: of the chunks.
            base: their facts as in production.
            local_pass: (T, 1) the input must be at the queue.
        """
        size, queues = rows.stop - rows.start, self.snapshot.queues.unified
        known = {
            "remote_source": self.data.remote_source[rows, None],
            # no cap of production applies while jobs are distributed
            "urgent": np.ones((size, 1), dtype=np.bool_),
            # here the estimate of the walltime has no event-service parts
            "event_service": np.zeros((size, 1), dtype=np.bool_),
            "all_local": np.zeros((size, len(queues)), dtype=np.bool_),
            "user_ignored": np.zeros((size, 1), dtype=np.bool_),
            "can_be_throttled": np.ones((size, 1), dtype=np.bool_),
            "new_weight": np.ones((size, 1)),
            **self._of_task(rows),
            **self._of_queues(),
        }
        data = self.data
        later: dict[str, Later] = {
            "has_input": lambda: self._taken(data.has_input.of(rows)),
            "over_local_quota": partial(self._over_quota, rows),
            **self._of_placement_constraints(rows),
            **self._of_jobs(rows),
        }
        own_known, own_later = self._of_pass(rows, local_pass)
        facts = base.also(AnalysisFacts, known | own_known, later | own_later)
        loaded = facts.but(self.users.stats(rows, facts))

        def can_be_throttled() -> Bools:
            return stabilize(load_of(loaded), self.number_of).can_be_throttled

        # computed from other facts than these, which would refer to themselves and stay until garbage collection
        return loaded.but({}, {"can_be_throttled": can_be_throttled})

    def in_pass(self, facts: AnalysisFacts, rows: slice, local_pass: Bools) -> AnalysisFacts:
        """The facts in a pass in which only some of the chunks must have their input at the queue."""
        return facts.but(*self._of_pass(rows, local_pass))

    def _at_candidates(self, values: RowsByKind) -> RowsByKind:
        """(T, Q), from (T, U)."""
        unified = self.snapshot.queues.unified
        return RowsByKind(values.table, values.kind, unified if values.column is None else values.column[unified])

    def _taken(self, values: AnyArray) -> RowsByKind:
        """(T, Q), from (T, U) of a block."""
        return self._at_candidates(RowsByKind(values))

    def _of_placement_constraints(self, rows: slice) -> dict[str, Later]:
        named, own = self.named, np.arange(rows.start, rows.stop)
        return {
            "named": named.named.of(own),
            "reserve": named.reserve.of(own),
            "wanted": named.wanted.of(own),
        }

    def _of_task(self, rows: slice) -> dict[str, Any]:
        named, request = self.named, self.request
        return {
            "site_named": named.one_preassigned[rows, None],
            "transuses": request.transuses[rows, None],
            "gb_per_job": request.gb_per_job[rows, None],
        }

    def _of_queues(self) -> dict[str, Any]:
        at, queues = self.at, self.snapshot.queues.unified
        columns = {
            "cloud_of_queue": at.cloud,
            "is_vp": at.is_vp,
            "has_output": at.has_output,
            "has_input_storage": at.has_input,
            "output_usable_gb": at.output_usable_gb,
            "input_usable_gb": at.input_usable_gb,
            "reads_lan": at.reads_lan,
            "writes_lan": at.writes_lan,
            "receives": at.receives,
            "sends": at.sends,
        }
        return {name: column[None, queues] for name, column in columns.items()}

    def _over_quota(self, rows: slice) -> RowsByKind:
        """(T, Q): the owner has no quota left at the default output endpoint."""
        names = np.append(self.snapshot.storages.name, "")[self.at.output_storage]
        at_queues = over_quota(self.requesters[rows], self.snapshot.analysis.full_endpoints, names)
        return self._at_candidates(at_queues)

    def _of_jobs(self, rows: slice) -> dict[str, Later]:
        """Jobs of the share, its users, the user and the task, by candidate."""
        snapshot, chunks = self.snapshot, self.chunks
        typed, user, share, earlier = (
            self._at_candidates(counts)
            for counts in (
                of_type(snapshot, chunks, rows),
                of_user(snapshot, chunks, rows),
                of_share(snapshot, self.at, chunks, rows),
                of_task(snapshot, self.request.bad_jobs[rows]),
            )
        )
        names = {
            "queued_of_type": (typed, 0),
            "running_of_type": (typed, 1),
            "users": (share, 0),
            "users_running": (share, 1),
            "to_running_rate": (share, 2),
            "user_queued": (user, 0),
            "user_running": (user, 1),
            "jobs_finished": (earlier, 0),
            "jobs_bad": (earlier, 1),
            "jobs_closed": (earlier, 2),
        }
        facts: dict[str, Later] = {name: table.layer(at) for name, (table, at) in names.items()}
        # the totals are the same at every queue
        totals = RowsByKind(share.table[..., :1], share.kind)
        return facts | {"share_queued": totals.layer(3), "share_running": totals.layer(4)}

    def _of_pass(self, rows: slice, local_pass: Bools) -> tuple[dict[str, Any], dict[str, Later]]:
        """The facts that differ between a pass with and one without the locality check."""
        data = self.data
        merging, avoids = self.chunks.merging[rows], self.request.avoid_vp[rows]
        elsewhere = data.distributed[rows] | (data.union[rows] & local_pass[:, 0])
        second = ~local_pass[:, 0] & data.real[rows]

        def locality_weight() -> RowsByKind:
            distance = np.where(data.big[rows, None], 1.0 + data.disk_gb.of(rows) / GB_OF_WEIGHT, 1.0)
            by_datasets = local_pass & ~data.union[rows, None]
            weight = np.where(by_datasets, data.datasets_weight.of(rows), distance)
            return self._taken(np.where(data.real[rows, None], weight, 1.0))

        def lacks_files() -> RowsByKind:
            lacks, parts = data.lacks_files, data.lacks_parts.table[rows]
            lacking = RowsByKind(lacks.table[rows] | (parts & ~local_pass), column=lacks.column)
            return self._at_candidates(lacking)

        def without_vp() -> RowsByKind:
            return self._taken(data.without_vp.of(rows) | ~local_pass)

        known = {
            "local_pass": local_pass,
            "needs_wan": ~local_pass,
            "avoids_vp": (merging | avoids | elsewhere | second)[:, None],
        }
        later: dict[str, Later] = {
            "lacks_files": lacks_files,
            "without_vp": without_vp,
            "locality_weight": locality_weight,
        }
        return known, later
