"""Results of a job brokerage cycle: for a block of chunks at once, and for each chunk.

The legend of the packed decisions (queue names, and codes of the chain) is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np

from broker.domain.arrays import Floats, IdentityCache, Ints, RowsByKind
from broker.domain.chosen_candidates import Legend
from broker.domain.counted_load import ChunkPlan
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.evaluate import reason_codes
from broker.engine.shared.filter_cache import Evaluation
from broker.engine.shared.fixed_factors import Factor, factor_at, factor_of_block
from broker.engine.shared.rank import BlockRanking, Ranking, cut_codes
from broker.rules.contract import Load


@dataclass(frozen=True)
class Block:
    """Facts, evaluation and fixed factors of the chunks ``rows``."""

    rows: slice
    facts: JobFacts
    evaluation: Evaluation
    factors: tuple[Factor, ...]
    factors_first: bool  # whether the factors are multiplied with each other before the moving weights
    counts: RowsByKind  # (status, T, Q) jobs of the chunk's accounting key, by COUNTED_STATUSES
    rank: Callable[[Block], BlockRanking]

    @cached_property
    def ranking(self) -> BlockRanking:
        """The ranking of its chunks with the snapshot's job counts, computed on first access."""
        return self.rank(self)

    def fixed(self) -> tuple[Floats, ...]:
        """(T, Q) each: factors that multiply the moving weights, in this order."""
        shape = self.evaluation.feasible.shape
        return self._multiplied([factor_of_block(factor, shape) for factor in self.factors], shape)

    def fixed_at(self, row: int, candidates: Ints) -> tuple[Floats, ...]:
        """(K,) each: the same for one row of the block at some candidates."""
        factors = [factor_at(factor, row, candidates) for factor in self.factors]
        return self._multiplied(factors, candidates.shape)

    def _multiplied(self, factors: Sequence[Floats], shape: tuple[int, ...]) -> tuple[Floats, ...]:
        return (reduce(np.multiply, factors, np.ones(shape)),) if self.factors_first else tuple(factors)

    @property
    def is_ranked(self) -> bool:
        """Whether the ranking was computed."""
        return "ranking" in vars(self)


@dataclass(frozen=True)
class ChunkResult:
    """The outcome for one chunk.

    ``reason`` says why it has no candidates, and is empty if it has any. ``plan`` is its part of the decision for all
    chunks together, None where each is decided by itself. ``ranked_alone`` is its own ranking where jobs that the cycle
    placed made it differ from that of the block, and ``load`` the jobs at ``feasible`` used for it.
    """

    row: int
    block: Block
    reason: str
    blocked: bool = False  # the chunk cannot be brokered, whatever the queues are
    ranked_alone: Ranking | None = None
    load: Load | None = None
    plan: ChunkPlan | None = None

    @cached_property
    def feasible(self) -> Ints:
        """Positions of the candidates that passed the filters, none for a chunk that is blocked."""
        feasible: Ints = self.block.evaluation.feasible[self.row - self.block.rows.start].nonzero()[0]
        return feasible[:0] if self.blocked else feasible

    @cached_property
    def ranking(self) -> Ranking | None:
        """The ranking over ``feasible``; None if there is nothing to rank."""
        if not len(self.feasible):
            return None
        return self.ranked_alone or self.block.ranking.of(self.row - self.block.rows.start, self.feasible)

    @property
    def chosen(self) -> Ints:
        """Positions of the candidates in the snapshot's queue table, best first."""
        return self.feasible[self.ranking.chosen] if self.ranking is not None else self.feasible[:0]


_texts = IdentityCache[tuple[str, ...]](8)


def job_legend(queues: QueueTable, chain: QueueChain, stats: tuple[str, ...] = (), remark: str = "") -> Legend:
    """The legend of a cycle over these queues.

    Its codes are those of the filters, of filters that could not judge, of the cuts and of the steps of the ranking.
    Candidates leave by persistent rules first, then by temporary ones, then by the rest.
    """
    codes, order, departure, factors = _steps(chain)
    return Legend(
        names=_texts.of((queues.name,), lambda: tuple(map(str, queues.name.tolist()))),
        groups=_texts.of((queues.unified_name,), lambda: tuple(map(str, queues.unified_name.tolist()))),
        codes=codes,
        order=order,
        departure=departure,
        factors=factors,
        stats=stats,
        remark=remark,
    )


@lru_cache(maxsize=16)
def _steps(chain: QueueChain) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    count = len(chain.filters)
    codes = reason_codes(chain.filters) + cut_codes(chain.cuts) + chain.steps.placement.codes
    order = [step for index in range(count) for step in (index, index + count)]
    temporary = [rule.kind == "temporary" for rule in chain.filters]
    judged = [(index % count) + count * temporary[index % count] for index in range(2 * count)]
    rest = range(2 * count, len(codes))
    factors = tuple(rule.code for rule in (*chain.load_weights, *chain.weights))
    return codes, (*order, *rest), (*judged, *rest), factors
