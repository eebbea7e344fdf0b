"""Reason codes: what each means, which rules give it, who can do something about it, and the command that says more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from broker.app.answers.asking import Answer, Asking, NothingFound
from broker.app.answers.rules import rules, states_now
from broker.app.answers.service_models import RuleInForce
from broker.app.answers.stored_states import ChunkState, looked_at
from broker.app.answers.user import who_can_cure
from broker.brokerages.registry import offered
from broker.engine.job.initial_list import NO_PSEUDO_QUEUE, NOT_PRODUCTION
from broker.engine.job.placement import FLOW_TITLES
from broker.engine.shared.answer import UNKNOWN_NAME
from broker.engine.shared.rank import LOW_WEIGHT, OTHERS_BOOTSTRAP, WEIGHT_UNKNOWN
from broker.store.summaries.queue_counts import queue_buckets

STEP_CODES = {
    LOW_WEIGHT: "the best 10 candidates are taken, and this is not one of them",
    OTHERS_BOOTSTRAP: "the queue has no jobs at all and would get some to start with, but 10 others come first",
    WEIGHT_UNKNOWN: "a factor of the weight is not a finite number",
    **FLOW_TITLES,
    UNKNOWN_NAME: "the task names a queue that the snapshot does not have",
    NOT_PRODUCTION: "the task names a queue that runs no production jobs, or has no cloud",
    NO_PSEUDO_QUEUE: "the task names a unified queue that serves no resource type",
    "unknown_RULE": "a source of the rule is missing or too old, or the rule failed; the decision's notes say which",
}
THROTTLES = {
    "throttled_running_jobs": "enough jobs of the user or group run",
    "throttled_queued_jobs": "enough jobs of the user or group wait",
    "throttled_running_cores": "enough cores of the user or group are busy",
    "throttled_queued_cores": "enough cores of the user or group are asked for",
    "throttled_share_usage": "the global share is used up, and the user has had the most of it",
    "throttled_global_quota": "the quota of the user is used up",
    "throttled_near_global_quota": "the quota of the user is nearly used up",
}
CHUNK_REASONS = {
    "no_candidates": "no queue was left",
    "candidates_full": "candidates were left, but none took a job",
    "unknown_nucleus": "the task's nucleus is not on the map",
    "unknown_dataset": "the replica catalogue does not know an input dataset (Rucio was asked, if it feeds it)",
    "dataset_not_asked": "Rucio feeds the replica catalogue and has not been asked for an input dataset yet",
    "no_complete_replica": "an input dataset is complete nowhere",
    "replica_unreadable": "an input dataset is complete only where nobody can read it",
}
_UNKNOWN = "unknown_"
HOUR_S = 3600.0


class RuleOfBrokerage(Answer):
    """A rule in the order of one brokerage."""

    brokerage: str
    line: RuleInForce


class ReasonCode(Answer):
    """A reason code.

    Attributes:
        code: the code.
        meaning: in a sentence.
        who: can do something: ``you`` (who submitted the task), ``wait`` (time), ``ask`` (the operators).
        commands: that say more.
        rules: that give the code.
        chunks: that wait for it now.
        tasks: of them some.
    """

    code: str
    meaning: str
    who: Literal["you", "wait", "ask"]
    commands: tuple[str, ...]
    rules: tuple[RuleOfBrokerage, ...]
    chunks: int
    tasks: tuple[int, ...]


class Glossary(Answer):
    """All reason codes with their meanings."""

    codes: dict[str, str]


class RuleAnswer(Answer):
    """A rule: where it stands, and what it rejected.

    Attributes:
        rule: its name.
        places: of it in the brokerages.
        by_hour: queues that it rejected, over all decisions, hour by hour, the oldest first.
        only_reason: tasks that wait and for which no other rule rejected anything, of the newest 200 that wait for it.
    """

    rule: str
    code: str
    places: tuple[RuleOfBrokerage, ...]
    by_hour: tuple[int, ...]
    only_reason: tuple[int, ...]


def all_rules(asking: Asking) -> list[RuleOfBrokerage]:
    """The rules of all brokerages, in their order."""
    return [
        RuleOfBrokerage(brokerage=name, line=line) for name in sorted(offered()) for line in rules(asking, name).rules
    ]


def glossary(asking: Asking) -> Glossary:
    """Every code that a decision may give."""
    return Glossary(codes=_codes(all_rules(asking)))


def _codes(rules_of_all: Iterable[RuleOfBrokerage]) -> dict[str, str]:
    found = {one.line.code: one.line.title for one in rules_of_all}
    return dict(sorted({**STEP_CODES, **THROTTLES, **CHUNK_REASONS, **found}.items()))


def reason_code(asking: Asking, code: str) -> ReasonCode:
    """One code.

    Raises:
        NothingFound: no rule or step gives it; the nearest are said.
    """
    every = all_rules(asking)
    places = [one for one in every if one.line.code == code or code == f"{_UNKNOWN}{one.line.rule}"]
    known = _codes(every)
    if code in known:
        meaning = known[code]
    elif places:
        meaning = STEP_CODES["unknown_RULE"]
    else:
        raise NothingFound("reason code", code, "the rules", known, "see broker rules")
    waiting = [one for one in states_now(asking) if _waits_for(one, code)]
    tasks = tuple(dict.fromkeys(one.jeditaskid for one in waiting))
    commands = [f"broker tasks --reason {code}", "broker reasons"]
    commands += [f"broker explain {tasks[0]}"] if tasks else []
    commands += [f"broker config get '{key}'" for key in dict.fromkeys(key for one in places for key in one.line.keys)]
    return ReasonCode(
        code=code,
        meaning=meaning,
        who=who_can_cure(code),
        commands=tuple(commands),
        rules=tuple(places),
        chunks=len(waiting),
        tasks=tasks[:20],
    )


def rule_answer(asking: Asking, name: str) -> RuleAnswer:
    """One rule by its name, or its code.

    Raises:
        NothingFound: no brokerage has such a rule; the nearest are said.
    """
    every = all_rules(asking)
    places = [one for one in every if one.line.rule == name] or [one for one in every if one.line.code == name]
    if not places:
        raise NothingFound("rule", name, "the profile in force", [one.line.rule for one in every], "see broker rules")
    code = places[0].line.code
    waiting = [state for state in states_now(asking) if _waits_for(state, code)]
    only = [state.jeditaskid for state in looked_at(waiting) if {line.code for line in state.counts.rejected} == {code}]
    return RuleAnswer(
        rule=places[0].line.rule,
        code=code,
        places=tuple(places),
        by_hour=tuple(_by_hour(asking, code)),
        only_reason=tuple(dict.fromkeys(only)),
    )


def _waits_for(state: ChunkState, code: str) -> bool:
    return state.outcome != "brokered" and code in (state.reason, state.main_code)


def _by_hour(asking: Asking, code: str) -> list[int]:
    found: Counter[int] = Counter()
    for bucket in queue_buckets(asking.connection, asking.now - timedelta(hours=24), asking.now):
        counts = bucket.counts
        if code in counts.codes:
            hours_ago = int((asking.now - bucket.bucket_at).total_seconds() // HOUR_S)
            found[min(23, max(0, hours_ago))] += int(counts.decisions[counts.codes.index(code)].sum())
    return [found[hours_ago] for hours_ago in range(23, -1, -1)]
