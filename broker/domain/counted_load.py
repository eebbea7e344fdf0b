"""The load that a job brokerage had counted before a chunk, stored with its decision so that it can be decided alone.

- :class:`CountedLoad`: jobs that the cycle itself had assigned, by unified queue.
- :class:`ChunkPlan`: the chunk's part of the plan that a cycle makes for all chunks together (``flow``).

With both, a decision can be explained and replayed without the other chunks of its cycle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints

#: First words of notes of a decision that hold a chunk's part of a plan: the figures of a queue, the jobs left over,
#: and why each chunk was placed by itself.
PLAN, PLAN_LEFT, PLAN_FALLBACK = "flow", "flow_left", "flow_fallback"
#: Figures kept for each feasible queue: HS06 h by which one more job is dearer there than the best use, and its jobs.
PLAN_FIGURES = ("dearer_hs06h", "jobs")


@dataclass(frozen=True)
class ChunkPlan:
    """The part of a plan that concerns one chunk: its feasible queues by name, with jobs and costs.

    Attributes:
        queues: (P,) names of pseudo-queues.
        jobs: (P,) jobs that each queue gets.
        dearer_hs06h: (P,) HS06 h by which one more job there is dearer than its best use.
        codes: (P,) why the queue gets no more; empty for one that gets jobs.
        left: jobs that no queue gets in this cycle.
        solver: name and version of the solver of the program.
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
        fallback = (f"{PLAN_FALLBACK}:{self.fallback}",) if self.fallback else ()
        return (*fallback, f"{PLAN_LEFT}:{self.left}") if self.left else fallback

    def figures(self, place_of: Mapping[str, int]) -> tuple[Ints, Floats]:
        """Positions (P,) of the queues, and their figures (2, P) in the order of PLAN_FIGURES."""
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
            ValueError: the value is of another form.
            TypeError: the value is of another form.
            KeyError: the value is of another form.
            AttributeError: the value is of another form.
        """
        rows = [
            (str(name), int(jobs), float(dearer), str(code)) for name, (jobs, dearer, code) in value["queues"].items()
        ]
        queues, jobs, dearer, codes = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(queues, jobs, dearer, codes, int(value["left"]), str(value["solver"]), str(value["fallback"]))


#: Suffix of queue names in work of older engines, for each part of the load except that of the share.
_PART_OF_SUFFIX = {"\tuser": "of_user", "\ttype": "of_type", "\tusers": "new_users"}


class QueueJobs(Mapping[str, int]):
    """Jobs by queue, for queues that have any, in queue order; computed on access.

    Args:
        names: (U,) names of the queues.
        jobs: (U,) whole numbers.

    Attributes:
        names: (U,) names of all queues, including those without jobs.
    """

    def __init__(self, names: Sequence[str], jobs: Floats) -> None:
        self.names, self._jobs = names, jobs

    @cached_property
    def _counts(self) -> dict[str, int]:
        queues = self._jobs.nonzero()[0]
        names = [self.names[queue] for queue in queues.tolist()]
        return dict(zip(names, self._jobs[queues].astype(int).tolist(), strict=True))

    def stored(self) -> dict[str, int]:
        """The counts as JSON: jobs by queue name."""
        return dict(self._counts)

    def text(self, forms: Sequence[str]) -> str:
        """The JSON text of :meth:`stored`.

        Args:
            forms: (U,) result of :func:`forms_of` for the names.
        """
        queues = self._jobs.nonzero()[0]
        form = ",".join(map(forms.__getitem__, queues.tolist()))
        return f"{{{form % tuple(self._jobs[queues].astype(int).tolist())}}}"

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._jobs))

    def __repr__(self) -> str:
        return repr(self._counts)


@dataclass(frozen=True)
class CountedLoad:
    """Numbers by unified queue; queues without any are absent.

    Attributes:
        of_share: jobs of the chunk's share.
        of_user: analysis: jobs of the chunk's user.
        of_type: analysis: jobs of the chunk's resource type.
        new_users: analysis: users of the share that had no jobs there before.
        plan: the chunk's part of the plan for all chunks of the cycle.
    """

    of_share: Mapping[str, int] = field(default_factory=dict)
    of_user: Mapping[str, int] = field(default_factory=dict)
    of_type: Mapping[str, int] = field(default_factory=dict)
    new_users: Mapping[str, int] = field(default_factory=dict)
    plan: ChunkPlan | None = None

    def __bool__(self) -> bool:
        """Whether anything was counted."""
        return any(getattr(self, part.name) for part in fields(self))

    def parts(self) -> list[tuple[str, Mapping[str, int] | ChunkPlan]]:
        """The non-empty parts with their names, in order."""
        return [(name, part) for name in _PARTS if (part := getattr(self, name))]

    def stored(self) -> dict[str, dict[str, Any]]:
        """The non-empty parts as JSON for storage with a decision."""
        return {name: stored_part(part) for name, part in self.parts()}

    @classmethod
    def of_stored(cls, value: Any) -> CountedLoad:
        """Read the JSON of :meth:`stored`, or the flat names with suffixes that older engines wrote.

        Raises:
            ValueError: the value is of another form.
            TypeError: the value is of another form.
            AttributeError: the value is of another form.
        """
        parts: dict[str, dict[str, int]] = {}
        plan = None
        for name, counts in value.items():
            if name == "plan":
                plan = ChunkPlan.of_stored(counts)
                continue
            if isinstance(counts, dict):
                parts[name] = {str(queue): int(count) for queue, count in counts.items()}
                continue
            queue, tab, suffix = name.partition("\t")
            parts.setdefault(_PART_OF_SUFFIX[tab + suffix] if tab else "of_share", {})[queue] = int(counts)
        return cls(**parts, plan=plan)


_PARTS = tuple(part.name for part in fields(CountedLoad))


def forms_of(names: Sequence[str]) -> list[str]:
    """(U,) for each queue the JSON of its name and a placeholder for a number, filled in with ``%``."""
    return [f"{json.dumps(name)}:".replace("%", "%%") + "%d" for name in names]


def stored_part(part: Mapping[str, int] | ChunkPlan) -> dict[str, Any]:
    """A part of a load as JSON for storage."""
    return part.stored() if isinstance(part, (ChunkPlan, QueueJobs)) else dict(part)
