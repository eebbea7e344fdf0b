"""Parts of a scenario that are switched on, off or set by one key: pilots, workers, tape and failing transfers."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.pilots.model.pilot_demand import Limits


@dataclass(frozen=True)
class Pilots:
    """How jobs come to slots in pull mode (assumed): LN(median, s) in seconds; all 0 starts at once."""

    ask_median_s: float = 60.0
    ask_s: float = 0.5
    start_median_s: float = 300.0
    start_s: float = 1.0


@dataclass(frozen=True)
class Workers:
    """Workers that Harvester submits to the batch systems of all queues, off as they are; then pilots start at once.

    Attributes:
        enabled: jobs start only when a worker runs; ``Pilots`` says nothing then.
        period_s: between two counts of the pilots that each queue could use; 0 counts whenever a job comes.
        wait_median_s: in the batch system before it can take a slot, LN(wait_median_s, wait_spread) (assumed) where
            a queue does not have its own.
        walltime_s: after it the batch system ends a worker with its job; 0: the limit of the queue.
        idle_s: a worker that has no job asks for so long.
        lost: part of the workers that vanish during their first job (assumed).
        limits: of a queue, as Harvester has them.
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
    """Tape systems, alike at all sites, off as they are.

    Attributes:
        part: of the tasks with input that have it on tape, beside those that say so.
        requests_at_once: at a site; others wait in order. One takes LN(median_s, spread) (assumed).
        failure: part of the requests that fail and are made again. Source: 27 % of ATLAS' in two weeks of 2019.
    """

    part: float = 0.0
    requests_at_once: int = 100
    median_s: float = 1800.0
    spread: float = 1.0
    failure: float = 0.27


@dataclass(frozen=True)
class TransferFailures:
    """How often transfers fail: an attempt on each link by pair of sites, and the stage-in of a job anywhere."""

    links: dict[tuple[int, int], float] = field(default_factory=dict)
    stage_in: float = 0.0
