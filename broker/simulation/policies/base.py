"""What a policy is, and how it is found by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

import numpy as np

from broker.domain.arrays import Bools
from broker.errors import did_you_mean
from broker.simulation.errors import SimulationError, UnknownPolicyError
from broker.simulation.information import GridView
from broker.simulation.job_states import TaskState
from broker.simulation.scenario import Scenario, Task, fits
from broker.simulation.streams import stream

GROUP = "broker.policies"


@dataclass(frozen=True, slots=True)
class Assignment:
    """Jobs of a task that go to a queue."""

    task: int
    queue: int
    jobs: int


class Policy(Protocol):
    """Decides where jobs go. One object serves one simulation."""

    name: str

    def choose_nucleus(self, view: GridView, task: Task) -> int:
        """The site that collects the output of a task that arrives; -1: output stays where it is made."""
        ...

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Jobs for queues: what is not assigned waits. ``cycle`` counts the cycles that were not empty."""
        ...

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the waiting jobs that are taken back from their queues."""
        ...


class WaitingJobs(Protocol):
    """The jobs that wait at queues, as columns."""

    @property
    def since_s(self) -> Sequence[float]: ...  # noqa: D102
    @property
    def queue(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def priority(self) -> Sequence[float]: ...  # noqa: D102
    @property
    def analysis(self) -> Sequence[bool]: ...  # noqa: D102


Factory = Callable[[Scenario, int], Policy]


def find_policy(name: str) -> Factory:
    """What makes the policy of this name.

    Raises:
        UnknownPolicyError: there is none.
        SimulationError: two packages offer one of this name.
    """
    found = entry_points(group=GROUP)
    names = sorted({entry.name for entry in found})
    matching = [entry for entry in found if entry.name == name]
    if not matching:
        remedy = did_you_mean(name, names, f"known are {', '.join(names)}")
        raise UnknownPolicyError(f"no policy is called {name}", f"entry points {GROUP}", remedy)
    if len({entry.value for entry in matching}) > 1:
        raise SimulationError(
            f"two policies are called {name}", f"entry points {GROUP}", "uninstall one of the packages"
        )
    factory: Factory = matching[0].load()
    return factory


class FittingQueues:
    """Which queues a job of a task fits, by what is published of them."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._fits = {
            name: np.array([fits(queue, kind) for queue in scenario.queues], dtype=np.bool_)
            for name, kind in scenario.kinds.items()
        }

    def feasible(self, view: GridView, state: TaskState) -> Bools:
        """(U,) online, large enough, and not one that jobs of the task were lately taken back from."""
        mask = self._fits[state.kind.name] & view.online
        mask[[queue for queue, at in state.left.items() if view.now_s - at < 6 * 3600.0]] = False
        return mask


def nucleus_by_space(scenario: Scenario, seed: int, view: GridView, task: Task) -> int:
    """A nucleus drawn by free space; the output of analysis stays where it is made."""
    if scenario.kinds[task.kind].analysis:
        return -1
    weights = np.array(
        [free if site.is_nucleus else 0.0 for site, free in zip(scenario.sites, view.free_bytes, strict=True)]
    )
    nuclei = np.array([site.is_nucleus for site in scenario.sites], dtype=np.float64)
    weights = np.maximum(weights, 0.0) if weights.max() > 0 else nuclei
    return int(stream(seed, task.number, "nucleus").choice(len(weights), p=weights / weights.sum()))
