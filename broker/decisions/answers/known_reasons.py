"""All reasons that a decision, chunk or task can have, by code, and what users read about them.

The reasons are collected from the rules, steps and brokerages. In words they say what is missing, what is wrong, and
who can act.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from broker.brokerages.registry import BrokerageError, brokerage, offered
from broker.domain.decisions import Reason, Who
from broker.rules.registry import RuleError, load_rule, outside_rules
from broker.store.reads.task_states import SKIP_REASONS


@dataclass(frozen=True)
class GivenReason:
    """A reason with its origin.

    Attributes:
        brokerage: name of the brokerage; empty for a rule of a package, which may belong to several.
        giver: name of the rule or step, or of the brokerage itself.
        reason: the reason.
    """

    brokerage: str
    giver: str
    reason: Reason


@cache
def known_reasons() -> Mapping[str, tuple[GivenReason, ...]]:
    """The reasons of all installed brokerages and rules, by code; the first with a code is the main one.

    A package that cannot be loaded gives none: its reasons occur in no decision, and a profile that names it prevents
    the start with a message.
    """
    by_code: defaultdict[str, list[GivenReason]] = defaultdict(list)
    for given in (*_of_brokerages(), *_of_packages()):
        if given not in by_code[given.reason.code]:
            by_code[given.reason.code].append(given)
    return {code: tuple(reasons) for code, reasons in sorted(by_code.items())}


def reasons_of(code: str, brokerage: str | None = None) -> tuple[GivenReason, ...]:
    """The reasons with a code, those of the brokerage first; ``unknown_pilots`` has that of ``unknown_RULE``.

    Args:
        code: code as stored in a decision.
        brokerage: name of the brokerage that decided.
    """
    known = known_reasons()
    matches = known.get(code, ())
    if not matches:
        stems = {reasons[0].reason.stem: reasons for reasons in known.values()}
        matches = max(
            ((stem, reasons) for stem, reasons in stems.items() if stem and code.startswith(stem)),
            key=lambda one: len(one[0]),
            default=("", ()),
        )[1]
    return tuple(sorted(matches, key=lambda one: one.brokerage != brokerage))


def reason_of(code: str, brokerage: str | None = None) -> Reason | None:
    """The main reason with a code; None for a code of a package that is not installed here."""
    return next((one.reason for one in reasons_of(code, brokerage)), None)


def codes_of_step(step: str) -> frozenset[str]:
    """The codes that a step gives, whichever implementation of it a profile chooses."""
    return frozenset(code for code, reasons in known_reasons().items() if step in {one.giver for one in reasons})


def who_can_act(code: str) -> Who:
    """Who can act on work that waits for a reason; the operators if the reason is unknown."""
    reason = reason_of(code)
    return "ask" if reason is None else reason.who


def _of_brokerages() -> Iterator[GivenReason]:
    for name in offered():
        try:
            instance = brokerage(name)
        except BrokerageError:
            continue
        yield from (GivenReason(name, giver, reason) for giver, reason in instance.reasons())
        if instance.candidate == "nucleus":
            yield from (GivenReason(name, name, reason) for reason in SKIP_REASONS)


def _of_packages() -> Iterator[GivenReason]:
    points = outside_rules()
    for name in points:
        try:
            rule = load_rule(name, points)
        except RuleError:
            continue
        if rule.rejects:
            yield GivenReason("", name, rule.reason)


WHO: Mapping[Who, str] = {
    "you": "whoever submitted the work",
    "wait": "nobody has to, since it passes by itself",
    "ask": "the site or the operators",
}


def no_queue_that(code: str, kind: str, brokerage: str | None = None) -> str:
    """``No queue offers enough memory``; for a reason without such a phrase, ``No queue passes CODE``."""
    reason = reason_of(code, brokerage)
    return f"No {kind} {reason.no_candidate}" if reason and reason.no_candidate else f"No {kind} passes {code}"


def about_work(code: str, brokerage: str | None = None) -> str:
    """What is wrong with the input, or with the work itself."""
    reason = reason_of(code, brokerage)
    return f"The work cannot be brokered now: {code.replace('_', ' ')}." if reason is None else sentence(reason)


def cure(code: str, brokerage: str | None = None) -> str:
    """What can be done about work that waits for a reason, with Markdown backticks; empty if unknown."""
    reason = reason_of(code, brokerage)
    return "" if reason is None else reason.cure


def sentence(reason: Reason) -> str:
    """What is wrong, such as ``The job needs more memory than a slot of the queue has.``."""
    return f"{reason.wrong}."
