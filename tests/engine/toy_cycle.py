"""A cycle over the small grid with toy rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.domain.work import Work
from broker.engine.job.chunk_result import ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig.tuning import Tuning
from broker.snapshot.raw import SourceState
from tests.engine.small_work import Dataset, work_of
from tests.snapshot.raw_grid import build, small_grid

#: Candidates of the small grid; S_TEST is a candidate only if it is named.
CANDIDATES = ["N_PLAIN", "N_UCORE/MCORE", "N_UCORE/SCORE", "S_PLAIN", "S_TEST"]


def work(count: int = 1, datasets: Sequence[Dataset] = (), **columns: Any) -> Work:
    """Chunks with nucleus NUC."""
    return work_of(*([list(datasets)] * count), chunks={"nucleus": "NUC", **columns})


def cycle(
    chunks: Work | None = None,
    filters: Sequence[Any] = (),
    weights: Sequence[Any] = (),
    load_weights: Sequence[Any] = (),
    cuts: Sequence[Any] = (),
    *,
    grid: Mapping[str, Any] | None = None,
    states: tuple[SourceState, ...] = (),
    independent: bool = False,
    tuning: Mapping[str, Any] | None = None,
) -> JobCycle:
    """A cycle over the chunks, by default over one chunk without input."""
    snapshot = build(states=states, **(grid or small_grid()))
    chain = QueueChain("toy", tuple(filters), tuple(weights), tuple(load_weights), tuple(cuts))
    values = Tuning.defaults().with_values(dict(tuning or {}))
    return JobCycle(snapshot, chunks or work(), values, chain, independent=independent)


def only(job_cycle: JobCycle) -> ChunkResult:
    """The result of the only chunk."""
    (result,) = job_cycle.results()
    return result


def names(job_cycle: JobCycle, result: ChunkResult) -> list[str]:
    """The chosen candidates."""
    return [str(job_cycle.snapshot.queues.name[position]) for position in result.chosen]
