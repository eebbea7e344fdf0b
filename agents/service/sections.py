"""The section of an agent in ``agents.yaml``, and that of a brokerage of another distribution, which needs none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from agents.service.configuration import AgentsConfiguration, AgentSection
from broker import resources
from broker.brokerages.profile import Profile
from broker.brokerages.registry import brokerage, offered
from broker.yaml_text import read_yaml


def section_of(configuration: AgentsConfiguration, name: str) -> AgentSection | None:
    """The section of an agent: that of the file, else, for an outside brokerage, what the brokerage says; else None.

    Without a section such a brokerage runs where the tables are the broker's own; alongside PanDA, as all that writes,
    only once a section says so.

    Raises:
        BrokerageError: the brokerage cannot be loaded.
    """
    if name in configuration.agents:
        return configuration.agents[name]
    if name in _shipped() or name not in offered():
        return None
    found = brokerage(name)
    return AgentSection(enabled="auto", period_s=found.period_s, cycle_budget_s=found.cycle_budget_s)


def sections_to_run(configuration: AgentsConfiguration, profile: Profile) -> Mapping[str, AgentSection]:
    """The sections of all agents that a service runs: those of the file, and outside brokerages of the profile.

    An agent of this distribution that the file does not name does not run: the operator has taken it out. Nor does that
    of a brokerage which the profile does not have.
    """
    named = [entry.brokerage for entry in profile.brokerages]
    absent = offered().keys() - set(named)
    more = {name: section_of(configuration, name) for name in named if name not in configuration.agents}
    sections = {**configuration.agents, **{name: section for name, section in more.items() if section is not None}}
    return {name: section for name, section in sections.items() if name not in absent}


@cache
def _shipped() -> Collection[str]:
    """Names of the agents in the shipped file."""
    content = read_yaml(resources.path("config/agents.yaml").read_text(encoding="utf-8"))
    return frozenset(content["agents"])
