"""The policies that ``broker simulate`` compares: policies by name, own profiles, and values for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.brokerages.profile import Profile
from broker.cli.context import require
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import read_proposals
from broker.simulation.answers.simulated_agents import check_agents_only
from broker.simulation.model.comparing import Case, ScenarioOf
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.policies.base import PROFILES, find_policy
from broker.simulation.model.real.brokered import read_own_profile
from broker.simulation.model.scenario import VO

DEFAULT = "seed"


@dataclass(frozen=True)
class WantedPolicy:
    """A requested policy.

    Attributes:
        label: its name in tables: that of the policy or of the profile.
        profile: the site's own profile, None for a policy that is found by its name.
        values: gdpconfig values that differ from the shipped tuning.
    """

    label: str
    profile: Profile | None = None
    values: tuple[tuple[str, Any], ...] = ()

    def case(self, scenario_of: ScenarioOf, seed: int) -> Case:
        """One simulation with this policy."""
        return Case(self.label, self.label, seed, scenario_of, self.values, self.profile)


def wanted_policies(
    policies: Sequence[str], profiles: Sequence[Path], values: Sequence[str], through_database: bool
) -> list[WantedPolicy]:
    """The distinct policies to compare, in their order; the default one if none is named.

    Args:
        policies: names of policies.
        profiles: files with the site's own profiles.
        values: ``KEY=VALUE``, for all policies with a profile.
        through_database: whether the agents themselves decide.

    Raises:
        ExtraMissing: the packages of the extra ``simulate`` are not installed.
        UnknownPolicyError: there is no such policy.
        SimulationError: two policies have the same name, no policy reads the values, or no agent runs a policy.
        ProfileError: a profile is invalid.
        NotAProposal: a value is not written as KEY=VALUE.
        UnknownKeyError: there is no such key.
        ValueRefusedError: a value is of the wrong type or out of range.
    """
    require("simulate")
    names = list(dict.fromkeys(policies)) or ([] if profiles else [DEFAULT])
    for name in names:
        find_policy(name)
    if through_database:
        check_agents_only(names)
        if profiles or values:
            raise SimulationError(
                "the agents on a database decide by shipped profiles and the shipped tuning",
                "--through-database",
                "leave out --profile and --set, or --through-database",
            )
    settings = tuple((one.key, one.value) for one in read_proposals(shipped_catalogue(), values, VO))
    wanted = [WantedPolicy(name, None, settings if name in PROFILES else ()) for name in names]
    wanted += [WantedPolicy(own.profile, own, settings) for own in map(read_own_profile, profiles)]
    _check(wanted, bool(settings))
    return wanted


def _check(wanted: Sequence[WantedPolicy], has_values: bool) -> None:
    labels = [policy.label for policy in wanted]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise SimulationError(
            f"two policies are called {twice}", "--policy and --profile", "give the profile a name of its own"
        )
    if has_values and not any(policy.values for policy in wanted):
        raise SimulationError(
            f"{', '.join(labels)}: no policy here reads gdpconfig keys",
            "--set",
            f"compare one of {', '.join(PROFILES)}, or a profile of your own",
        )
