"""The interface of a policy, and the lookup of policies by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Protocol

import numpy as np

from broker.domain.arrays import Bools
from broker.errors import did_you_mean
from broker.resources import entry_points
from broker.simulation.model.errors import SimulationError, UnknownPolicyError
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.scenario import Scenario, Task, fits
from broker.simulation.model.streams import stream

#: The entry point group of policies provided by other distributions.
GROUP = "broker.policies"
SHIPPED = {
    "random": "broker.simulation.model.policies.simple:RandomPolicy",
    "least_loaded": "broker.simulation.model.policies.simple:LeastLoaded",
    "least_loaded_local": "broker.simulation.model.policies.simple:LeastLoadedLocal",
    "shortest_queue": "broker.simulation.model.policies.simple:ShortestQueue",
    "shortest_delay": "broker.simulation.model.policies.simple:ShortestDelay",
    "clairvoyant": "broker.simulation.model.policies.clairvoyant:Clairvoyant",
    "data_first": "broker.simulation.model.policies.simple:DataFirst",
}
#: The factory of policies with a profile; each of these shipped profiles is a policy of its name.
BY_PROFILE = "broker.simulation.model.real.several_vos:by_profile"
PROFILES = ("seed", "panda", "flow", "demo")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Jobs of a task that go to a queue."""

    task: int
    queue: int
    jobs: int


class Policy(Protocol):
    """Decides where jobs go. One object serves one simulation."""

    name: str

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """The site that collects the output of each production task; NOT_YET to decide again later."""
        ...

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Assign jobs to queues; unassigned jobs wait. ``cycle`` is the number of the cycle."""
        ...

    def retry_s(self, task: TaskState) -> float:
        """Seconds after which a task of the last cycle is brokered again, if it has unassigned jobs then."""
        ...

    def retry_nucleus_s(self) -> float:
        """Seconds after which a task that found no nucleus is brokered again."""
        ...

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the waiting jobs to take back from their queues."""
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
    def task(self) -> Sequence[TaskState]: ...  # noqa: D102


Factory = Callable[[Scenario, int], Policy]


def offered() -> list[EntryPoint]:
    """The policies of this and of other installed distributions; code of others is not imported yet."""
    own = [EntryPoint(name, value, GROUP) for name, value in SHIPPED.items()]
    own += [EntryPoint(name, BY_PROFILE, GROUP) for name in PROFILES]
    return list({(entry.name, entry.value): entry for entry in (*own, *entry_points(group=GROUP))}.values())


def find_policy(name: str) -> Factory:
    """Find the factory of the policy of this name.

    Raises:
        UnknownPolicyError: there is no such policy.
        SimulationError: two packages provide a policy of this name, or it cannot be loaded.
    """
    entries = offered()
    matching = [entry for entry in entries if entry.name == name]
    if not matching:
        names = sorted({entry.name for entry in entries})
        remedy = f"{did_you_mean(name, names)} known are {', '.join(names)}, and profiles with --profile FILE"
        raise UnknownPolicyError(f"no policy is called {name}", f"entry points {GROUP}", remedy.strip())
    if len(matching) > 1:
        raise SimulationError(
            f"two policies are called {name}", f"entry points {GROUP}", "uninstall one of the packages"
        )
    try:
        factory: Factory = matching[0].load()
    except Exception as error:  # anything that an outside module raises on import is a fault of that distribution
        raise SimulationError(
            f"the policy {name} cannot be loaded: {type(error).__name__}: {error}", matching[0].value,
            "correct the package that offers it",
        ) from error  # fmt: skip
    if matching[0].value == BY_PROFILE:
        return functools.partial(factory, profile=name)  # type: ignore[call-arg]
    return factory


def taking(scenario: Scenario) -> dict[str, Bools]:
    """(U,) whether each queue takes jobs of a VO, by VO."""
    return {vo: np.array([q.takes(vo) for q in scenario.queues], dtype=np.bool_) for vo in scenario.vos}


class FittingQueues:
    """The queues that a job of a task fits, by their published figures."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._fits = {
            name: np.array([fits(queue, kind) for queue in scenario.queues], dtype=np.bool_)
            for name, kind in scenario.kinds.items()
        }
        self._takes = taking(scenario)

    def feasible(self, view: GridView, state: TaskState) -> Bools:
        """(U,) online, large enough, and not a queue that jobs of the task were recently taken back from."""
        mask = self._fits[state.kind.name] & self._takes[state.task.vo] & view.online
        mask[[queue for queue, left_s in state.left.items() if view.now_s - left_s < 6 * 3600.0]] = False
        return mask


def nucleus_by_space(scenario: Scenario, seed: int, view: GridView, task: Task) -> int:
    """Draw a nucleus by free space."""
    weights = np.array(
        [free if site.is_nucleus else 0.0 for site, free in zip(scenario.sites, view.free_bytes, strict=True)]
    )
    nuclei = np.array([site.is_nucleus for site in scenario.sites], dtype=np.float64)
    weights = np.maximum(weights, 0.0) if weights.max() > 0 else nuclei
    return int(stream(seed, task.number, "nucleus").choice(len(weights), p=weights / weights.sum()))
