"""A placement that decides all chunks of a cycle together, and what is shared by its chunks when they are cut."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from broker.domain.counted_load import ChunkPlan
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.placement import Placement
from broker.work.assemble import CycleWork


class JointPlacement(Placement, ABC):
    """A placement that plans the jobs of all chunks of a cycle before any of them is cut.

    A distribution offers it as an entry point of the group ``broker.steps``. The name of the entry point is also its
    ``by``, and the only value of its option ``by``. Its ``gives`` are the reasons of queues that get no job of a chunk;
    ``left_over`` is the code of one of them.
    """

    together = True

    @property
    def chosen(self) -> dict[str, Any]:
        """Its name, since a profile has to choose it, and the options that differ from their defaults."""
        return {self.named_by: self.by, **super().chosen}

    @abstractmethod
    def plans(
        self, cycle: JobCycle, results: Sequence[ChunkResult], work: CycleWork, seed: int, fallback: str | None
    ) -> list[ChunkPlan]:
        """The plan of each chunk; its ``codes`` are those of ``gives``.

        Args:
            cycle: over the work, in which every chunk meets the grid of the snapshot.
            results: of its chunks, in order.
            work: the chunks with their files.
            seed: of the rounding.
            fallback: what the cycle fell back to when it was first decided, so that it does so again; None: it is
                decided for the first time, within its time limit.
        """


def placement_fault(name: str, placement: Placement) -> str:
    """What a placement that is offered under a name lacks, and what to do about it; empty if it lacks nothing."""
    if not isinstance(placement, JointPlacement) or not placement.together:
        return "it does not place chunks together; derive it from JointPlacement and leave together True"
    if placement.by != name:
        return f'its by is "{placement.by}"; set it to the name of the entry point, by = "{name}"'
    if getattr(placement.options, placement.named_by, None) != name or not _takes(placement, name):
        return f'its options do not take {name}; declare by: Literal["{name}"] = "{name}" in them'
    if placement.left_over not in placement.codes:
        codes = ", ".join(placement.codes) or "none"
        return f'left_over is "{placement.left_over}"; set it to a code of its reasons in gives ({codes})'
    return ""


def _takes(placement: Placement, name: str) -> bool:
    try:
        placement.configured({placement.named_by: name})
    except ValidationError:
        return False
    return True
