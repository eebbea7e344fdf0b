"""What a cycle of analysis has placed so far, as the chunks that follow see it: by user, and by resource type.

Pure. What is placed for a share is counted by the cycle itself; this is what the rules for users look at beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.counted_load import CountedLoad
from broker.domain.work import WorkTable
from broker.engine.shared.evaluate import RowsOf
from broker.snapshot.snapshot import Snapshot

OF_USER, OF_TYPE, NEW_USERS = "of_user", "of_type", "new_users"
"""The parts of a :class:`~broker.domain.counted_load.CountedLoad` that are counted here."""


class UserLoad:
    """Jobs that were placed in a cycle, by unified queue."""

    def __init__(self, snapshot: Snapshot, chunks: WorkTable) -> None:
        self._snapshot, self._chunks = snapshot, chunks
        self._names: list[str] = snapshot.unified.name.tolist()
        self._none: Floats = np.zeros(len(snapshot.unified))
        self._of_user: dict[tuple[str, str, str], Floats] = {}
        self._of_type: dict[tuple[str, str | None], Floats] = {}
        self._new_users: dict[str, Floats] = {}
        self._present: dict[tuple[str, str], Bools] = {}

    def _keys(self, row: int) -> tuple[str, str, str]:
        chunks = self._chunks
        return chunks.username[row] or "", chunks.gshare[row] or "", chunks.prodsourcelabel[row] or ""

    def add(self, row: int, candidates: Ints, jobs: Ints) -> None:
        """Count jobs of the chunk that went to these candidates."""
        user, share, label = self._keys(row)
        at = self._snapshot.queues.unified[candidates]
        self._count_user(user, share, at)
        # merge jobs are none of the user's, as in PanDA
        if not self._chunks.merging[row]:
            np.add.at(self._of_user.setdefault((user, share, label), self._none.copy()), at, jobs)
        own = self._snapshot.queues.resource_type[candidates]
        kinds = [kind if kind is not None else self._chunks.resource_type[row] for kind in own]
        for queue, kind, count in zip(at.tolist(), kinds, jobs.tolist(), strict=True):
            # a task without a type counts all of them
            for key in {kind, None}:
                self._of_type.setdefault((share, key), self._none.copy())[queue] += count

    def _count_user(self, user: str, share: str, at: Ints) -> None:
        """Count a user who had nothing at these queues before."""
        if not user:
            return
        present = self._present.get((user, share))
        if present is None:
            present = self._present[user, share] = np.zeros(len(self._none), dtype=np.bool_)
            present[self._snapshot.analysis.present.get((user, share), at[:0])] = True
        fresh = at[~present[at]]
        if len(fresh):
            # pseudo-queues of one queue are one place
            self._new_users.setdefault(share, self._none.copy())[np.unique(fresh)] += 1
            present[fresh] = True

    def of_row(self, row: int) -> dict[str, Floats]:
        """(U,) each: jobs of the chunk's user, of its type, and users that are new in its share."""
        user, share, label = self._keys(row)
        return {
            OF_USER: self._of_user.get((user, share, label), self._none),
            OF_TYPE: self._of_type.get((share, self._chunks.resource_type[row]), self._none),
            NEW_USERS: self._new_users.get(share, self._none),
        }

    def counted(self, row: int, load: CountedLoad) -> CountedLoad:
        """The load of a chunk, with what :meth:`of_row` gives."""
        found = {part: self._by_name(counts) for part, counts in self.of_row(row).items()}
        return dataclasses.replace(load, of_user=found[OF_USER], of_type=found[OF_TYPE], new_users=found[NEW_USERS])

    def _by_name(self, counts: Floats) -> dict[str, int]:
        queues, names = counts.nonzero()[0], self._names
        jobs = counts[queues].astype(int).tolist()
        return {names[queue]: count for queue, count in zip(queues.tolist(), jobs, strict=True)}

    def set(self, row: int, load: CountedLoad) -> None:
        """Let exactly this load be counted for a chunk, whatever was counted here."""
        user, share, label = self._keys(row)
        tables = {
            OF_USER: self._of_user.setdefault((user, share, label), self._none.copy()),
            OF_TYPE: self._of_type.setdefault((share, self._chunks.resource_type[row]), self._none.copy()),
            NEW_USERS: self._new_users.setdefault(share, self._none.copy()),
        }
        for queue, name in enumerate(self._snapshot.unified.name.tolist()):
            for part, table in tables.items():
                table[queue] = getattr(load, part).get(name, 0)


def with_placed(facts: AnalysisFacts, inside: int, of_share: Floats, placed: Mapping[str, Floats]) -> Any:
    """The facts of the chunk at ``inside``, with the jobs (Q,) that the cycle has placed; only what is read is made."""
    rows = RowsOf(facts, np.array([inside]))
    own = slice(inside, inside + 1)
    rows.__dict__.update(
        defined=facts.defined[own] + of_share,
        user_queued=facts.user_queued[own] + placed[OF_USER],
        queued_of_type=facts.queued_of_type[own] + placed[OF_TYPE],
        users=facts.users[own] + placed[NEW_USERS],
    )
    return rows
