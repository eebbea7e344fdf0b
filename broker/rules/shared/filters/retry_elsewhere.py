"""The next attempt of failed input goes to another queue while one is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.decisions import Observation, Value
from broker.domain.facts import not_single
from broker.domain.failed_inputs import FailedInputs, avoided_queues, least_files
from broker.domain.instants import HOUR_S
from broker.rules.contract import GroupFilter, JobPairs, Reason, TuningView
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.failed_inputs import FAILED_INPUTS

SWITCH, SHARE, WITHIN = "LEARNED_RETRY_ELSEWHERE", "LEARNED_RETRY_SHARE", "LEARNED_RETRY_WITHIN"
MOST_CLOSED = "LEARNED_MOST_CLOSED_SHARE"


@dataclass(frozen=True)
class Failed:
    """The queues at which input of the chunks failed.

    Attributes:
        row: (T,) the row of each chunk in ``files``; -1 for a chunk without failed input.
        files: (K, U) waiting files that failed at each unified queue.
        unified: (Q,) the unified queue of each candidate.
        ago_s: (K, U) seconds since the last of them failed; NaN where none did.
    """

    row: Ints
    files: Floats
    unified: Ints
    ago_s: Floats


class RetryElsewhere(GroupFilter[JobPairs]):
    """Rejects queues at which LEARNED_RETRY_SHARE of the waiting files of a chunk failed, with LEARNED_RETRY_ELSEWHERE.

    It counts files that wait for their next attempt and whose job failed there within LEARNED_RETRY_WITHIN hours for no
    fault of the payload; at least one. At most LEARNED_MOST_CLOSED_SHARE of the queues left to the chunk is avoided,
    those with most of these files, and never the last: then all are kept. Not for a single pre-assigned queue.
    Source: this broker; Armada's retry policies avoid the node of the failed attempt (``avoidSameNode``).
    """

    name = "retry_elsewhere"
    reason = Reason(
        code="retry_elsewhere",
        title="The input did not fail at the queue recently, while another is left",
        violation="Input that waits for its next attempt failed at the queue recently, and another queue is left",
        no_candidate="has not just failed this input",
        who="wait",
        cure="Nothing is wrong while another queue takes the jobs. The queue may have them again after "
        "`LEARNED_RETRY_WITHIN` hours; operators may switch `LEARNED_RETRY_ELSEWHERE` off.",
    )
    kind = "temporary"
    keys = (SWITCH, SHARE, WITHIN, MOST_CLOSED)
    sources = (FAILED_INPUTS,)
    unknown_policy = "keep"
    after_temporary = True
    provenance = "Armada, retry policies"

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """No sources while the rule is switched off."""
        return self.sources if tuning.flag(SWITCH) else ()

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> Failed | None:
        """The queues at which input of the work failed; None if the rule is switched off or no input failed."""
        learned: FailedInputs = snapshot.offered.get(FAILED_INPUTS, {})
        if not learned or not tuning.flag(SWITCH):
            return None
        place = {name: at for at, name in enumerate(snapshot.unified.name.tolist())}
        within_s = HOUR_S * tuning.number(WITHIN)
        chunks = zip(work.chunks.jeditaskid.tolist(), work.chunks.datasetid.tolist(), strict=True)
        row = np.full(len(work.chunks.jeditaskid), -1, dtype=np.int64)
        files: list[Floats] = []
        ago: list[Floats] = []
        for at, key in enumerate(chunks):
            ends = [(place[queue], one) for queue, one in learned.get(key, {}).items() if queue in place]
            recent = [(queue, one) for queue, one in ends if snapshot.now_s - one.last_s <= within_s]
            if recent:
                row[at] = len(files)
                files.append(np.zeros(len(place)))
                ago.append(np.full(len(place), np.nan))
            for queue, one in recent:
                files[-1][queue], ago[-1][queue] = one.files, snapshot.now_s - one.last_s
        return Failed(row, np.array(files), snapshot.queues.unified, np.array(ago)) if files else None

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks without a single pre-assigned queue whose input failed somewhere."""
        known: Failed | None = pairs.prepared.get(self.name)
        if known is None:
            return np.zeros((len(pairs.chunks.n_files), 1), dtype=np.bool_)
        failed = known.row[pairs.rows] >= 0
        return np.asarray(not_single(pairs.facts) & failed[:, None])

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        """(T, Q): false at all candidates of the avoided queues."""
        known: Failed | None = pairs.prepared.get(self.name)
        if known is None:
            return np.ones(alive.shape, dtype=np.bool_)
        row, of = known.row[pairs.rows], known.unified[pairs.positions]
        files = np.where((row >= 0)[:, None], known.files[row], 0.0)
        belongs = of[:, None] == np.arange(files.shape[1])[None, :]
        left = np.asarray(alive.astype(np.int64) @ belongs.astype(np.int64) > 0)
        least = least_files(pairs.tuning.number(SHARE), pairs.chunks.n_files[:, 0])
        return np.asarray(~avoided_queues(files, least, left, pairs.tuning.number(MOST_CLOSED))[:, of])

    def observe(self, pairs: JobPairs) -> Observation:
        """Waiting files of the chunk that failed at the queue; a last queue passes regardless of their number."""
        waiting = int(pairs.chunks.n_files.item())
        least = float(least_files(pairs.tuning.number(SHARE), np.array([waiting])).item())
        known: Failed | None = pairs.prepared.get(self.name)
        row = -1 if known is None else int(known.row[pairs.rows].item())
        inputs: dict[str, Value] = {"waiting_files": waiting, "only_while_another_is_left": True}
        if known is None or row < 0:
            return Observation(0.0, "<", least, "files", SHARE, inputs)
        at = int(known.unified[pairs.positions].item())
        ago_s = float(known.ago_s[row, at])
        if not np.isnan(ago_s):
            inputs["last_failed_h"] = round(ago_s / HOUR_S, 2)
        return Observation(float(known.files[row, at]), "<", least, "files", SHARE, inputs)
