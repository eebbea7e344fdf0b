"""Shares, resource types, work queues, tuning and links of the demonstration grid."""

from __future__ import annotations

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.facts import DemoFacts

VO = "atlas"
FIRST_SHARE_QUEUE_ID = 9001
#: Programs of the components whose rows are not JEDI's.
APPS = {"prio_mgr": "pandaserver"}
THROUGHPUT_WINDOWS = ("1h", "1d", "1w")


def share_queue_ids(facts: DemoFacts) -> dict[str, int]:
    """Number of the work queue that stands for each share."""
    return {name: FIRST_SHARE_QUEUE_ID + order for order, name in enumerate(facts.shares)}


def share_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``global_shares``; value is the percentage of the parent."""
    ids = share_queue_ids(facts)
    return [
        {
            "name": name,
            "value": share.percent,
            "parent": share.parent,
            "prodsourcelabel": share.label or ("managed|test" if share.parent else None),
            "workinggroup": share.working_group,
            "campaign": share.campaign,
            "processingtype": share.processing,
            "vo": VO,
            "queue_id": ids[name],
            "throttled": "Y",
        }
        for name, share in facts.shares.items()
    ]


def resource_type_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``resource_types``; RAM in MB per core."""
    return [
        {
            "resource_name": name,
            "mincore": kind.cores[0],
            "maxcore": kind.cores[1],
            "minrampercore": kind.ram_mb_per_core[0],
            "maxrampercore": kind.ram_mb_per_core[1],
        }
        for name, kind in facts.resource_types.items()
    ]


def resource_type_of(facts: DemoFacts, cores: int, ram_mb_per_core: float) -> str:
    """Resource type of a job or task, or ``Undefined``.

    Args:
        facts: the grid.
        cores: cores of the job.
        ram_mb_per_core: expected RAM per core in MB, after the compensation for over-estimates.
    """
    ram = int(ram_mb_per_core)
    for name, kind in facts.resource_types.items():
        bounds = ((cores, kind.cores), (ram, kind.ram_mb_per_core))
        if all((low is None or value >= low) and (high is None or value <= high) for value, (low, high) in bounds):
            return name
    return "Undefined"


def work_queue_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``jedi_work_queue``, one a work queue of the facts, in their order."""
    return [
        {
            "queue_id": queue.id,
            "queue_name": queue.name,
            "queue_type": "managed",
            "vo": VO,
            "queue_order": order,
            "criteria": queue.criteria,
            "variables": queue.variables,
            "stretchable": 1,
            "status": "active",
            "queue_function": queue.function,
        }
        for order, queue in enumerate(facts.work_queues, start=1)
    ]


def config_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``config``: the tuning that the grid starts with."""
    return [
        {
            "app": APPS.get(component, "jedi"),
            "component": component,
            "key": key,
            "vo": VO,
            "value": value,
            "type": kind,
            "descr": "demonstration grid",
        }
        for component, key, kind, value in facts.gdpconfig
    ]


def link_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``network_matrix_kv``: closeness, files queued and throughput in MB/s."""
    rows: list[Row] = []
    for source, destination, closeness, queued, *throughput in facts.links:
        values = {
            "AGIS_closeness": closeness,
            "Production Output_queued": queued,
            "Express_queued": queued // 20,
            **{f"dashb_mbps_{window}": mbps for window, mbps in zip(THROUGHPUT_WINDOWS, throughput, strict=True)},
        }
        rows += [
            {"src": source, "dst": destination, "key": key, "value": value, "ts": clock.ago(minutes=9)}
            for key, value in values.items()
            if value is not None
        ]
    return rows
