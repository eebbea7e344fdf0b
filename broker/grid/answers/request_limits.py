"""The limits of a queue against what the chunks of the last day ask for."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.registry import brokerage as brokerage_of
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.decisions.answers.stored_chunks import Group, groups_of
from broker.domain.decisions import Observation
from broker.grid.answers.models import RequestLimit
from broker.history.answers.stored_states import ChunkState
from broker.rules.contract import Filter
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import Asking, Evaluation, Proceed

#: So many chunks, the newest of each brokerage, stand for all.
MOST_CHUNKS = 30
Seen = tuple[str, Observation]


def request_limits(
    asking: Asking, snapshot: Snapshot, queue: str, states: Sequence[ChunkState]
) -> Evaluation[tuple[RequestLimit, ...]]:
    """Each limit of the pseudo-queues of a queue, with how many chunks ask for more (or for less than the least).

    The chunks are read here; what is returned evaluates them.
    """
    names = [str(one) for one in snapshot.queues.name[snapshot.queues.unified_name == queue]]
    groups: list[Group] = []
    for brokerage in sorted({state.brokerage for state in states}):
        kind = brokerage_of(brokerage)
        if isinstance(kind, JobBrokerage):
            newest = sorted((one for one in states if one.brokerage == brokerage), key=lambda one: -one.decision)
            rules = rules_in_force(brokerage, asking.config)
            decisions = [state.decision for state in newest[:MOST_CHUNKS]]
            groups += groups_of(asking, kind, rules, decisions)
    return lambda proceed: _limits(groups, names, proceed)


def _limits(groups: Sequence[Group], names: Sequence[str], proceed: Proceed) -> tuple[RequestLimit, ...]:
    found: defaultdict[tuple[str, str], list[Observation]] = defaultdict(list)
    for group in groups:
        for name, seen in _seen(group, names, proceed):
            found[name, seen.key].append(seen)
    return tuple(_line(name, key, seen) for (name, key), seen in sorted(found.items()))


def _seen(group: Group, names: Sequence[str], proceed: Proceed) -> Iterator[Seen]:
    """What the rules on limits of queues see of each chunk at pseudo-queues with the cores that the chunk asks for."""
    cycle = group.cycle(group.snapshot)
    queues = group.snapshot.queues
    rules = [rule for rule in cycle.chain.filters if isinstance(rule, Filter) and rule.reason.limit]
    for result in cycle.results():
        proceed()
        asked = np.nan_to_num(cycle.work.chunks.corecount[result.row])
        for position in np.flatnonzero(np.isin(queues.name, names)).tolist():
            if (asked > 1) != (queues.cores[position] > 1):
                continue
            at = np.array([position])
            for rule, pairs in zip(rules, cycle.pairs_for(result, rules, at), strict=True):
                seen = rule.observe(pairs)
                if seen.key == rule.reason.limit and _is_number(seen.value) and _is_number(seen.limit):
                    yield str(queues.name[position]), seen


def _line(name: str, key: str, seen: Sequence[Observation]) -> RequestLimit:
    values = [float(one.value or 0) for one in seen]
    limit = float(seen[0].limit or 0)
    beyond = sum(not _holds(float(one.value or 0), one.operator, float(one.limit or 0)) for one in seen)
    return RequestLimit(
        field=key,
        pseudo_queue=name,
        limit=limit,
        unit=seen[0].unit,
        chunks=len(seen),
        chunks_beyond=beyond,
        median=statistics.median(values),
        largest=max(values),
    )


def _holds(value: float, operator: str, limit: float) -> bool:
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}.get(operator, True)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
