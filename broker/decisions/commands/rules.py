"""``broker rules``: the ordered rules of a brokerage.

The page of reason codes: what is wrong, what each rule asks, who can act, and how.
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
    as_json: Annotated[bool, typer.Option("--json", help="One object a line.")] = False,
) -> None:
    """The rules in the order in which they judge, with their codes and the tuning keys that they read."""
    chain = chain_of(brokerage, settings_of(context).config, profile)
    described = [_described(position, rule) for position, rule in enumerate(chain, start=1)]
    steps = [_of_step(step) for step in chain.named_steps.values()]
    if as_json:
        for entry in (*described, *(steps if profile is not None else ())):
            print_json(entry)
        return
    print_table(
        ("#", "rule", "code", "kind", "on missing data", "keys", "what it asks"),
        [
            (
                one["position"],
                one["rule"],
                one["code"],
                one["kind"],
                one["unknown"],
                ", ".join(one["keys"]),
                one["title"],
            )
            for one in described
        ],
        title=f"Rules of {brokerage}",
    )
    _print_choices(profile, described, steps)


def _print_choices(profile: str | None, rules: list[dict[str, Any]], steps: list[dict[str, Any]]) -> None:
    """What a profile chooses of rules and steps, with its reasons."""
    chosen = [(f"rule {one['rule']}", one) for one in rules if one.get("options")]
    chosen += [(f"step {one['step']}", one) for one in steps if one["options"] or profile is not None]
    if profile is None and not any(one["options"] for _, one in chosen):
        return
    print_table(
        ("what", "chosen", "because"),
        [(name, _in_words(one["options"]) or "as in seed", one["because"]) for name, one in chosen],
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
