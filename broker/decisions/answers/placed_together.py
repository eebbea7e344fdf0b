"""What became of the feasible queues of a chunk whose cycle placed the jobs of all chunks together."""

from __future__ import annotations

from broker.domain.decisions import Decision
from broker.engine.job.placement import FLOW, FLOW_FIGURES
from broker.store.query_context import Answer

_LEFT, _FALLBACK = "flow_left:", "flow_fallback:"


class FeasibleQueue(Answer):
    """A queue that all filters and cuts left.

    Attributes:
        name: of the pseudo-queue.
        planned: jobs that the program gave it.
        dearer_hs06h: HS06 h by which one job more there is dearer than the best use of it.
        code: what binds where it got none; empty where it got some.
    """

    name: str
    planned: int
    dearer_hs06h: float
    code: str


class PlacedTogether(Answer):
    """How the program of the cycle placed the jobs of a chunk.

    Attributes:
        queues: those that filters and cuts left, the cheapest first.
        left: jobs that got no place.
        fallback: empty, or why each chunk was placed by itself: ``time_limit``.
    """

    queues: tuple[FeasibleQueue, ...]
    left: int
    fallback: str


def is_of_program(note: str) -> bool:
    """Whether a note of a decision is shown by :class:`PlacedTogether`."""
    return note.startswith((f"{FLOW}:", _LEFT, _FALLBACK))


def placed_together(decision: Decision) -> PlacedTogether | None:
    """What the notes of a decision say of it; None where its chunk was decided by itself."""
    left, fallback = 0, ""
    queues = []
    for note in filter(is_of_program, decision.notes):
        if note.startswith(_LEFT):
            left = int(note.removeprefix(_LEFT))
        elif note.startswith(_FALLBACK):
            fallback = note.removeprefix(_FALLBACK)
        else:
            queues.append(_queue(note.removeprefix(f"{FLOW}:"), decision))
    if not queues:
        return None
    queues.sort(key=lambda one: (not one.planned, one.dearer_hs06h, -one.planned, one.name))
    return PlacedTogether(queues=tuple(queues), left=left, fallback=fallback)


def _queue(text: str, decision: Decision) -> FeasibleQueue:
    name, *figures = text.rsplit(" ", len(FLOW_FIGURES))
    values = dict(figure.split("=", 1) for figure in figures)
    code = decision.rejected.get(name, "")
    return FeasibleQueue(name=name, planned=int(values["jobs"]), dearer_hs06h=float(values["dearer_hs06h"]), code=code)
