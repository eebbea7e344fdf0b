"""The page of reason codes: what is wrong, what each rule asks, who can act, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.brokerages.registry import brokerage as shipped
from broker.decisions.answers.known_reasons import GivenReason, known_reasons
from broker.decisions.answers.reason_sentences import WHO
from broker.domain.reason import Reason
from broker.rules.contract import Rule


def page(brokerages: Sequence[str]) -> str:
    """All codes as Markdown, each with its own anchor, those of rules in their order first.

    Args:
        brokerages: whose rules are shown.
    """
    rules = rules_by_code(brokerages)
    known = known_reasons()
    lines = ["# Reason codes", "", "Made from the rules by `make reference`. Each code has an anchor of its own.", ""]
    for code in dict.fromkeys((*rules, *known)):
        lines += [f"({code})=", f"## `{code}`", ""]
        meanings = _alike([one for one in known[code] if one.brokerage in brokerages])
        for reason, names in meanings:
            where = f" ({', '.join(names)})" if len(meanings) > 1 else ""
            lines += [f"**{reason.wrong}.**{where} {reason.cure} Who can act: {WHO[reason.who]}.", ""]
        lines += [*(f"- {_asks(brokerage, rule)}" for brokerage, rule in rules.get(code, ())), ""]
    return "\n".join(_without_double_blanks(lines)).rstrip() + "\n"


def rules_by_code(brokerages: Sequence[str]) -> dict[str, list[tuple[str, Rule]]]:
    """The rules as shipped that reject candidates, by code, with their brokerage."""
    found: dict[str, list[tuple[str, Rule]]] = {}
    for brokerage in brokerages:
        for rule in shipped(brokerage).chain():
            if rule.rejects:
                found.setdefault(rule.code, []).append((brokerage, rule))
    return found


def _alike(given: Sequence[GivenReason]) -> list[tuple[Reason, list[str]]]:
    """The reasons with one code that do not say the same, with the brokerages that give them."""
    found: dict[tuple[str, str], tuple[Reason, list[str]]] = {}
    for one in given:
        _, names = found.setdefault((one.reason.wrong, one.reason.cure), (one.reason, []))
        if one.brokerage not in names:
            names.append(one.brokerage)
    return list(found.values())


def _asks(brokerage: str, rule: Rule) -> str:
    keys = ", ".join(f"`{key}`" for key in rule.keys)
    return f"{brokerage}, rule `{rule.name}` asks: {rule.title}{f'; it reads {keys}' if keys else ''}."


def _without_double_blanks(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if line or number == 0 or lines[number - 1]:
            yield line
