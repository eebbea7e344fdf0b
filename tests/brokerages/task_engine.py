"""The engine of the task brokerage with given rules."""

from __future__ import annotations

from broker.brokerages.base import Rules
from broker.brokerages.production_task.brokerage import engine_cycle
from broker.domain.task_work import TaskWork
from broker.engine.shared.chain import NucleusChain, QueueChain
from broker.engine.task.cycle import TaskCycle
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot


def task_cycle(
    snapshot: Snapshot,
    work: TaskWork,
    tuning: Tuning,
    nuclei: NucleusChain,
    jobs: QueueChain,
    *,
    independent: bool = False,
) -> TaskCycle:
    rules = Rules(nuclei, {"production_job": jobs})
    return engine_cycle(snapshot, work, tuning, rules, independent=independent)
