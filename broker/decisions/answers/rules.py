"""The rules of a brokerage in force, with how often each rejected lately."""

from __future__ import annotations

from collections import Counter

from broker.decisions.answers.rules_in_force import chain_of
from broker.engine.shared.chain import RuleChain
from broker.grid.answers.day_counts import totals_of_the_day
from broker.history.answers.stored_states import ChunkState, chunk_states
from broker.rules.contract import Filter, GroupFilter, Rule
from broker.service.answers.models import RuleInForce, Rules
from broker.store.query_context import Asking

_STATES = "states now"


def rules(asking: Asking, brokerage: str = "production_job") -> Rules:
    """The rules in the order in which they judge.

    Raises:
        UnusableProfile: there is no such brokerage, or the profile is wrong.
    """
    chain = chain_of(brokerage, asking.config)
    rejected: Counter[str] = Counter()
    for one in totals_of_the_day(asking).get(brokerage, ()):
        rejected[one.code] += one.decisions
    states = states_now(asking)
    decides = Counter(one.main_code for one in states if one.brokerage == brokerage and one.outcome != "brokered")
    lines = [
        _line(chain, position, rule, rejected[rule.code], decides[rule.code])
        for position, rule in enumerate(chain, start=1)
    ]
    return Rules(now=asking.now, brokerage=brokerage, rules=tuple(lines))


def states_now(asking: Asking) -> list[ChunkState]:
    """The states of all chunks, read once for all brokerages."""
    if _STATES not in asking.kept:
        asking.kept[_STATES] = chunk_states(asking.connection, asking.now)
    found: list[ChunkState] = asking.kept[_STATES]
    return found


def _line(chain: RuleChain, position: int, rule: Rule, rejected: int, decides: int) -> RuleInForce:
    judges = isinstance(rule, Filter | GroupFilter)
    return RuleInForce(
        position=position,
        rule=rule.name,
        code=rule.code,
        list=chain.takes(rule) or "",
        kind=getattr(rule, "kind", None) if judges else None,
        on_missing_data=rule.unknown_policy if judges else None,
        title=rule.title,
        keys=rule.keys,
        sources=rule.sources,
        provenance=rule.provenance,
        rejections_24h=rejected,
        decides_24h=decides,
    )
