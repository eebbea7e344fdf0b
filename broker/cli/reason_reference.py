"""The page of reason codes: what each means, where, who can cure it, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker.app.answers.user import who_can_cure
from broker.app.rules_in_force import chain_of
from broker.cli.decisions.rules import kind_of
from broker.yaml_text import read_yaml

CURES = Path(__file__).parents[2] / "docs" / "reference" / "reason-cures.yaml"
WHO = {"you": "whoever submitted the work", "wait": "time; operators, if it lasts", "ask": "the site or the operators"}


def page(brokerages: tuple[str, ...], steps: Mapping[str, str], chunks: Mapping[str, str]) -> str:
    """All codes as Markdown, each with its own anchor.

    Args:
        brokerages: whose rules are shown.
        steps: codes of steps outside the rule chain, with their meaning.
        chunks: reasons of a whole input chunk, with their meaning.
    """
    cures: dict[str, str] = read_yaml(CURES.read_text(encoding="utf-8"))
    lines = ["# Reason codes", "", "Made from the rules by `make reference`. Each code has an anchor of its own.", ""]
    for code, meanings in {**rule_meanings(brokerages), **_listed(steps), **_listed(chunks)}.items():
        lines += [f"({code})=", f"## `{code}`", "", *(f"- {meaning}" for meaning in meanings), ""]
        lines += [f"**Who can cure it:** {WHO[who_can_cure(code)]}. **How:** {cures.get(code, '')}", ""]
    return "\n".join(lines).rstrip() + "\n"


def rule_meanings(brokerages: tuple[str, ...]) -> dict[str, list[str]]:
    """By code what the rules with it ask, with their brokerage and keys."""
    found: dict[str, list[str]] = {}
    for brokerage in brokerages:
        for rule in chain_of(brokerage, None):
            if kind_of(rule) != "weight":
                keys = ", ".join(f"`{key}`" for key in rule.keys)
                reads = f"; it reads {keys}" if keys else ""
                found.setdefault(rule.code, []).append(f"{brokerage}, rule `{rule.name}` asks: {rule.title}{reads}.")
    return found


def _listed(codes: Mapping[str, str]) -> dict[str, list[str]]:
    return {code: [f"{meaning[0].upper()}{meaning[1:]}."] for code, meaning in codes.items()}
