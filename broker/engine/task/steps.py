"""The steps of a task brokerage that are not rules, each replaceable by a profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Texts, codes_of, texts
from broker.domain.grid import OutputEndpoints
from broker.domain.task_work import AssigningTable, OutputTable
from broker.engine.job.snapshot_reading import SnapshotReading
from broker.rules.contract import Options, Reason, Step


class FullChainOptions(Options):
    """Options: which tasks count as full chains.

    Attributes:
        capable: a ``capable`` task without a parent on a bare nucleus is like any other, or of a full chain.
        parent: a task follows its parent to a bare nucleus, or only a parent that is of a full chain itself.
    """

    capable: Literal["needs_parent", "always"] = "needs_parent"
    parent: Literal["any", "of_full_chain"] = "any"


class FullChains(Step):
    """Which tasks are of a full chain, and which nucleus they are bound to."""

    name = "full_chains"
    title = "Which tasks are of a full chain, and whom they follow"
    options: FullChainOptions = FullChainOptions()


class InputReadingOptions(Options):
    """How the input of tasks is read.

    Attributes:
        staged_need_source: tasks whose input is staged need a complete source elsewhere as well.
        container_source: every dataset of a container needs a complete source, or one of them is enough.
        container_totals: the size of a container is the sum of its datasets, or that of the last one; there a dataset
            without any replica has none.
    """

    staged_need_source: bool = False
    container_source: Literal["each_dataset", "one_dataset"] = "each_dataset"
    container_totals: Literal["sum", "last_dataset"] = "sum"


class InputReading(Step):
    """Which input of tasks counts."""

    name = "input_reading"
    title = "What counts of the input of tasks, and of containers"
    options: InputReadingOptions = InputReadingOptions()


class RemainingWorkOptions(Options):
    """How the work that remains at nuclei is summed.

    Attributes:
        milli_units: CPU time in units of a thousandth is scaled, or taken as it stands.
        without_work_queue: tasks without a work queue count for their share, or not once there is a Resource queue.
    """

    milli_units: Literal["scaled", "as_stored"] = "scaled"
    without_work_queue: Literal["counted", "not_beside_resource_queues"] = "counted"


class RemainingWorkReading(Step):
    """The work that remains at nuclei."""

    name = "remaining_work_reading"
    title = "How the work that remains at nuclei is summed"
    options: RemainingWorkOptions = RemainingWorkOptions()


TaskCause = Literal["no_endpoint", "parent_missing"]


class TaskVetoOptions(Options):
    """Which cases keep a task from being assigned: none by default.

    Attributes:
        causes: the cases, which are also the reasons that are shown.
    """

    causes: tuple[TaskCause, ...] = ()


class TaskVeto(Step):
    """Tasks that no nucleus may take, where PanDA ends the brokerage of the task with an error."""

    name = "veto"
    title = "What keeps a task from being assigned at all"
    gives = (
        Reason(
            code="no_endpoint",
            title="a nucleus that could take the task has no storage endpoint for one of its datasets",
            who="ask",
            cure="Operators correct the storages of the nucleus in CRIC, or the storage tokens of the task.",
        ),
        Reason(
            code="parent_missing",
            title="the parent of the task, which its full chain follows, or the parent's nucleus is not on record",
            who="ask",
            cure="Operators correct the parent of the task, or submit it without a full chain.",
        ),
    )
    options: TaskVetoOptions = TaskVetoOptions()

    def reasons(
        self,
        tasks: AssigningTable,
        outputs: OutputTable,
        endpoints: OutputEndpoints,
        initial: Bools,
        has_storages: Bools,
        nuclei: Texts,
    ) -> Texts:
        """(T,) the reason for each task, empty for none.

        Args:
            tasks: columns (T,).
            outputs: their output and log datasets.
            endpoints: where those would go.
            initial: (T, N) the nuclei whose endpoints are checked.
            has_storages: (T, N) the nucleus has an endpoint for every dataset.
            nuclei: (N,) the names of all nuclei.
        """
        result = texts([""] * len(tasks))
        if "no_endpoint" in self.options.causes:
            unset = np.zeros(len(tasks), dtype=np.bool_)
            written = endpoints.token >= 0
            no_token = np.array([token is None for token in outputs.storagetoken], dtype=np.bool_)
            unset[outputs.task[written & no_token]] = True
            result[(initial & (~has_storages | unset[:, None])).any(axis=1)] = "no_endpoint"
        if "parent_missing" in self.options.causes:
            named = np.array([name is not None for name in tasks.parent_nucleus], dtype=np.bool_)
            unknown = named & (codes_of(tasks.parent_nucleus, list(nuclei)) < 0) & (tasks.parent_full_chain > 0)
            result[(tasks.parent_missing | unknown) & (tasks.full_chain > 0)] = "parent_missing"
        return result


@dataclass(frozen=True)
class TaskSteps:
    """The steps in the order of execution; each field is named after its step."""

    snapshot_reading: SnapshotReading = field(default_factory=SnapshotReading)
    full_chains: FullChains = field(default_factory=FullChains)
    input_reading: InputReading = field(default_factory=InputReading)
    remaining_work_reading: RemainingWorkReading = field(default_factory=RemainingWorkReading)
    veto: TaskVeto = field(default_factory=TaskVeto)
