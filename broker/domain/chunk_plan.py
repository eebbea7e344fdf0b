"""A chunk's part of the plan that a cycle makes for all chunks together, as stored with its decision.

With it a decision is explained and made again without the other chunks of its cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints


@dataclass(frozen=True)
class ChunkPlan:
    """The part of a plan that concerns one chunk: its feasible queues by name, with jobs and costs.

    Attributes:
        queues: (P,) names of pseudo-queues.
        jobs: (P,) that each gets.
        dearer_hs06h: (P,) HS06 h by which one job more there is dearer than the best use of it.
        codes: (P,) why it gets no more, empty for one that gets jobs.
        left: jobs that no queue gets in this cycle.
        solver: name and version of what solved the program.
        fallback: empty, or why each chunk was placed by itself: ``time_limit``.
    """

    queues: tuple[str, ...]
    jobs: tuple[int, ...]
    dearer_hs06h: tuple[float, ...]
    codes: tuple[str, ...]
    left: int
    solver: str
    fallback: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes of the decision, as codes."""
        fallback = (f"flow_fallback:{self.fallback}",) if self.fallback else ()
        return (*fallback, f"flow_left:{self.left}") if self.left else fallback

    def figures(self, place_of: Mapping[str, int]) -> tuple[Ints, Floats]:
        """Positions (P,) of the queues, and their figures (2, P): HS06 h dearer, and jobs."""
        place = np.array([place_of[name] for name in self.queues], dtype=np.int64)
        return place, np.array([self.dearer_hs06h, self.jobs], dtype=np.float64).reshape(2, -1)

    def stored(self) -> dict[str, Any]:
        """The plan as JSON."""
        rows = zip(self.queues, self.jobs, self.dearer_hs06h, self.codes, strict=True)
        return {
            "queues": {name: [jobs, dearer, code] for name, jobs, dearer, code in rows},
            "left": self.left,
            "solver": self.solver,
            "fallback": self.fallback,
        }

    @classmethod
    def of_stored(cls, value: Any) -> ChunkPlan:
        """Read the JSON of :meth:`stored`.

        Raises:
            ValueError: it is nothing of the kind.
            TypeError: it is nothing of the kind.
            KeyError: it is nothing of the kind.
            AttributeError: it is nothing of the kind.
        """
        rows = [
            (str(name), int(jobs), float(dearer), str(code)) for name, (jobs, dearer, code) in value["queues"].items()
        ]
        queues, jobs, dearer, codes = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(queues, jobs, dearer, codes, int(value["left"]), str(value["solver"]), str(value["fallback"]))
