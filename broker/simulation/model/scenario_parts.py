"""Parts of a scenario that are enabled, disabled or set by one key: pilots, workers, tape and failing transfers."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.pilots.model.pilot_demand import Limits


@dataclass(frozen=True)
class Pilots:
    """Delays of pilots in pull mode (assumed): LN(median, s) in seconds; with all 0, jobs start at once."""

    ask_median_s: float = 60.0
    ask_s: float = 0.5
    start_median_s: float = 300.0
    start_s: float = 1.0


@dataclass(frozen=True)
class Workers:
    """Workers that Harvester submits to the batch systems of all queues, disabled by default.

    Attributes:
        enabled: whether jobs start only when a worker runs; ``Pilots`` is ignored then.
        period_s: seconds between two counts of the pilots that each queue can use; 0 counts whenever a job comes.
        wait_median_s: wait in the batch system before a worker can take a slot, LN(wait_median_s, wait_spread)
            (assumed), for queues without a wait of their own.
        walltime_s: time after which the batch system ends a worker with its job; 0 for the limit of the queue.
        idle_s: time for which a worker without a job goes on requesting one.
        lost: part of the workers that vanish during their first job (assumed).
        limits: Harvester's limits of a queue.
    """

    enabled: bool = False
    period_s: float = 120.0
    wait_median_s: float = 300.0
    wait_spread: float = 1.0
    walltime_s: float = 0.0
    idle_s: float = 120.0
    lost: float = 0.01
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Tape:
    """Tape systems, the same at all sites, disabled by default.

    Attributes:
        part: part of the tasks with input that have it on tape, in addition to tasks marked as such.
        requests_at_once: concurrent requests at a site; others wait in order. One takes LN(median_s, spread) (assumed).
        failure: part of the requests that fail and are repeated. Source: 27 % of ATLAS' requests in two weeks of 2019.
    """

    part: float = 0.0
    requests_at_once: int = 100
    median_s: float = 1800.0
    spread: float = 1.0
    failure: float = 0.27


@dataclass(frozen=True)
class TransferFailures:
    """Failure rates of transfers: of an attempt on each link by pair of sites, and of any stage-in of a job."""

    links: dict[tuple[int, int], float] = field(default_factory=dict)
    stage_in: float = 0.0
