"""The demonstration grid as one scenario: every table the job brokerage reads, with work for it to do."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.dataset_rows import DatasetTables
from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.load_rows import job_rows, pilot_rows, slot_rows, worker_rows
from broker.simulation.model.demo.policy_rows import (
    config_rows,
    link_rows,
    resource_type_rows,
    share_rows,
    work_queue_rows,
)
from broker.simulation.model.demo.queue_rows import gpu_rows, panda_site_rows, schedconfig_rows, software_rows
from broker.simulation.model.demo.storage_rows import endpoint_rows, relation_rows, site_rows
from broker.simulation.model.demo.task_rows import task_parameter_rows, task_rows


def build_scenario(facts: DemoFacts, now: datetime, seed: int, quick: bool = False) -> dict[str, object]:
    """Build the demonstration scenario.

    Args:
        facts: the grid and its tasks.
        now: the scenario's instant, aware; every time in the tables is relative to it.
        seed: decides everything that is drawn; the same arguments give the same scenario.
        quick: a tenth of the jobs, for a check that takes seconds.

    Returns:
        The scenario object ``{"now": ..., "tables": {name: rows}}`` as ``broker db load`` takes it.

    Raises:
        ValueError: ``now`` has no time zone.
    """
    clock = Clock(now)
    return {"now": clock.now, "tables": _grid_tables(facts, clock, seed) | _work_tables(facts, clock, seed, quick)}


def _grid_tables(facts: DemoFacts, clock: Clock, seed: int) -> dict[str, list[Row]]:
    active, defined = job_rows(facts, clock, np.random.default_rng([seed, 1]))
    return {
        "site": site_rows(facts),
        "panda_site": panda_site_rows(facts),
        "schedconfig_json": schedconfig_rows(facts, clock),
        "ddm_endpoint": endpoint_rows(facts, clock),
        "panda_ddm_relation": relation_rows(facts),
        "network_matrix_kv": link_rows(facts, clock),
        "sitedata": pilot_rows(facts, clock),
        "harvester_slots": slot_rows(facts, clock),
        "harvester_worker_stats": worker_rows(facts, clock),
        "config": config_rows(facts),
        "global_shares": share_rows(facts),
        "resource_types": resource_type_rows(facts),
        "jedi_work_queue": work_queue_rows(facts),
        "sw_tags": software_rows(facts, clock),
        "mv_worker_node_gpu_summary": gpu_rows(facts),
        "jobsactive4": active,
        "jobsdefined4": defined,
    }


def _work_tables(facts: DemoFacts, clock: Clock, seed: int, quick: bool) -> dict[str, list[Row]]:
    tables = DatasetTables(facts, clock, np.random.default_rng([seed, 2]), quick)
    for index, task in enumerate(facts.tasks):
        tables.add_task(index, task)
    return {
        "jedi_tasks": task_rows(facts, clock),
        "jedi_taskparams": task_parameter_rows(facts),
        "jedi_datasets": tables.datasets,
        "jedi_dataset_contents": tables.files,
        "dataset_replicas": tables.replicas,
        "dataset_metadata": tables.metadata,
    }
