"""``broker rules``: the ordered rules of a brokerage, and the generated page of all reason codes.

The page says what is wrong, what each rule requires, who can act, and how.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from broker.brokerages.registry import brokerage as shipped
from broker.cli.context import settings_of
from broker.cli.output import print_json, print_table
from broker.decisions.answers.known_reasons import WHO, GivenReason, known_reasons
from broker.decisions.answers.rules_in_force import chain_of
from broker.domain.decisions import Reason
from broker.rules.contract import Filter, GroupFilter, LoadCut, Rule, Step


def rules(
    context: typer.Context,
    brokerage: Annotated[str, typer.Argument(help="Name of the brokerage.")] = "production_job",
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME", help="The rules of this profile.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per line.")] = False,
) -> None:
    """List the rules in order of evaluation, with their codes and the tuning keys that they read."""
    chain = chain_of(brokerage, settings_of(context).config, profile)
    rule_rows = [_described(position, rule) for position, rule in enumerate(chain, start=1)]
    steps = [_of_step(step) for step in chain.named_steps.values()]
    if as_json:
        for entry in (*rule_rows, *(steps if profile is not None else ())):
            print_json(entry)
        return
    print_table(
        ("#", "rule", "code", "kind", "on missing data", "keys", "what it asks"),
        [
            (
                row["position"],
                row["rule"],
                row["code"],
                row["kind"],
                row["unknown"],
                ", ".join(row["keys"]),
                row["title"],
            )
            for row in rule_rows
        ],
        title=f"Rules of {brokerage}",
    )
    _print_choices(profile, rule_rows, steps)


def _print_choices(profile: str | None, rules: list[dict[str, Any]], steps: list[dict[str, Any]]) -> None:
    """Print the options that a profile chooses for rules and steps, with its reasons."""
    choices = [(f"rule {entry['rule']}", entry) for entry in rules if entry.get("options")]
    choices += [(f"step {entry['step']}", entry) for entry in steps if entry["options"] or profile is not None]
    if profile is None and not any(entry["options"] for _, entry in choices):
        return
    print_table(
        ("what", "chosen", "because"),
        [(name, _in_words(entry["options"]) or "as in seed", entry["because"]) for name, entry in choices],
        title=f"Chosen by the profile {profile}" if profile else "Chosen by the profile",
    )


def _in_words(options: dict[str, Any]) -> str:
    shown = (", ".join(map(str, value)) if isinstance(value, list | tuple) else value for value in options.values())
    return "; ".join(f"{name} {value}" for name, value in zip(options, shown, strict=True))


def _of_step(step: Step) -> dict[str, Any]:
    return {"step": step.name, "title": step.title, "options": step.chosen, "because": step.because}


def kind_of(rule: Rule) -> str:
    """``persistent`` or ``temporary`` for a filter, ``cut`` for what comes after weighing, ``weight`` for a factor."""
    if isinstance(rule, Filter | GroupFilter):
        return rule.kind
    return "cut" if isinstance(rule, LoadCut) else "weight"


def _described(position: int, rule: Rule) -> dict[str, Any]:
    return {
        "position": position,
        "rule": rule.name,
        "code": rule.code,
        "kind": kind_of(rule),
        "unknown": rule.unknown_policy if rule.sources else "",
        "keys": list(rule.keys),
        "sources": list(rule.sources),
        "title": rule.title,
        "provenance": rule.provenance,
        **({"options": rule.chosen, "because": rule.because} if rule.chosen else {}),
    }


def page(brokerages: Sequence[str]) -> str:
    """All codes as Markdown, each with its own anchor; those of rules come first, in order.

    Args:
        brokerages: brokerages whose rules are shown.
    """
    rules = rules_by_code(brokerages)
    known = known_reasons()
    lines = ["# Reason codes", "", "Made from the rules by `make reference`. Each code has an anchor of its own.", ""]
    for code in dict.fromkeys((*rules, *known)):
        lines += [f"({code})=", f"## `{code}`", ""]
        meanings = _distinct_reasons([one for one in known[code] if one.brokerage in brokerages])
        for reason, names in meanings:
            where = f" ({', '.join(names)})" if len(meanings) > 1 else ""
            lines += [f"**{reason.wrong}.**{where} {reason.cure} Who can act: {WHO[reason.who]}.", ""]
        lines += [*(f"- {_asks(brokerage, rule)}" for brokerage, rule in rules.get(code, ())), ""]
    return "\n".join(_without_double_blanks(lines)).rstrip() + "\n"


def rules_by_code(brokerages: Sequence[str]) -> dict[str, list[tuple[str, Rule]]]:
    """The shipped rules that reject candidates, by code, with their brokerage."""
    by_code: dict[str, list[tuple[str, Rule]]] = {}
    for brokerage in brokerages:
        for rule in shipped(brokerage).chain():
            if rule.rejects:
                by_code.setdefault(rule.code, []).append((brokerage, rule))
    return by_code


def _distinct_reasons(reasons: Sequence[GivenReason]) -> list[tuple[Reason, list[str]]]:
    """The distinct reasons with one code, with the brokerages that give them."""
    distinct: dict[tuple[str, str], tuple[Reason, list[str]]] = {}
    for reason in reasons:
        _, names = distinct.setdefault((reason.reason.wrong, reason.reason.cure), (reason.reason, []))
        if reason.brokerage not in names:
            names.append(reason.brokerage)
    return list(distinct.values())


def _asks(brokerage: str, rule: Rule) -> str:
    keys = ", ".join(f"`{key}`" for key in rule.keys)
    return f"{brokerage}, rule `{rule.name}` asks: {rule.title}{f'; it reads {keys}' if keys else ''}."


def _without_double_blanks(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if line or number == 0 or lines[number - 1]:
            yield line
