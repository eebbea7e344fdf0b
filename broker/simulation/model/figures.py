"""The figures of merit of a run, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Stats:
    """The figures of a run; NaN if there is nothing to measure, infinite if a quantile lies beyond the record.

    Attributes:
        delivered: true CPU work of the finished jobs, over that of all jobs that arrived in the window.
        finish_mean_s: mean time from arrival to last output of tasks that arrived in the window; open tasks count
            until the end of the record.
        wait_mean_s: mean wait of jobs that arrived in the window; jobs not started count until the end of the record.
        use: HS06 of busy slots over HS06 of slots that are up.
        useful_use: the same, counting only CPU of finished jobs.
        wait_median_s, wait_95_s: time from first assignable to first start, jobs not started censored.
        slowdown: mean bounded slowdown of the jobs that started.
        finish_median_s, finish_95_s: time of tasks from arrival to last output at the nucleus, open tasks censored.
        tail: mean of (T100 - T95) / T100 over finished tasks.
        makespan_s: makespan of a closed scenario, else NaN.
        share_deviation: mean over samples of half the sum of |use - target|, over shares with demand.
        jain: fairness over users.
        wan_bytes: bytes sent between sites.
        wan_bytes_job: bytes sent between sites for each finished job.
        transfers_waiting: mean number of queued output transfers.
        failed: part of the runs that failed or were lost.
        timed_out: jobs taken back for waiting too long.
        rebrokered: moves per assigned job.
        returned: part of the rebrokered jobs that came back to a queue they had left.
        wasted_hs06s: HS06 s of runs that failed or were lost.
        drained_core_s: core seconds kept idle for a wide job.
        finished: jobs finished in the window.
        vo_deviation: deviation as in ``share_deviation``, with the shares of each VO added up; NaN for a single VO.
    """

    delivered: float
    finish_mean_s: float
    wait_mean_s: float
    use: float
    useful_use: float
    wait_median_s: float
    wait_95_s: float
    slowdown: float
    finish_median_s: float
    finish_95_s: float
    tail: float
    makespan_s: float
    share_deviation: float
    jain: float
    wan_bytes: float
    wan_bytes_job: float
    transfers_waiting: float
    failed: float
    timed_out: float
    rebrokered: float
    returned: float
    wasted_hs06s: float
    drained_core_s: float
    finished: float
    vo_deviation: float = math.nan

    def as_dict(self) -> dict[str, float]:
        """The figures by name, for tables and JSON."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}
