"""The figures of the rounds of both sides: medians and ratios, after a check that both did the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Round:
    """One round of PanDA's broker over all work of a brokerage.

    Attributes:
        chunks: chunks, or tasks, that the broker was called for.
        brokered: those that got a place.
        failed: those where the broker raised an exception.
        broker_s: CPU seconds of the brokers' Python, with what they log.
        answers_s: additional CPU seconds of reading the answers of other processes.
        missed: queries that memory could not answer.
    """

    chunks: int
    brokered: int
    failed: int
    broker_s: float
    answers_s: float
    missed: int


@dataclass(frozen=True)
class Cycle:
    """One cycle of our brokerage over all work.

    Attributes:
        chunks: chunks, or tasks.
        brokered: those that got a place.
        jobs: the jobs that were cut; 0 for tasks.
        cpu_s: CPU seconds of constructor, decisions with reasons in order, draws, jobs, and packing.
    """

    chunks: int
    brokered: int
    jobs: int
    cpu_s: float


def check(theirs: Sequence[Round], ours: Sequence[Cycle], rejections: int) -> None:
    """Refuse figures of rounds in which one side did not do the work.

    Args:
        theirs: all timed rounds of PanDA's.
        ours: all timed rounds of ours.
        rejections: lines of PanDA's log in which a place is left out.

    Raises:
        RuntimeError: one side did not do the work; the message says what.
    """
    chunks = {item.chunks for item in theirs} | {item.chunks for item in ours}
    if len(chunks) != 1:
        raise RuntimeError(f"both sides must decide the same chunks, and decided {sorted(chunks)}")
    if chunks == {0}:
        raise RuntimeError("the grid has no work for this brokerage: name the others with --brokerage")
    for item in theirs:
        if item.missed:
            raise RuntimeError(f"{item.missed} of PanDA's questions went to the database in a timed round")
    fewest = min(*(item.brokered for item in theirs), *(item.brokered for item in ours))
    if 2 * fewest < theirs[0].chunks:
        raise RuntimeError(f"one side brokered {fewest} of {theirs[0].chunks} only: most must find a place")
    if rejections < theirs[0].chunks:
        raise RuntimeError(f"PanDA logged {rejections} rejections for {theirs[0].chunks} chunks: it did not judge")


def row(theirs: Sequence[Round], plain: Sequence[Cycle], compiled: Sequence[Cycle]) -> dict[str, Any]:
    """Return milliseconds per chunk as medians of the rounds, and the ratios of PanDA's time to ours.

    Args:
        theirs: timed rounds of PanDA's with one kind of log.
        plain: rounds of ours without the compiled loop.
        compiled: rounds of ours with it.
    """
    chunks = theirs[0].chunks
    panda_ms = _ms([item.broker_s for item in theirs], chunks)
    plain_ms, compiled_ms = (_ms([item.cpu_s for item in cycles], chunks) for cycles in (plain, compiled))
    return {
        "chunks": chunks,
        "panda_brokered": theirs[0].brokered,
        "panda_failed": theirs[0].failed,
        "brokered": plain[0].brokered,
        "jobs": plain[0].jobs,
        "panda_ms": panda_ms,
        "ms": plain_ms,
        "compiled_ms": compiled_ms,
        "times": panda_ms / plain_ms,
        "compiled_times": panda_ms / compiled_ms,
        "answers_ms": _ms([item.answers_s for item in theirs], chunks),
    }


def _ms(seconds: Sequence[float], chunks: int) -> float:
    return median(seconds) / chunks * 1e3
