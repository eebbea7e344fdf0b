"""The brokerages of a profile for each VO of a scenario, one VO after the other, each with its own tuning (ADR 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.brokerages.profile import Profile
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import NOT_YET, TaskState
from broker.simulation.model.policies.base import Assignment, WaitingJobs
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.scenario import Scenario


def by_profile(
    scenario: Scenario, seed: int, values: Mapping[str, object] | None = None, profile: Profile | str = "seed"
) -> Brokered | SeveralVos:
    """The policy of a profile: one set of brokerages for each VO; arguments and errors as of :class:`Brokered`."""
    parts = {vo: Brokered(scenario, seed, values, profile, vo) for vo in scenario.vos}
    return next(iter(parts.values())) if len(parts) == 1 else SeveralVos(parts)


class _OfVo:
    """The waiting jobs at some positions of all waiting jobs, as columns."""

    def __init__(self, waiting: WaitingJobs, places: Sequence[int]) -> None:
        self.since_s = [waiting.since_s[place] for place in places]
        self.queue = [waiting.queue[place] for place in places]
        self.priority = [waiting.priority[place] for place in places]
        self.task = [waiting.task[place] for place in places]


class SeveralVos:
    """The brokerages of several VOs. In a cycle the VO with the highest priority is brokered first.

    Learned knowledge of queues is shared: jobs fail whoever sent them.

    Args:
        parts: brokerages by VO.
    """

    def __init__(self, parts: Mapping[str, Brokered]) -> None:
        self.parts = parts
        first = next(iter(parts.values()))
        self.name = first.name
        for part in parts.values():
            part.keeper.health, part.keeper.capacity = first.keeper.health, first.keeper.capacity

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """Choose the nucleus of each task by the brokerage of its VO, in the order of ``tasks``."""
        nuclei = [NOT_YET] * len(tasks)
        for vo, places in _by_vo(tasks):
            nuclei_of_vo = self.parts[vo].choose_nuclei(view, [tasks[place] for place in places], cycle)
            for place, nucleus in zip(places, nuclei_of_vo, strict=True):
                nuclei[place] = nucleus
        return nuclei

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """Assign the jobs of each VO's tasks by its own brokerage, one VO after the other."""
        cycles = [(self.parts[vo], [tasks[place] for place in places]) for vo, places in _by_vo(tasks)]
        return [one for part, own in cycles for one in part.assign(view, own, cycle)]

    def retry_s(self, task: TaskState) -> float:
        """Seconds until the brokerage of the task's VO considers it again."""
        return self.parts[task.task.vo].retry_s(task)

    def retry_nucleus_s(self) -> float:
        """Seconds until a task without a nucleus is brokered again, by the first VO's brokerage."""
        return next(iter(self.parts.values())).retry_nucleus_s()

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the waiting jobs that the brokerage of their VO takes back."""
        return self._of_each(waiting, lambda part, own: part.overdue(view, own))

    @property
    def runs_read(self) -> int | None:
        """Number of the first run that the first VO's brokerage has yet to read; None if it learns from none."""
        return next(iter(self.parts.values())).runs_read

    @property
    def takes_back(self) -> bool:
        """Whether any brokerage takes jobs back from queues where jobs fail."""
        return any(part.takes_back for part in self.parts.values())

    def failing(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the jobs that wait at queues where jobs of their kind or task fail."""
        return self._of_each(waiting, lambda part, own: part.failing(view, own))

    def _of_each(self, waiting: WaitingJobs, decide: Callable[[Brokered, WaitingJobs], Sequence[int]]) -> list[int]:
        """Positions of the jobs to take back, each VO by its own tuning."""
        positions = []
        for vo, places in _by_vo(waiting.task):
            positions += [places[place] for place in decide(self.parts[vo], _OfVo(waiting, places))]
        return sorted(positions)


def _by_vo(tasks: Sequence[TaskState]) -> list[tuple[str, list[int]]]:
    """Positions of the tasks of each VO, in their order; the VO with the highest priority first."""
    places: dict[str, list[int]] = {}
    for place, state in enumerate(tasks):
        places.setdefault(state.task.vo, []).append(place)
    return sorted(places.items(), key=lambda one: -max(tasks[place].task.priority for place in one[1]))
