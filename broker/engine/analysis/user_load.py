"""Jobs that an analysis cycle has placed so far, by user and by resource type, as later chunks see them.

Pure. What is placed for a share is counted by the cycle itself; this is what the rules for users look at beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import Floats, Ints, Texts, numbered
from broker.domain.counted_load import CountedLoad, QueueJobs
from broker.domain.work import WorkTable
from broker.engine.compiled.columns import UserState
from broker.engine.shared.evaluate import RowsOf
from broker.snapshot.snapshot import Snapshot

OF_USER, OF_TYPE, NEW_USERS = "of_user", "of_type", "new_users"
"""The parts of a :class:`~broker.domain.counted_load.CountedLoad` that are counted here."""
ALL_TYPES = 0
"""The number of the type that a task without one has."""
_NOWHERE: Ints = np.zeros(0, dtype=np.int64)


class UserLoad:
    """Jobs that were placed in a cycle, by unified queue.

    Args:
        snapshot: the grid.
        chunks: of the cycle.

    Attributes:
        state: the counts, and which of them are those of each chunk.
    """

    def __init__(self, snapshot: Snapshot, chunks: WorkTable) -> None:
        self._queues, self._names = snapshot.queues.unified, snapshot.unified.name.tolist()
        users, shares, labels = ([name or "" for name in column.tolist()] for column in _owner_columns(chunks))
        owners, owner = numbered(zip(users, shares, labels, strict=True))
        _, share = numbered(shares)
        people, person = numbered(zip(users, shares, strict=True))
        # None is 0: all types together
        own_types = chunks.resource_type.tolist()
        types, kind = numbered([None, *own_types, *snapshot.queues.resource_type.tolist()])
        queue_type: Ints = kind[1 + len(own_types) :]
        size = len(self._names)
        self.state = UserState(
            owner=owner,
            share=share,
            kind=kind[1 : 1 + len(own_types)],
            person=np.where(np.array([bool(user) for user in users], dtype=np.bool_), person, -1),
            merging=np.array(chunks.merging, dtype=np.bool_),
            queue_kind=queue_type,
            of_user=np.zeros((len(owners), size)),
            of_type=np.zeros((len(set(shares)), len(types), size)),
            new_users=np.zeros((len(set(shares)), size)),
            present=np.zeros((len(people), size), dtype=np.bool_),
        )
        for at, one in enumerate(people):
            self.state.present[at, snapshot.analysis.present.get(one, _NOWHERE)] = True

    def add(self, row: int, candidates: Ints, jobs: Ints) -> None:
        """Count jobs of the chunk that went to these candidates."""
        state, at = self.state, self._queues[candidates]
        share = state.share[row]
        self._count_user(int(state.person[row]), int(share), at)
        # merge jobs are none of the user's, as in PanDA
        if not state.merging[row]:
            np.add.at(state.of_user[state.owner[row]], at, jobs)
        # a task without a type counts all of them
        np.add.at(state.of_type[share, ALL_TYPES], at, jobs)
        own = state.queue_kind[candidates]
        kind = np.where(own == ALL_TYPES, state.kind[row], own)
        typed = kind != ALL_TYPES
        np.add.at(state.of_type[share], (kind[typed], at[typed]), jobs[typed])

    def _count_user(self, person: int, share: int, at: Ints) -> None:
        """Count a user who had no jobs at these queues before."""
        if person < 0:
            return
        present = self.state.present[person]
        fresh = at[~present[at]]
        if len(fresh):
            # pseudo-queues of one queue are one place
            self.state.new_users[share, np.unique(fresh)] += 1
            present[fresh] = True

    def of_row(self, row: int) -> dict[str, Floats]:
        """(U,) each: jobs of the chunk's user, of its type, and users that are new in its share."""
        state, share = self.state, self.state.share[row]
        return {
            OF_USER: state.of_user[state.owner[row]],
            OF_TYPE: state.of_type[share, state.kind[row]],
            NEW_USERS: state.new_users[share],
        }

    def counted(self, row: int, load: CountedLoad) -> CountedLoad:
        """The load of a chunk with the counts of :meth:`of_row`."""
        found = {part: QueueJobs(self._names, counts.copy()) for part, counts in self.of_row(row).items()}
        return dataclasses.replace(load, of_user=found[OF_USER], of_type=found[OF_TYPE], new_users=found[NEW_USERS])

    def set(self, row: int, load: CountedLoad) -> None:
        """Let exactly this load be counted for a chunk, whatever was counted here."""
        for part, table in self.of_row(row).items():
            jobs = getattr(load, part)
            table[:] = [jobs.get(name, 0) for name in self._names] if jobs else 0.0


def _owner_columns(chunks: WorkTable) -> tuple[Texts, Texts, Texts]:
    return chunks.username, chunks.gshare, chunks.prodsourcelabel


def with_placed(facts: AnalysisFacts, inside: int, of_share: Floats, placed: Mapping[str, Floats]) -> Any:
    """Facts of the chunk at ``inside`` with the jobs (Q,) placed by the cycle; only read facts are computed."""
    rows = RowsOf(facts, np.array([inside]))
    rows.__dict__.update(
        defined=rows.defined + of_share,
        user_queued=rows.user_queued + placed[OF_USER],
        queued_of_type=rows.queued_of_type + placed[OF_TYPE],
        users=rows.users + placed[NEW_USERS],
    )
    return rows
