"""The configured rules of a brokerage: those of the profile in force, with rules switched on or off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agents.service import registry
from agents.service.configuration import ProcessSettings, config_file, load, load_process, load_profile, profile_file
from broker.brokerages.base import Rules
from broker.brokerages.profile import NotInProfile, ProfileError, build_chain, rules_of, switched
from broker.engine.shared.chain import RuleChain
from broker.errors import WRONG_USAGE, BrokerError, NotFound, did_you_mean
from broker.rules.registry import RuleError
from broker.whatif.model.cases import ProfileRules


class NoSuchBrokerage(NotFound):
    """The profile has no brokerage of that name."""


class UnusableProfile(BrokerError):
    """The profile, or the requested brokerage, is missing or invalid."""

    exit_status = WRONG_USAGE


def chain_of(brokerage: str, folder: Path | None = None, profile: str | None = None) -> RuleChain:
    """The ordered rules of a brokerage in a profile, by default the one named in ``broker.yaml``.

    Args:
        brokerage: name of the brokerage.
        folder: folder with the operator's own configuration files; by default the shipped ones.
        profile: name of the profile.

    Raises:
        NoSuchBrokerage: the profile has no brokerage of this name.
        UnusableProfile: the profile is invalid.
    """
    name = profile or _profile_name(folder)
    try:
        loaded = load_profile(name, folder)
        return build_chain(loaded.of(brokerage), RuleChain)
    except NotInProfile as error:
        known = [entry.brokerage for entry in loaded.brokerages]
        remedy = did_you_mean(brokerage, known, f"known are {', '.join(known)}")
        raise NoSuchBrokerage(f"no such brokerage: {brokerage[:60]}", f"profile {name}", remedy) from error
    except (OSError, ProfileError, RuleError) as error:
        file = str(profile_file(name, folder))
        raise UnusableProfile(str(error), file, "correct the profile, or name a brokerage that it has") from error


def brokerages_in_force(folder: Path | None = None) -> tuple[str, ...]:
    """The names of the brokerages in the profile named in ``broker.yaml``, in its order.

    Args:
        folder: folder with the operator's own configuration files; by default the shipped ones.

    Raises:
        UnusableProfile: the profile is invalid.
    """
    return tuple(entry.brokerage for entry in rule_set(folder).profile.brokerages)


def rules_in_force(brokerage: str, folder: Path | None = None, switches: Mapping[str, bool] | None = None) -> Rules:
    """The configured rules by which a brokerage decides, with some of them switched on or off.

    Args:
        brokerage: name of the brokerage.
        folder: folder with the operator's own configuration files; by default the shipped ones.
        switches: whether each rule is switched on, by name.

    Raises:
        UnusableProfile: there is no such brokerage or rule, or the profile is invalid.
    """
    name = _profile_name(folder)
    try:
        profile = switched(load_profile(name, folder), switches or {})
        return rules_of(profile, brokerage, agent_options(folder).get(brokerage))
    except (OSError, ProfileError, RuleError) as error:
        file = str(profile_file(name, folder))
        raise UnusableProfile(str(error), file, "correct the profile, or name what it has") from error


def rule_set(folder: Path | None, name: str | None = None) -> ProfileRules:
    """The rules of all brokerages in force, or those of the profile ``name``, for a comparison.

    Raises:
        BrokerError: the profile is unusable.
    """
    name = name or _profile_name(folder)
    try:
        profile = load_profile(name, folder)
    except (OSError, ProfileError) as error:
        raise BrokerError(str(error), str(profile_file(name, folder)), "correct the profile") from error
    return ProfileRules(profile, agent_options(folder))


def by_profile(process: ProcessSettings, name: str) -> ProcessSettings:
    """The settings of a process with another profile.

    Raises:
        UnusableProfile: there is no such profile, or it is invalid.
    """
    try:
        for entry in load_profile(name, process.folder).brokerages:
            build_chain(entry, RuleChain)
    except (OSError, ProfileError, RuleError) as error:
        file = str(profile_file(name, process.folder))
        raise UnusableProfile(str(error), file, "name a profile that is there") from error
    return process.model_copy(update={"profile": name})


def agent_options(folder: Path | None) -> dict[str, Mapping[str, object]]:
    """The options of each agent in ``agents.yaml``, by its name."""
    agents = load(config_file("agents.yaml", folder), registry.NAMES).agents
    return {name: section.options for name, section in agents.items()}


def _profile_name(folder: Path | None) -> str:
    return load_process(config_file("broker.yaml", folder), folder).profile
