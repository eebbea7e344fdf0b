"""The sources of this distribution, in the order in which they are read. A new one is a module, and a line here."""

from __future__ import annotations

from typing import Any

from broker.snapshot.source import GridSource, Source
from broker.snapshot.sources.active_user_jobs import ActiveUserJobs
from broker.snapshot.sources.features import FEATURES
from broker.snapshot.sources.global_share_names import GlobalShareNames
from broker.snapshot.sources.global_share_targets import GlobalShareTargets
from broker.snapshot.sources.gpus import GPUS
from broker.snapshot.sources.jobs import JOBS
from broker.snapshot.sources.links import LINKS
from broker.snapshot.sources.metrics import METRICS
from broker.snapshot.sources.pilots import PILOTS
from broker.snapshot.sources.pins import PINS
from broker.snapshot.sources.pools import POOLS
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.quota import QUOTA
from broker.snapshot.sources.recent_starts import RecentStarts
from broker.snapshot.sources.replicas import REPLICAS
from broker.snapshot.sources.resource_types import RESOURCE_TYPES
from broker.snapshot.sources.slots import SLOTS
from broker.snapshot.sources.software import SOFTWARE
from broker.snapshot.sources.storages import STORAGES
from broker.snapshot.sources.task_queues import TaskQueues
from broker.snapshot.sources.task_resource_types import TaskResourceTypes
from broker.snapshot.sources.user_jobs import USER_JOBS
from broker.snapshot.sources.work_queues import WORK_QUEUES
from broker.snapshot.sources.worker_nodes import WORKER_NODES
from broker.snapshot.sources.workers import WORKERS

#: Those that the tables of every snapshot are made from; the last only for the brokerage of analysis.
GRID_SOURCES: tuple[GridSource[Any], ...] = (
    QUEUES,
    RESOURCE_TYPES,
    WORK_QUEUES,
    STORAGES,
    LINKS,
    JOBS,
    PILOTS,
    SLOTS,
    WORKERS,
    SOFTWARE,
    WORKER_NODES,
    GPUS,
    REPLICAS,
    FEATURES,
    POOLS,
    PINS,
    USER_JOBS,
    METRICS,
    QUOTA,
)

#: Those that are read in the cycles of the brokerages of which a rule or step names them; none of the profile ``seed``.
OFFERED_SOURCES: tuple[type[Source], ...] = (
    TaskResourceTypes,
    GlobalShareNames,
    GlobalShareTargets,
    ActiveUserJobs,
    RecentStarts,
    TaskQueues,
)

NAMES = tuple(source.name for source in GRID_SOURCES)


def grid_sources(*, analysis: bool) -> tuple[GridSource[Any], ...]:
    """Sources of a snapshot for analysis brokerages, or for others."""
    return tuple(source for source in GRID_SOURCES if analysis or not source.for_analysis)
