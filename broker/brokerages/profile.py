"""Profiles: which brokerages run, for which VOs and labels, and how their rules differ from the shipped ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from difflib import get_close_matches
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


def switched(profile: Profile, switches: Mapping[str, bool]) -> Profile:
    """The profile with rules switched on (True) or off (False), in every brokerage that has a rule of the name.

    A rule of an installed package that the profile does not name goes, when it is switched on, to the end of its list
    in the brokerages that have such a list.

    Raises:
        ProfileError: no brokerage of the profile has a rule of the name; similar names are told.
        RuleError: a rule of an installed package cannot be loaded.
    """
    if not switches:
        return profile
    every = profile.model_copy(
        update={"brokerages": tuple(one.model_copy(update={"without": ()}) for one in profile.brokerages)}
    )
    chains = {one.brokerage: build_chain(one, RuleList) for one in every.brokerages}
    known = {rule.name for chain in chains.values() for rule in chain}
    offered = outside_rules()
    for name in switches:
        if name not in known and name not in offered:
            near = ", ".join(get_close_matches(name, sorted(known), 4, 0.4))
            raise ProfileError(f"there is no rule {name}" + (f"; did you mean {near}?" if near else ""))
    return profile.model_copy(
        update={"brokerages": tuple(_switched(one, chains[one.brokerage], switches) for one in profile.brokerages)}
    )


def _switched(entry: BrokerageProfile, chain: RuleList, switches: Mapping[str, bool]) -> BrokerageProfile:
    names = {rule.name for rule in chain}
    off = {name for name, on in switches.items() if not on and name in names}
    on = {name for name, wanted in switches.items() if wanted}
    new = [name for name in sorted(on - names) if name in outside_rules() and _fits(chain, name)]
    added = {one.rule for one in entry.add}
    without = (*(name for name in entry.without if name not in on | off), *sorted(off - added))
    add = (*(one for one in entry.add if one.rule not in off), *(Added(rule=name) for name in new))
    return entry.model_copy(update={"without": without, "add": add})


def _fits(chain: RuleList, name: str) -> bool:
    rule = load_rule(name, outside_rules())
    return any(isinstance(rule, kinds) for kinds in chain.kinds.values())


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
