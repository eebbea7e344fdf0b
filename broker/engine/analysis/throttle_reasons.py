"""Why chunks are throttled: the conditions of the throttle stage as users read them.

Source: ATLAS Analysis Job Brokerage, throttle.
"""

from __future__ import annotations

from broker.domain.reason import Reason

THROTTLED = "throttled_"
THROTTLE_REASONS = (
    Reason(
        code=f"{THROTTLED}running_jobs",
        title="enough jobs of the user or group run",
        who="wait",
        cure="Wait: it goes on as your jobs end. `broker user NAME` shows the figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}queued_jobs",
        title="enough jobs of the user or group wait",
        who="wait",
        cure="Wait: it goes on as your jobs start. Submit less at once; `broker user NAME` shows the "
        "figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}running_cores",
        title="enough cores of the user or group are busy",
        who="wait",
        cure="Wait: it goes on as your jobs end. `broker user NAME` shows the figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}queued_cores",
        title="enough cores of the user or group are asked for",
        who="wait",
        cure="Wait: it goes on as your jobs start. Submit less at once; `broker user NAME` shows the "
        "figure and the cap.",
    ),
    Reason(
        code=f"{THROTTLED}share_usage",
        title="the global share is used up, and the user has had the most of it",
        who="wait",
        cure="Wait: it goes on when others of the share have had their part.",
    ),
    Reason(
        code=f"{THROTTLED}global_quota",
        title="the quota of the user is used up",
        who="you",
        cure="Delete output that you do not need, or ask for more quota. `broker user NAME` shows the quota.",
    ),
    Reason(
        code=f"{THROTTLED}near_global_quota",
        title="the quota of the user is nearly used up",
        who="you",
        cure="Delete output that you do not need, or ask for more quota. Until then only merging goes on; "
        "`broker user NAME` shows the quota.",
    ),
    Reason(
        code=f"{THROTTLED}quota_unknown",
        title="the quota of the user cannot be read, and until it can no jobs are made",
        who="ask",
        cure="Operators look at the source of quotas (`broker alarms`). The work goes on by itself when it is back.",
    ),
)
