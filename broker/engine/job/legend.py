"""The legend of the packed decisions of a job brokerage: its queues and the codes of its chain."""

from __future__ import annotations

from functools import lru_cache

from broker.domain.identity_cache import Kept
from broker.domain.legend import Legend
from broker.domain.queues import QueueTable
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.evaluate import reason_codes
from broker.engine.shared.rank import cut_codes

_texts = Kept[tuple[str, ...]](8)


def job_legend(queues: QueueTable, chain: QueueChain, stats: tuple[str, ...] = (), remark: str = "") -> Legend:
    """The legend of a cycle over these queues.

    Codes are those of the filters, of filters that could not judge, of the cuts and of the steps of the ranking.
    Candidates leave by rules for good first, then by rules for now, then by the rest.
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
