"""The decided tasks of a cycle as columns, for comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.brokerages.replayed_columns import ReplayedColumns
from broker.domain.arrays import texts
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.decision import DecidedBlock


def columns_of(cycle: TaskCycle, blocks: Sequence[DecidedBlock]) -> ReplayedColumns:
    """The tasks of all blocks of a cycle; there is one block at least."""
    outcomes = [one for block in blocks for one in block.outcomes]
    return ReplayedColumns(
        names=cycle.snapshot.nuclei.name,
        outcome=texts(outcome for outcome, _ in outcomes),
        reason=texts(reason for _, reason in outcomes),
        chosen=np.concatenate([block.chosen for block in blocks]),
        jobs=np.concatenate([block.tasks_at for block in blocks]),
        position=np.concatenate([block.position for block in blocks]),
        codes=cycle.legend.codes,
        cycle=cycle,
    )
