"""The glossary of reason codes and the rules of the brokerages in force, each with what it rejected lately.

A code comes with its meanings, the rules that give it, who can act, and the commands that say more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from broker.decisions.answers.known_reasons import GivenReason, known_reasons, reasons_of
from broker.decisions.answers.rules_in_force import brokerages_in_force, chain_of
from broker.domain.decisions import Who
from broker.domain.instants import HOUR_S
from broker.engine.shared.chain import RuleChain
from broker.grid.answers.grid import totals_of_the_day
from broker.history.answers.stored_states import looked_at, waiting_codes, waiting_for
from broker.rules.contract import Filter, GroupFilter, Rule
from broker.service.answers.models import RuleInForce, Rules
from broker.store.query_context import NothingFound, QueryContext, ResponseModel
from broker.store.summaries.reason_counts import queue_buckets

_WAITING = "waiting now"


def rules(query: QueryContext, brokerage: str = "production_job") -> Rules:
    """The rules in the order in which they judge.

    Raises:
        UnusableProfile: there is no such brokerage, or the profile is invalid.
    """
    chain = chain_of(brokerage, query.config)
    rejected: Counter[str] = Counter()
    for one in totals_of_the_day(query).get(brokerage, ()):
        rejected[one.code] += one.decisions
    decides: Counter[str | None] = Counter()
    for (name, _, main), number in waiting_now(query).items():
        decides[main] += number if name == brokerage else 0
    lines = [
        _line(chain, position, rule, rejected[rule.code], decides[rule.code])
        for position, rule in enumerate(chain, start=1)
    ]
    return Rules(now=query.now, brokerage=brokerage, rules=tuple(lines))


def waiting_now(query: QueryContext) -> Counter[tuple[str, str, str | None]]:
    """The numbers of waiting chunks by brokerage, reason and main reason, counted once for all brokerages."""
    return query.once(_WAITING, lambda: waiting_codes(query.connection, query.now))


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


_UNKNOWN = "unknown_"


class RuleOfBrokerage(ResponseModel):
    """A rule in the order of one brokerage."""

    brokerage: str
    line: RuleInForce


class GivenCode(ResponseModel):
    """The meaning of a code for one rule or step.

    Attributes:
        brokerages: brokerages that use it; empty for a rule of a package that may be in any.
        givers: names of the rules or steps with this meaning, or of the brokerage itself.
        violation: what is wrong.
        who: who can act: ``you`` (the submitter of the task), ``wait`` (time), ``ask`` (the operators).
        cure: what they can do, in sentences with Markdown's backticks.
        requests: columns of the task that are compared and that a user may lower.
        limit: field of the queue with which they are compared.
    """

    brokerages: tuple[str, ...]
    givers: tuple[str, ...]
    violation: str
    who: Who
    cure: str
    requests: tuple[str, ...]
    limit: str | None


class ReasonCode(ResponseModel):
    """A reason code.

    Attributes:
        code: the code.
        meaning: what holds for candidates kept by a rule with the code, or what a step with it does.
        violation: what is wrong, according to the first giver; null for the code of a weight, which rejects nothing.
        who: who can act: ``you`` (the submitter of the task), ``wait`` (time), ``ask`` (the operators).
        given: meaning of the code for each giver; empty for the code of a weight.
        commands: commands that show more.
        rules: rules that give the code.
        chunks: number of chunks that wait for it now.
        tasks: some of their tasks.
    """

    code: str
    meaning: str
    violation: str | None
    who: Who
    given: tuple[GivenCode, ...]
    commands: tuple[str, ...]
    rules: tuple[RuleOfBrokerage, ...]
    chunks: int
    tasks: tuple[int, ...]


class Glossary(ResponseModel):
    """All reason codes with their meanings."""

    codes: dict[str, str]


class RuleAnswer(ResponseModel):
    """A rule: its places, and what it rejected.

    Attributes:
        rule: name of the rule.
        places: its places in the brokerages.
        by_hour: queues that it rejected, over all decisions, by hour, oldest first.
        only_reason: waiting tasks for which no other rule rejected anything, of the newest 200 that wait for it.
    """

    rule: str
    code: str
    places: tuple[RuleOfBrokerage, ...]
    by_hour: tuple[int, ...]
    only_reason: tuple[int, ...]


def all_rules(query: QueryContext) -> list[RuleOfBrokerage]:
    """The rules of all brokerages of the profile in force, in their order."""
    return [
        RuleOfBrokerage(brokerage=name, line=line)
        for name in sorted(brokerages_in_force(query.config))
        for line in rules(query, name).rules
    ]


def profile_rules(config: Path | None) -> list[Rule]:
    """The rules of :func:`all_rules` without their counts, so nothing is read from the database."""
    return [rule for name in sorted(brokerages_in_force(config)) for rule in chain_of(name, config)]


def glossary(query: QueryContext) -> Glossary:
    """Every code that a decision may give with what is wrong, and every weight factor with what it does."""
    factors = {rule.code: rule.title for rule in profile_rules(query.config)}
    wrong = {code: reasons[0].reason.wrong for code, reasons in known_reasons().items()}
    return Glossary(codes=dict(sorted((factors | wrong).items())))


def is_code(code: str, config: Path | None) -> bool:
    """Whether a word is a reason code, or the code of a weight in force, and therefore has a page."""
    if reasons_of(code):
        return True
    return any(rule.code == code for rule in profile_rules(config))


def reason_code(query: QueryContext, code: str) -> ReasonCode:
    """Describe one code.

    Raises:
        NothingFound: no rule or step gives it; the nearest codes are named.
    """
    places = [one for one in all_rules(query) if code in (one.line.code, f"{_UNKNOWN}{one.line.rule}")]
    matches = reasons_of(code)
    known = known_reasons()
    if not places and (not matches or (code not in known and code.startswith(_UNKNOWN))):
        raise NothingFound("reason code", code, "the rules", known, "see broker rules")
    main = matches[0].reason if matches else None
    titles = [one.line.title for one in places if one.line.code == code] + ([] if main is None else [main.title])
    waiting = waiting_for(query.connection, query.now, code)
    tasks = tuple(dict.fromkeys(one.jeditaskid for one in waiting))
    commands = [f"broker tasks --reason {code}", "broker reasons"]
    commands += [f"broker explain {tasks[0]}"] if tasks else []
    commands += [f"broker config get '{key}'" for key in dict.fromkeys(key for one in places for key in one.line.keys)]
    return ReasonCode(
        code=code,
        meaning=titles[0],
        violation=None if main is None else main.wrong,
        who="wait" if main is None else main.who,
        given=given_codes(matches),
        commands=tuple(commands),
        rules=tuple(places),
        chunks=len(waiting),
        tasks=tasks[:20],
    )


def given_codes(reasons: Iterable[GivenReason]) -> tuple[GivenCode, ...]:
    """The reasons with one code; equal ones are merged. Pure."""
    groups: defaultdict[tuple[str, str], list[GivenReason]] = defaultdict(list)
    for given in reasons:
        groups[given.reason.wrong, given.reason.cure].append(given)
    return tuple(
        GivenCode(
            brokerages=tuple(dict.fromkeys(given.brokerage for given in group if given.brokerage)),
            givers=tuple(dict.fromkeys(given.giver for given in group)),
            violation=group[0].reason.wrong,
            who=group[0].reason.who,
            cure=group[0].reason.cure,
            requests=tuple(request.name for request in group[0].reason.requests),
            limit=group[0].reason.limit or None,
        )
        for group in groups.values()
    )


def rule_answer(query: QueryContext, name: str) -> RuleAnswer:
    """Describe one rule, by name or code.

    Raises:
        NothingFound: no brokerage has such a rule; the nearest names are given.
    """
    every = all_rules(query)
    places = [one for one in every if one.line.rule == name] or [one for one in every if one.line.code == name]
    if not places:
        raise NothingFound("rule", name, "the profile in force", [one.line.rule for one in every], "see broker rules")
    code = places[0].line.code
    waiting = waiting_for(query.connection, query.now, code)
    only = [state.jeditaskid for state in looked_at(waiting) if {line.code for line in state.counts.rejected} == {code}]
    return RuleAnswer(
        rule=places[0].line.rule,
        code=code,
        places=tuple(places),
        by_hour=tuple(_by_hour(query, code)),
        only_reason=tuple(dict.fromkeys(only)),
    )


def _by_hour(query: QueryContext, code: str) -> list[int]:
    rejections: Counter[int] = Counter()
    for bucket in queue_buckets(query.connection, query.now - timedelta(hours=24), query.now):
        counts = bucket.counts
        if code in counts.codes:
            hours_ago = int((query.now - bucket.bucket_at).total_seconds() // HOUR_S)
            rejections[min(23, max(0, hours_ago))] += int(counts.decisions[counts.codes.index(code)].sum())
    return [rejections[hours_ago] for hours_ago in range(23, -1, -1)]
