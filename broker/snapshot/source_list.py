"""The sources of snapshots: those of this distribution in reading order, those of others by name, and their limits.

A new source of this distribution is a module, and a line here. Limits are those of ``config/sources.yaml``; a source
that is not listed uses its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from broker.resources import entry_points
from broker.snapshot.draft import GridSource
from broker.snapshot.source import AnySource, Source, SourceError, SourceLimit
from broker.snapshot.sources.active_user_jobs import ActiveUserJobs
from broker.snapshot.sources.failed_inputs import FailedInputsSource
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
from broker.snapshot.sources.queue_capacity import QueueCapacitySource
from broker.snapshot.sources.queue_health import QueueHealthSource
from broker.snapshot.sources.queues import QUEUES
from broker.snapshot.sources.quota import QUOTA
from broker.snapshot.sources.recent_starts import RecentStarts
from broker.snapshot.sources.replicas import REPLICAS
from broker.snapshot.sources.resource_types import RESOURCE_TYPES
from broker.snapshot.sources.slots import SLOTS
from broker.snapshot.sources.software import SOFTWARE
from broker.snapshot.sources.storages import STORAGES
from broker.snapshot.sources.task_failures import TaskFailuresSource
from broker.snapshot.sources.task_queues import TaskQueues
from broker.snapshot.sources.task_resource_types import TaskResourceTypes
from broker.snapshot.sources.user_jobs import USER_JOBS
from broker.snapshot.sources.work_queues import WORK_QUEUES
from broker.snapshot.sources.worker_nodes import WORKER_NODES
from broker.snapshot.sources.workers import WORKERS

#: Sources of the tables of every snapshot; the last ones only for the analysis brokerage.
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

#: Sources read in the cycles of brokerages with a rule or step that names them; the profile ``seed`` names none.
OFFERED_SOURCES: tuple[type[Source], ...] = (
    TaskResourceTypes,
    GlobalShareNames,
    GlobalShareTargets,
    ActiveUserJobs,
    RecentStarts,
    TaskQueues,
    QueueHealthSource,
    TaskFailuresSource,
    FailedInputsSource,
    QueueCapacitySource,
)

NAMES = tuple(source.name for source in GRID_SOURCES)


def grid_sources(*, analysis: bool) -> tuple[GridSource[Any], ...]:
    """Sources of a snapshot for analysis brokerages, or for others."""
    return tuple(source for source in GRID_SOURCES if analysis or not source.for_analysis)


GROUP = "broker.sources"


def offered() -> dict[str, EntryPoint]:
    """The sources that this and other installed distributions offer, by name, without importing those of others."""
    own = (EntryPoint(one.name, f"{one.__module__}:{one.__name__}", GROUP) for one in OFFERED_SOURCES)
    return {point.name: point for point in (*own, *entry_points(group=GROUP))}


@cache
def outside_source(name: str) -> Source:
    """The source of an installed distribution.

    Raises:
        SourceError: none offers it, it cannot be loaded, or it violates the contract.
    """
    point = offered().get(name)
    if point is None:
        raise SourceError(f"source {name}: no installed distribution offers it; install the one that does")
    try:
        source = point.load()()
    except Exception as error:  # whatever an outside module raises on import is that distribution's fault
        raise SourceError(f"source {name}: {point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(source, Source) or getattr(source, "name", None) != name or not getattr(source, "reads", ()):
        raise SourceError(f"source {name}: {point.value} is no Source of this name with its reads")
    return source


def outside_sources(names: Iterable[str]) -> tuple[Source, ...]:
    """The named sources that installed distributions offer, by name.

    Raises:
        SourceError: one of them is unusable.
    """
    return tuple(outside_source(name) for name in sorted(set(names) & set(offered())))


LIMIT_KEYS = ("max_age_s", "may_be_empty", "max_shrink")


def limits_of(settings: Mapping[str, object], outside: Sequence[Source] = ()) -> dict[str, SourceLimit]:
    """The configured limits, one entry per source; the default is the source's own.

    Raises:
        ValueError: a source or limit does not exist, or a value has the wrong type or range.
    """
    known: dict[str, AnySource] = {one.name: one for one in (*GRID_SOURCES, *outside)}
    # a limit may be configured for a source that no rule of this brokerage names
    unknown = sorted(set(settings) - set(known) - set(offered()))
    if unknown:
        raise ValueError(f"config/sources.yaml: {', '.join(unknown)}: no such source; there are {', '.join(known)}")
    return {
        name: replace(_limit_of(name, settings[name]), main_table=source.limit.main_table)
        if name in settings
        else source.limit
        for name, source in known.items()
    }


def _limit_of(name: str, entry: object) -> SourceLimit:
    place = f"config/sources.yaml: {name}"
    if not isinstance(entry, Mapping):
        raise ValueError(f"{place} must hold {', '.join(LIMIT_KEYS)}, or {{}} for none")
    unknown = sorted(set(entry) - set(LIMIT_KEYS), key=str)
    if unknown:
        raise ValueError(f"{place}: {unknown[0]}: no such limit; there are {', '.join(LIMIT_KEYS)}")
    max_age, shrink, may_be_empty = (
        entry.get("max_age_s"),
        entry.get("max_shrink", 1.0),
        entry.get("may_be_empty", True),
    )
    if max_age is not None and not (_is_number(max_age) and max_age > 0):
        raise ValueError(f"{place}: max_age_s must be a number of seconds above 0")
    if not (_is_number(shrink) and 0 <= shrink <= 1):
        raise ValueError(f"{place}: max_shrink must lie between 0 and 1")
    if not isinstance(may_be_empty, bool):
        raise ValueError(f"{place}: may_be_empty must be true or false")
    return SourceLimit(None if max_age is None else float(max_age), may_be_empty, float(shrink))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
