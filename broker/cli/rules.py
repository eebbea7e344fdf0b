"""``broker rules``: the ordered rules of a brokerage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, overload

import typer

from agents.configuration import config_file
from agents.process import load_process
from broker.brokerages.profile import ListT, ProfileError, build_chain, read_profile
from broker.cli.context import settings_of
from broker.cli.output import print_json, print_table
from broker.engine.chain import Chain, RuleList
from broker.errors import WRONG_USAGE, BrokerError
from broker.rules.contract import Filter, GroupFilter, LoadCut, NucleusFilter, NucleusGroupFilter, Rule
from broker.rules.registry import RuleError


class UnusableProfile(BrokerError):
    """The profile, or the brokerage asked for, is not there or wrong."""

    exit_status = WRONG_USAGE


@overload
def chain_of(brokerage: str, folder: Path | None = None) -> Chain: ...


@overload
def chain_of(brokerage: str, folder: Path | None, kind: type[ListT]) -> ListT: ...


def chain_of(brokerage: str, folder: Path | None = None, kind: type[RuleList] = Chain) -> RuleList:
    """The rules of a brokerage in the profile that ``broker.yaml`` names.

    Args:
        brokerage: its name.
        folder: with configuration files of the operator's own; the shipped ones without it.
        kind: what it must be: by default a brokerage of jobs.

    Raises:
        UnusableProfile: there is no such brokerage, it is of another kind, or the profile is wrong.
    """
    name = load_process(config_file("broker.yaml", folder), folder).profile
    file = config_file(f"profiles/{name}.yaml", folder)
    try:
        return build_chain(read_profile(file.read_text(encoding="utf-8")).of(brokerage), kind)
    except (OSError, ProfileError, RuleError) as error:
        raise UnusableProfile(str(error), str(file), "mend the profile, or name a brokerage that it has") from error


def rules(
    context: typer.Context,
    brokerage: Annotated[str, typer.Argument(help="Name of the brokerage.")] = "production_job",
    as_json: Annotated[bool, typer.Option("--json", help="One object a line.")] = False,
) -> None:
    """The rules in the order in which they judge, with their codes and the tuning keys that they read."""
    chain = chain_of(brokerage, settings_of(context).config, RuleList)
    described = [_described(position, rule) for position, rule in enumerate(chain, start=1)]
    if as_json:
        for entry in described:
            print_json(entry)
        return
    print_table(
        ("#", "rule", "code", "kind", "when unknown", "keys", "what it asks"),
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


def kind_of(rule: Rule) -> str:
    """``persistent`` or ``temporary`` for a filter, ``cut`` for what comes after weighing, ``weight`` for a factor."""
    if isinstance(rule, Filter | GroupFilter | NucleusFilter | NucleusGroupFilter):
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
    }
