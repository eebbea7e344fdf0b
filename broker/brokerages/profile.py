"""Profiles: which brokerages run, for which VOs and labels, and how their rules differ from the shipped ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, overload

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.engine.chain import Chain, RuleList
from broker.rules.contract import Rule
from broker.rules.registry import RuleError, load_rule, outside_rules, placed, without

GROUP = "broker.brokerages"

ListT = TypeVar("ListT", bound=RuleList)


class ProfileError(Exception):
    """A profile that cannot be used; the message names the entry and what to do."""


class Added(BaseModel):
    """A rule of an installed package and its place."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rule: str
    after: str | None = None


class BrokerageProfile(BaseModel):
    """One brokerage of a profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    brokerage: str
    vo: tuple[str, ...] = ("*",)
    labels: tuple[str, ...] = ()
    exclude_labels: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    add: tuple[Added, ...] = ()


class Profile(BaseModel):
    """A profile file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    profile: str
    brokerages: tuple[BrokerageProfile, ...] = Field(min_length=1)

    def of(self, brokerage: str) -> BrokerageProfile:
        """The entry of a brokerage.

        Raises:
            ProfileError: the profile does not have it.
        """
        for entry in self.brokerages:
            if entry.brokerage == brokerage:
                return entry
        names = ", ".join(entry.brokerage for entry in self.brokerages)
        raise ProfileError(f"profile {self.profile}: there is no brokerage {brokerage}; it has {names}")


def read_profile(text: str) -> Profile:
    """The profile in a YAML text.

    Raises:
        ProfileError: it is no YAML, or an entry is wrong; the message names the entry.
    """
    try:
        return Profile.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ProfileError(f"the profile is no YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProfileError(f"the profile is wrong at {place}: {first['msg']}") from error


def shipped_brokerages() -> dict[str, EntryPoint]:
    """The brokerages that installed distributions offer, this one included, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


@overload
def build_chain(entry: BrokerageProfile) -> Chain: ...


@overload
def build_chain(entry: BrokerageProfile, kind: type[ListT]) -> ListT: ...


def build_chain(entry: BrokerageProfile, kind: type[RuleList] = Chain) -> RuleList:
    """The rules of a brokerage as the profile wants them.

    Args:
        entry: of the profile.
        kind: what the brokerage must be: by default one of jobs.

    Raises:
        ProfileError: no such brokerage, one of another kind, or a rule to leave out that is not there.
        RuleError: a rule to add that cannot be loaded or placed.
    """
    offered = shipped_brokerages()
    if entry.brokerage not in offered:
        raise ProfileError(
            f"no installed distribution offers the brokerage {entry.brokerage}; there are {', '.join(offered)}"
        )
    chain = _load_chain(offered[entry.brokerage], kind)
    known = {rule.name for rule in chain}
    for name in entry.without:
        if name not in known:
            raise ProfileError(f"brokerage {entry.brokerage}: without: there is no rule {name}")
    lists: dict[str, Any] = {name: without(getattr(chain, name), entry.without) for name in chain.kinds}
    rules = outside_rules() if entry.add else {}
    for added in entry.add:
        rule = load_rule(added.rule, rules)
        name = _list_of(chain, rule)
        lists[name] = placed(lists[name], rule, added.after)
    return dataclasses.replace(chain, brokerage=entry.brokerage, **lists)


def _load_chain(point: EntryPoint, kind: type[RuleList]) -> RuleList:
    try:
        factory: Callable[[], RuleList] = point.load()
        chain = factory()
    except Exception as error:  # whatever an outside module raises on import is a fault of that distribution
        raise ProfileError(
            f"brokerage {point.name}: {point.value} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(chain, kind):
        raise ProfileError(
            f"brokerage {point.name}: {point.value} gave a {type(chain).__name__}, not a {kind.__name__}"
        )
    return chain


def _list_of(chain: RuleList, rule: Rule) -> str:
    for name, kinds in chain.kinds.items():
        if isinstance(rule, kinds):
            return name
    raise RuleError(f"rule {rule.name}: of no kind that the brokerage {chain.brokerage} has")
