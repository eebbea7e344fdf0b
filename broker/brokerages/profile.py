"""Profiles: which brokerages run, for which VOs and labels, and how their rules differ from the shipped ones.

A profile also sets options of rules and steps, each with its reason, and may use steps of other distributions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, overload

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.brokerages.base import Rules
from broker.brokerages.job.joint_placement import placement_fault
from broker.brokerages.offered_steps import OWN, offered_steps
from broker.brokerages.registry import BrokerageError, brokerage
from broker.domain.decisions import Redecide
from broker.engine.job.placement import Placement
from broker.engine.shared.chain import QueueChain, RuleChain
from broker.rules.contract import Configurable, Rule, Step
from broker.rules.registry import RuleError, load_rule, outside_rules, placed, without
from broker.yaml_text import read_yaml_once

BECAUSE, USE = "because", "use"

ConfigurableT = TypeVar("ConfigurableT", bound=Configurable)


class ProfileError(Exception):
    """A profile is unusable; the message names the entry and what to do."""


def configured(brokerage: str, one: ConfigurableT, given: Mapping[str, Any] | None) -> ConfigurableT:
    """A rule or step with the options of a profile; unchanged without options.

    Raises:
        ProfileError: an option does not exist, or a value has the wrong type.
    """
    if given is None:
        return one
    options = {name: value for name, value in given.items() if name != BECAUSE}
    name = getattr(one, "name", type(one).__name__)
    try:
        return one.configured(options, str(given.get(BECAUSE) or ""))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        known = ", ".join(type(one.options).model_fields) or "none"
        raise ProfileError(
            f"brokerage {brokerage}: {name}: option {place}: {first['msg']}; the options are {known}"
        ) from error


def configured_step(brokerage: str, chain: RuleChain, name: str, given: Mapping[str, Any]) -> Step:
    """The step ``name`` of a brokerage with the options of a profile, or the replacement that the profile names.

    Raises:
        ProfileError: the brokerage has no such step, no distribution offers the replacement, or that does not fit.
    """
    steps = chain.named_steps
    if name not in steps:
        known = ", ".join(steps) or "none"
        raise ProfileError(f"brokerage {brokerage}: steps: there is no step {name}; there are {known}")
    options, step = dict(given), steps[name]
    own = getattr(type(step.options)(), step.named_by) if step.named_by else None
    chosen = options.pop(USE, options.get(step.named_by, own))
    if chosen != own:
        step = _offered(brokerage, str(chosen), step, own)
    return configured(brokerage, step, options)


def _offered(brokerage: str, name: str, replaced: Step, own: str | None) -> Step:
    points = offered_steps()
    where = f"brokerage {brokerage}: step {replaced.name}"
    if name not in points:
        known = ", ".join((*sorted(points), *([own] if own else ()))) or "none"
        again = "" if OWN in points else f"; gridbroker itself offers {OWN}: install gridbroker again"
        raise ProfileError(f"{where}: no installed distribution offers {name} (there are: {known}){again}")
    try:
        step = points[name].load()()
    except Exception as error:  # whatever an outside module raises on import is a fault of that distribution
        raise ProfileError(
            f"{where}: {points[name].value} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(step, type(replaced)):
        raise ProfileError(f"{where}: {points[name].value} is no {type(replaced).__name__}")
    if isinstance(step, Placement) and (fault := placement_fault(name, step)):
        raise ProfileError(f"{where}: {points[name].value} cannot be used as {name}: {fault}")
    return step


ListT = TypeVar("ListT", bound=RuleChain)


class NotInProfile(ProfileError):
    """A profile does not have the named brokerage."""


class PackageRule(BaseModel):
    """A rule of an installed package and its place."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rule: str
    after: str | None = None


class BrokerageProfile(BaseModel):
    """One brokerage of a profile.

    ``rules`` has options of rules by the name of the rule, ``steps`` those of steps that are no rules; in both
    ``because`` is the reason, and in ``steps`` ``use`` names another implementation of the step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    brokerage: str
    vo: tuple[str, ...] = ("*",)
    labels: tuple[str, ...] = ()
    exclude_labels: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    add: tuple[PackageRule, ...] = ()
    rules: dict[str, dict[str, Any]] = Field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = Field(default_factory=dict)


class Extension(BaseModel):
    """A profile file that changes another profile; ``redecide`` is its own, as in :class:`Profile`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    profile: str
    extends: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    redecide: Redecide = "each_cycle"
    brokerages: tuple[BrokerageProfile, ...] = ()


class Profile(BaseModel):
    """A profile file: the rules and steps of each brokerage, with their options, in order.

    Attributes:
        profile: its name.
        redecide: when work that waits is decided again: after 20, 30 or 60 minutes, as specified, or in each cycle.
        brokerages: in order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    profile: str
    redecide: Redecide = "each_cycle"
    brokerages: tuple[BrokerageProfile, ...] = Field(min_length=1)

    def of(self, brokerage: str) -> BrokerageProfile:
        """The entry of a brokerage.

        Raises:
            NotInProfile: the profile does not have it.
        """
        for entry in self.brokerages:
            if entry.brokerage == brokerage:
                return entry
        names = ", ".join(entry.brokerage for entry in self.brokerages)
        raise NotInProfile(f"profile {self.profile}: there is no brokerage {brokerage}; it has {names}")


def read_profile(text: str, other: Callable[[str], str] | None = None) -> Profile:
    """The profile in a YAML text.

    With ``extends: NAME`` it changes another profile. Brokerages that it does not name stay as they are there. In one
    that it names, ``vo``, ``labels`` and ``exclude_labels``, if given, replace those of the other; ``without`` and
    ``add`` are appended; options of ``rules`` and ``steps`` replace the same options. A brokerage that the other lacks
    is added. ``redecide`` is not inherited; its default is ``each_cycle``.

    Args:
        text: of the profile.
        other: returns the text of a profile by its name; without it no profile can extend another.

    Raises:
        ProfileError: it is not YAML, an entry is wrong, or the profile that it extends does not exist; the message
            names the entry.
    """
    return _read(text, other, ())


def _read(text: str, other: Callable[[str], str] | None, above: tuple[str, ...]) -> Profile:
    try:
        content = read_yaml_once(text)
        if not isinstance(content, dict) or "extends" not in content:
            return Profile.model_validate(content)
        extension = Extension.model_validate(content)
        if extension.extends in (*above, extension.profile) or other is None:
            chain = " extends ".join((*above, extension.profile, extension.extends))
            raise ProfileError(f"profile {extension.profile}: cannot extend {extension.extends}: {chain}")
        return _extended(extension, _read(_text_of(extension, other), other, (*above, extension.profile)))
    except yaml.YAMLError as error:
        raise ProfileError(f"the profile is no YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProfileError(f"the profile is wrong at {place}: {first['msg']}") from error


def _text_of(extension: Extension, other: Callable[[str], str]) -> str:
    try:
        return other(extension.extends)
    except OSError as error:
        raise ProfileError(
            f"profile {extension.profile}: extends {extension.extends}, which cannot be read: {error}"
        ) from error


def _extended(extension: Extension, base: Profile) -> Profile:
    changes = {entry.brokerage: entry for entry in extension.brokerages}
    entries = [_changed(entry, changes.pop(entry.brokerage, None)) for entry in base.brokerages]
    return Profile(profile=extension.profile, redecide=extension.redecide, brokerages=(*entries, *changes.values()))


def _changed(entry: BrokerageProfile, change: BrokerageProfile | None) -> BrokerageProfile:
    if change is None:
        return entry
    replaced = sorted({"vo", "labels", "exclude_labels"} & change.model_fields_set)
    replacements: dict[str, Any] = {name: getattr(change, name) for name in replaced}
    added = {"without": (*entry.without, *change.without), "add": (*entry.add, *change.add)}
    options = {"rules": _merged(entry.rules, change.rules), "steps": _merged(entry.steps, change.steps)}
    return entry.model_copy(update={**replacements, **added, **options})


def _merged(base: dict[str, dict[str, Any]], change: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return base | {name: base.get(name, {}) | options for name, options in change.items()}


def switched(profile: Profile, switches: Mapping[str, bool]) -> Profile:
    """The profile with rules switched on (True) or off (False), in every brokerage that has a rule of the name.

    A rule of an installed package that the profile does not name, when switched on, is appended to its list in the
    brokerages that have such a list.

    Raises:
        ProfileError: no brokerage of the profile has a rule of the name; the message lists similar names.
        RuleError: a rule of an installed package cannot be loaded.
    """
    if not switches:
        return profile
    every = profile.model_copy(
        update={"brokerages": tuple(one.model_copy(update={"without": ()}) for one in profile.brokerages)}
    )
    chains = {one.brokerage: build_chain(one, RuleChain) for one in every.brokerages}
    known = {rule.name for chain in chains.values() for rule in chain}
    offered = outside_rules()
    for name in switches:
        if name not in known and name not in offered:
            near = ", ".join(get_close_matches(name, sorted(known), 4, 0.4))
            raise ProfileError(f"there is no rule {name}" + (f"; did you mean {near}?" if near else ""))
    return profile.model_copy(
        update={"brokerages": tuple(_switched(one, chains[one.brokerage], switches) for one in profile.brokerages)}
    )


def _switched(entry: BrokerageProfile, chain: RuleChain, switches: Mapping[str, bool]) -> BrokerageProfile:
    names = {rule.name for rule in chain}
    off = {name for name, on in switches.items() if not on and name in names}
    on = {name for name, wanted in switches.items() if wanted}
    new = [name for name in sorted(on - names) if name in outside_rules() and _fits(chain, name)]
    added = {one.rule for one in entry.add}
    without = (*(name for name in entry.without if name not in on | off), *sorted(off - added))
    add = (*(one for one in entry.add if one.rule not in off), *(PackageRule(rule=name) for name in new))
    return entry.model_copy(update={"without": without, "add": add})


def _fits(chain: RuleChain, name: str) -> bool:
    return chain.takes(load_rule(name, outside_rules())) is not None


@overload
def build_chain(entry: BrokerageProfile) -> QueueChain: ...


@overload
def build_chain(entry: BrokerageProfile, kind: type[ListT]) -> ListT: ...


def build_chain(entry: BrokerageProfile, kind: type[RuleChain] = QueueChain) -> RuleChain:
    """The rules of a brokerage as configured by the profile.

    Args:
        entry: of the profile.
        kind: of chain that the brokerage must have: by default one of jobs.

    Raises:
        ProfileError: there is no such brokerage, it is of another kind, or a rule to leave out does not exist.
        RuleError: a rule to add cannot be loaded or placed.
    """
    chain = _shipped_chain(entry.brokerage, kind)
    known = {rule.name for rule in chain}
    for name in entry.without:
        if name not in known and name not in {one.rule for one in entry.add}:
            raise ProfileError(f"brokerage {entry.brokerage}: without: there is no rule {name}")
    lists: dict[str, Any] = {name: without(getattr(chain, name), entry.without) for name in chain.kinds}
    for added in entry.add:
        rule = _rule_to_add(entry.brokerage, added.rule)
        name = _list_of(chain, rule)
        lists[name] = placed(lists[name], rule, added.after)
    unknown = dict.fromkeys(entry.rules)
    for name, rules in lists.items():
        lists[name] = tuple(configured(entry.brokerage, rule, entry.rules.get(rule.name)) for rule in rules)
        for rule in rules:
            unknown.pop(rule.name, None)
    for name in unknown:
        raise ProfileError(f"brokerage {entry.brokerage}: rules: there is no rule {name}")
    steps = {name: configured_step(entry.brokerage, chain, name, given) for name, given in entry.steps.items()}
    return dataclasses.replace(chain, brokerage=entry.brokerage, **lists).with_steps(steps)


def _rule_to_add(brokerage_name: str, name: str) -> Rule:
    """A rule that the brokerage has but does not use by default, or one of an installed package."""
    own = {rule.name: rule for rule in brokerage(brokerage_name).optional_rules()}
    return own[name] if name in own else load_rule(name, outside_rules())


def rules_of(profile: Profile, name: str, options: Mapping[str, Any] | None = None) -> Rules:
    """The rules by which a brokerage decides: its chain, those of the brokerages that it consults, and its options.

    Args:
        profile: names the rules.
        name: of the brokerage.
        options: of its agent; those that take part in no decision are ignored.

    Raises:
        ProfileError: the profile has no such brokerage, or it cannot be used.
        RuleError: a rule to add cannot be loaded or placed.
    """
    try:
        owner = brokerage(name)
    except BrokerageError as error:
        raise ProfileError(str(error)) from error
    given = options or {}
    return Rules(
        build_chain(profile.of(name), RuleChain),
        {needed: build_chain(profile.of(needed), RuleChain) for needed in owner.needs},
        {option: given.get(option, default) for option, default in owner.decision_options.items()},
    )


def _shipped_chain(name: str, kind: type[RuleChain]) -> RuleChain:
    try:
        chain = brokerage(name).chain()
    except BrokerageError as error:
        raise ProfileError(str(error)) from error
    if not isinstance(chain, kind):
        raise ProfileError(f"brokerage {name}: its rules are a {type(chain).__name__}, not a {kind.__name__}")
    return chain


def _list_of(chain: RuleChain, rule: Rule) -> str:
    name = chain.takes(rule)
    if name is None:
        raise RuleError(f"rule {rule.name}: of no kind that the brokerage {chain.brokerage} has")
    return name
