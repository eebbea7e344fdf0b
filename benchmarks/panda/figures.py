"""What rounds of both sides come to: medians and ratios, once it is sure that both did the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Round:
    """All work of a brokerage by PanDA's broker, once.

    Attributes:
        chunks: chunks, or tasks, that were asked for.
        brokered: those with a place.
        failed: those where the broker ended with an exception.
        broker_s: CPU seconds of the brokers' Python, with what they log.
        answers_s: CPU seconds of reading the answers of other processes, beside those.
        missed: questions that memory could not answer.
    """

    chunks: int
    brokered: int
    failed: int
    broker_s: float
    answers_s: float
    missed: int


@dataclass(frozen=True)
class Cycle:
    """One cycle of ours over all work.

    Attributes:
        chunks: chunks, or tasks.
        brokered: those with a place.
        jobs: that were cut; 0 for tasks.
        cpu_s: constructor, decisions with reasons in order, draws, jobs, and packing.
    """

    chunks: int
    brokered: int
    jobs: int
    cpu_s: float


def check(theirs: Sequence[Round], ours: Sequence[Cycle], rejections: int) -> None:
    """Refuse figures of rounds in which one side did not decide.

    Args:
        theirs: all timed rounds of PanDA's.
        ours: all timed rounds of ours.
        rejections: lines of PanDA's log in which a place is left out.

    Raises:
        RuntimeError: it says what was not done.
    """
    chunks = {one.chunks for one in theirs} | {one.chunks for one in ours}
    if len(chunks) != 1:
        raise RuntimeError(f"both sides must decide the same chunks, and decided {sorted(chunks)}")
    if chunks == {0}:
        raise RuntimeError("the grid has no work for this brokerage: name the others with --brokerage")
    for one in theirs:
        if one.missed:
            raise RuntimeError(f"{one.missed} of PanDA's questions went to the database in a timed round")
    least = min(*(one.brokered for one in theirs), *(one.brokered for one in ours))
    if 2 * least < theirs[0].chunks:
        raise RuntimeError(f"one side brokered {least} of {theirs[0].chunks} only: most must find a place")
    if rejections < theirs[0].chunks:
        raise RuntimeError(f"PanDA logged {rejections} rejections for {theirs[0].chunks} chunks: it did not judge")


def row(theirs: Sequence[Round], plain: Sequence[Cycle], compiled: Sequence[Cycle]) -> dict[str, Any]:
    """Milliseconds a chunk, medians of the rounds, and how often ours go into PanDA's.

    Args:
        theirs: timed rounds of PanDA's with one kind of log.
        plain: rounds of ours without the compiled loop.
        compiled: rounds of ours with it.
    """
    chunks = theirs[0].chunks
    panda_ms = _ms([one.broker_s for one in theirs], chunks)
    plain_ms, compiled_ms = (_ms([one.cpu_s for one in some], chunks) for some in (plain, compiled))
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
        "answers_ms": _ms([one.answers_s for one in theirs], chunks),
    }


def _ms(seconds: Sequence[float], chunks: int) -> float:
    return median(seconds) / chunks * 1e3
