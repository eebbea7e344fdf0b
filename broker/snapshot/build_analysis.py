"""Parts of a snapshot that only the analysis brokerage reads: users' jobs, metrics and quotas."""

from __future__ import annotations

from broker.domain.analysis import AnalysisGrid
from broker.snapshot.draft import Draft
from broker.snapshot.sources.jobs import JOBS
from broker.snapshot.sources.metrics import METRICS
from broker.snapshot.sources.quota import QUOTA
from broker.snapshot.sources.user_jobs import USER_JOBS


def build_analysis(draft: Draft) -> AnalysisGrid:
    """The figures; rows that are too old or cannot be used are dropped."""
    users, metrics, quota = draft.of(USER_JOBS), draft.of(METRICS), draft.of(QUOTA)
    return AnalysisGrid(
        starts=users.starts,
        users=users.users,
        users_running=users.users_running,
        present=users.present,
        by_user=users.by_user,
        by_type=draft.of(JOBS).by_type,
        of_user=users.of_user,
        of_group=users.of_group,
        share_usage=metrics.usage,
        share_usage_l1=metrics.usage_l1,
        site_class=metrics.site_class,
        user_slots_left=metrics.slots_left,
        quotas=quota.lines,
        full_endpoints=quota.full_endpoints,
    )
