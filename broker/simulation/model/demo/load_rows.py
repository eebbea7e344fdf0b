"""The load of the demonstration grid before the first cycle: jobs, pilots, Harvester slots and workers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.facts import DemoFacts, QueueFacts
from broker.simulation.model.demo.policy_rows import VO, resource_type_of, share_queue_ids

SLOTS_A_RUNNING_JOB = 80
MOST_RUNNING_JOBS = 220
FIRST_PANDAID = 6_700_000_001
FIRST_OLD_TASK = 42_000_001
RUNNING_STATUSES = ("online", "brokeroff", "test")
# jobs in a status as a fraction of the running ones, and the table that holds the status
OTHER_STATUSES = {"activated": 0.22, "starting": 0.06, "transferring": 0.08, "assigned": 0.07, "defined": 0.03}
DEFINED_STATUSES = frozenset({"defined", "assigned"})
#: Statuses of jobs that changed within the last half hour, as they are new or reported by a pilot: no timeout is near.
HEARD_STATUSES = frozenset({"running", "starting", "defined", "assigned"})
SINGLE_CORE_SHARES = frozenset({"Evgen", "Group Production", "User Analysis", "Group Analysis"})
PERCENT = 100
#: Coprime to 100, so that neighbouring jobs go to different users.
SCATTER = 37
PROCESSING_OF_ANALYSIS = "panda-client-1.5.80-jedi-run"


@dataclass(frozen=True)
class _Crowd:
    """Jobs of one queue that share a status."""

    queue: str
    status: str
    jobs: int


def job_rows(facts: DemoFacts, clock: Clock, rng: np.random.Generator) -> tuple[list[Row], list[Row]]:
    """Rows of ``jobsactive4`` and of ``jobsdefined4``."""
    shares = [name for name, share in facts.shares.items() if share.load]
    weights = np.array([facts.shares[name].load for name in shares], dtype=np.float64)
    nuclei = [name for name, site in facts.sites.items() if site.nucleus]
    pandaids = count(FIRST_PANDAID)
    active: list[Row] = []
    defined: list[Row] = []
    for crowd in _crowds(facts):
        drawn = rng.choice(len(shares), size=crowd.jobs, p=weights / weights.sum())
        nucleus = rng.integers(len(nuclei), size=crowd.jobs)
        age_h = rng.uniform(0.2, 20, size=crowd.jobs)
        table = defined if crowd.status in DEFINED_STATUSES else active
        for share, home, hours in zip(drawn, nucleus, age_h, strict=True):
            place = (next(pandaids), shares[share], nuclei[home])
            table.append(_job_row(facts, clock, crowd, place, float(hours)))
    return active, defined


def running_jobs(facts: DemoFacts) -> dict[str, int]:
    """Number of running jobs at each queue that takes jobs, before the first cycle."""
    return {
        name: min(MOST_RUNNING_JOBS, max(2, queue.slots // SLOTS_A_RUNNING_JOB))
        for name, queue in facts.queues.items()
        if queue.status in RUNNING_STATUSES
    }


def _crowds(facts: DemoFacts) -> list[_Crowd]:
    crowds: list[_Crowd] = []
    for name, running in running_jobs(facts).items():
        queue = facts.queues[name]
        crowds.append(_Crowd(name, "running", running))
        for status, fraction in OTHER_STATUSES.items():
            jobs = round(running * fraction)
            if status == "transferring" and queue.transferring is not None:
                jobs = queue.transferring
            crowds.append(_Crowd(name, status, jobs))
    return crowds


def _job_row(facts: DemoFacts, clock: Clock, crowd: _Crowd, place: tuple[int, str, str], hours: float) -> Row:
    pandaid, share, nucleus = place
    queue = facts.queues[crowd.queue]
    cores = 1 if share in SINGLE_CORE_SHARES and queue.kind != "multi" else queue.cores
    analysis = facts.shares[share].label is not None
    started = crowd.status in ("running", "transferring")
    ram_per_core = min(queue.ram_mb // queue.cores, 2000) if queue.kind != "single" else queue.ram_mb
    return {
        "pandaid": pandaid,
        "jeditaskid": FIRST_OLD_TASK + pandaid % 997,
        "jobdefinitionid": pandaid % 997,
        "vo": VO,
        "cloud": "WORLD",
        "computingsite": crowd.queue,
        "jobstatus": crowd.status,
        "prodsourcelabel": "user" if analysis else "managed",
        "processingtype": PROCESSING_OF_ANALYSIS
        if analysis
        else (facts.shares[share].processing or "simul").split("|")[0],
        "gshare": share,
        "workqueue_id": share_queue_ids(facts)[share],
        "resource_type": resource_type_of(facts, cores, ram_per_core),
        "nucleus": None if analysis else nucleus,
        "currentpriority": 100 + pandaid % 500,
        "corecount": cores,
        "actualcorecount": cores if crowd.status == "running" else None,
        "diskio": queue.running_diskio_kbps_per_core * cores,
        "minramcount": ram_per_core * cores,
        "produsername": _user_of(facts, pandaid) if analysis else "atlasprd",
        "creationtime": clock.ago(hours=hours + 6 if started else hours / 2 + 1),
        "lockedby": "jedi",
        "modificationtime": clock.ago(hours=hours / (40 if crowd.status in HEARD_STATUSES else 2)),
        "starttime": clock.ago(hours=hours) if started else None,
    }


def _user_of(facts: DemoFacts, pandaid: int) -> str:
    """The user of a job: the named users have their percentage of the jobs, forty others the rest."""
    place = pandaid * SCATTER % PERCENT
    for user, percent in facts.users.items():
        if place < percent:
            return user
        place -= percent
    return f"user{pandaid % 40:02d}"


def pilot_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``sitedata``: nodes that requested jobs or reported one in the last three hours."""
    return [
        {
            "site": name,
            "flag": "production",
            "hours": 3,
            "getjob": 0 if queue.pilots == "none" else queue.slots // 40,
            "updatejob": 0 if queue.pilots == "none" else queue.slots // 16,
            "lastmod": clock.ago(minutes=6),
            "laststart": clock.ago(hours=0.2 if queue.pilots == "active" else 5),
        }
        for name, queue in facts.queues.items()
        if queue.pilots != "missing"
    ]


def slot_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``harvester_slots``: cores that a share (NULL: any) may fill; 0 means as many as are starting."""
    rows = [
        _slot_row(clock, name, None if share == "any" else share, slots, -24)
        for name, queue in facts.queues.items()
        for share, slots in queue.harvester_slots.items()
    ]
    return rows + [
        _slot_row(clock, name, None, queue.expired_slots, 2)
        for name, queue in facts.queues.items()
        if queue.expired_slots is not None
    ]


def _slot_row(clock: Clock, queue: str, share: str | None, slots: int, expired_since_h: float) -> Row:
    return {
        "pandaqueuename": queue,
        "gshare": share,
        "resourcetype": None,
        "numslots": slots,
        "modificationtime": clock.ago(hours=3),
        "expirationtime": clock.ago(hours=expired_since_h),
    }


def worker_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``harvester_worker_stats``: batch workers running and submitted at each queue."""
    return [
        {
            "harvester_id": "CERN_central_A" if len(name) % 2 else "CERN_central_B",
            "computingsite": name,
            "resourcetype": "MCORE" if queue.kind != "single" else "SCORE",
            "status": status,
            "n_workers": workers,
            "lastupdate": clock.ago(minutes=8),
            "jobtype": "ANY",
        }
        for name, queue in facts.queues.items()
        for status, workers in _workers(queue).items()
    ]


def _workers(queue: QueueFacts) -> dict[str, int]:
    if queue.status not in RUNNING_STATUSES or queue.pilots == "none":
        return {}
    return {"running": queue.slots // queue.cores, "submitted": queue.slots // queue.cores // 5}
