"""No new work shortly before an announced downtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs, Reason, TuningView
from broker.snapshot.snapshot import Snapshot

NOTICE_H = 12.0


class NoDowntime(Filter[JobPairs]):
    """Rejects queues with a downtime that has begun, or begins within 12 h.

    Source: agreement of the example collaboration with its sites.
    """

    name = "no_downtime"
    reason = Reason(
        code="downtime",
        title="No downtime begins within 12 h",
        violation="A downtime of the queue has begun, or begins within 12 h",
        no_candidate="is free of downtimes",
        who="wait",
        cure="Wait until the downtime is over; the site says when that is.",
    )
    kind = "temporary"
    sources = ("site_downtimes",)
    unknown_policy = "keep"
    provenance = "Example collaboration"

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> Floats:
        """(Q,) hours until the downtime of each queue begins; 0 or less: it has begun; infinite without any."""
        downtimes = snapshot.offered["site_downtimes"]
        starts = [downtimes.get(name, (np.inf, np.inf))[0] for name in snapshot.queues.unified_name]
        return (np.array(starts) - snapshot.now_s) / 3600.0

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q)."""
        return np.asarray(pairs.prepared[self.name][pairs.positions] > NOTICE_H)[None, :]

    def observe(self, pairs: JobPairs) -> Observation:
        """Hours until the downtime."""
        hours = float(pairs.prepared[self.name][pairs.positions].item())
        return Observation(hours, ">", NOTICE_H, "h", "rule")
