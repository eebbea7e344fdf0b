"""Loads ``config/agents.yaml`` and ``config/broker.yaml`` as typed values, and finds the section of each agent.

A brokerage of another distribution needs no section in ``agents.yaml``: its default section applies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.service.clock import AGREE_FOR_S
from broker import resources
from broker.brokerages.profile import Profile, ProfileError, read_profile
from broker.brokerages.registry import brokerage, offered
from broker.errors import BrokerError, Refused
from broker.store.schema.migrate import STANDALONE
from broker.store.service.leases import LeaseTerms, Seconds as Seconds
from broker.wrong_values import what_is_wrong
from broker.yaml_text import read_yaml, read_yaml_once

MOST_PARTS = 64
"""Upper limit for the parts into which the work of an agent is divided: there are hardly more shares than this."""


class ConfigurationError(BrokerError):
    """The file cannot be used; nothing was started."""


class Section(BaseModel):
    """A part of a configuration file: it takes no unknown names, and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


SectionT = TypeVar("SectionT", bound=BaseModel)
AS_SHIPPED = "compare with the file that is shipped"


def read_file(
    path: Path, kind: type[SectionT], remedy: str = AS_SHIPPED, prepared: Callable[[Any], Any] = lambda content: content
) -> SectionT:
    """Read a configuration file as typed values; an empty file has all its defaults.

    Args:
        path: path of the file.
        kind: model of the content.
        remedy: what to do about an error.
        prepared: transforms the content before it is checked.

    Raises:
        ConfigurationError: the file is missing, is not YAML, or has unknown names or wrong values, each named.
    """
    try:
        content = read_yaml_once(path.read_text(encoding="utf-8"))
        return kind.model_validate(prepared({} if content is None else content))
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), remedy) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(str(error), str(path), remedy) from error


@dataclass(frozen=True)
class LeaseSection(LeaseTerms):
    """``leases``: how long leases last."""


class ServiceSection(Section):
    """``service``: stopping, heartbeat and retries of the whole process."""

    stop_within_s: Seconds = 6.0
    heartbeat_every_s: Seconds = 5.0
    healthy_within_s: Seconds = 30.0
    failing_after: Annotated[int, Field(ge=1)] = 3
    retry_first_s: Seconds = 1.0
    retry_longest_s: Seconds = 30.0
    clock_limit_s: Seconds = 30.0
    clocks_agree_for_s: Seconds = AGREE_FOR_S


class AgentSection(Section):
    """One entry of ``agents``. ``options`` are checked by the agent that they are for.

    ``enabled``: ``auto`` is on where the tables are the broker's own, and off alongside PanDA until it is set to true.
    ``parts``: into how many parts the work is divided, each under a lease of its own, for several brokers at once.
    """

    enabled: bool | Literal["auto"] = True
    period_s: Seconds
    cycle_budget_s: Seconds
    misfire_grace_s: Seconds = 30.0
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    options: dict[str, Any] = Field(default_factory=dict)

    def runs(self, installation: str) -> bool:
        """Whether the agent runs in an ``installation`` that is standalone or alongside PanDA."""
        return installation == STANDALONE if self.enabled == "auto" else self.enabled


class AgentsConfiguration(Section):
    """All of ``config/agents.yaml``, checked; what it leaves out has its default.

    With ``extends: shipped`` that is what the shipped file says; else agents that it does not name do not run.
    """

    extends: Literal["shipped"] | None = None
    leases: LeaseSection = LeaseSection()
    service: ServiceSection = ServiceSection()
    agents: dict[str, AgentSection]


def config_file(name: str, folder: Path | None = None) -> Path:
    """Return the path of the configuration file ``name``: the one in ``folder`` if it exists, else the shipped one."""
    own_file = None if folder is None else folder / name
    return own_file if own_file is not None and own_file.exists() else resources.path(f"config/{name}")


def load(path: Path, known_agents: tuple[str, ...]) -> AgentsConfiguration:
    """Read and check the file.

    Raises:
        ConfigurationError: the file is missing, is not YAML, or has unknown names or values out of range.
    """
    configuration = read_file(path, AgentsConfiguration, prepared=_extended)
    unknown = sorted(set(configuration.agents) - set(known_agents))
    if unknown:
        known = ", ".join(known_agents)
        raise ConfigurationError(f"no such agent: {', '.join(unknown)}", str(path), f"known are {known}")
    return configuration


def _extended(content: Any) -> Any:
    """Return the content of ``agents.yaml``, laid over the shipped file if it says so."""
    if isinstance(content, dict) and content.get("extends") == "shipped":
        return laid_over(_shipped_file(), {"agents": {}} | content)
    return content


def laid_over(shipped: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a file over the shipped one: entries that a mapping does not name are as shipped, at every depth."""
    merged = dict(shipped)
    for name, value in own.items():
        below = shipped.get(name)
        merged[name] = laid_over(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


JobGeneration = Literal["auto", "broker", "jedi"]


class JobsAreMadeByJedi(Refused):
    """The broker is configured to create jobs in a database in which JEDI creates them."""

    def __init__(self) -> None:
        super().__init__(
            "job_generation: broker is refused alongside PanDA: a job written without JEDI has no output files, no log "
            "file and no parameters; PanDA never activates it, closes it after TIMEOUT_defined and gives its files "
            "back, so the task would never end",
            "broker.yaml",
            "leave job_generation: auto, and let JEDI make the jobs through the plug-in "
            "(docs/how-to/run-alongside-panda.md)",
        )


class ProcessSettings(BaseModel):
    """The file, and the folder that other configuration files are looked for in.

    Attributes:
        profile: name of the profile under ``config/profiles``.
        job_generation: who makes the jobs.
        job_statistics: where the job counts come from.
        folder: with configuration files of the operator's own; not a word of the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: str = Field(default="seed", pattern=r"^[A-Za-z0-9_-]+$")
    job_generation: JobGeneration = "auto"
    job_statistics: Literal["live", "panda"] = "live"
    folder: Path | None = Field(default=None, exclude=True)

    def makes_jobs(self, installation: str) -> bool:
        """Whether the broker makes the jobs itself, in an ``installation`` that is standalone or alongside PanDA.

        Alongside PanDA it never does: JEDI writes output and log files, their serial numbers and the parameters of a
        job when it makes one, and only jobs that it made are set up and activated.

        Raises:
            JobsAreMadeByJedi: the broker is told to make them alongside PanDA.
        """
        if self.job_generation == "auto":
            return installation == STANDALONE
        if self.job_generation == "broker" and installation != STANDALONE:
            raise JobsAreMadeByJedi
        return self.job_generation == "broker"


def load_process(path: Path, folder: Path | None = None) -> ProcessSettings:
    """Read and check the file; ``folder`` holds the operator's own files.

    Raises:
        ConfigurationError: the file is missing, is not YAML, or has unknown names or wrong values.
    """
    return read_file(path, ProcessSettings).model_copy(update={"folder": folder})


def section_of(configuration: AgentsConfiguration, name: str) -> AgentSection | None:
    """Return the section of an agent: from the file, else the default of an outside brokerage, else None.

    Without a section, an outside brokerage runs where the tables are the broker's own. Alongside PanDA it runs, like
    everything that writes, only once a section says so.

    Raises:
        BrokerageError: the brokerage cannot be loaded.
    """
    if name in configuration.agents:
        return configuration.agents[name]
    if name in _shipped() or name not in offered():
        return None
    outside = brokerage(name)
    return AgentSection(enabled="auto", period_s=outside.period_s, cycle_budget_s=outside.cycle_budget_s)


def sections_to_run(configuration: AgentsConfiguration, profile: Profile) -> Mapping[str, AgentSection]:
    """Return the sections of all agents that a service runs: those of the file, and outside brokerages of the profile.

    An agent of this distribution that the file does not name does not run: the operator has removed it. Nor does a
    brokerage that the profile does not include.
    """
    brokerages = [entry.brokerage for entry in profile.brokerages]
    absent = offered().keys() - set(brokerages)
    more = {name: section_of(configuration, name) for name in brokerages if name not in configuration.agents}
    sections = {**configuration.agents, **{name: section for name, section in more.items() if section is not None}}
    return {name: section for name, section in sections.items() if name not in absent}


@cache
def _shipped() -> Collection[str]:
    """Return the names of the agents in the shipped file."""
    return frozenset(_shipped_file()["agents"])


def _shipped_file() -> dict[str, Any]:
    content: dict[str, Any] = read_yaml(resources.path("config/agents.yaml").read_text(encoding="utf-8"))
    return content


def profile_file(name: str, folder: Path | None = None) -> Path:
    """Return the path of a profile: the one in ``folder`` if it exists, else the shipped one."""
    return config_file(f"profiles/{name}.yaml", folder)


def load_profile(name: str, folder: Path | None = None) -> Profile:
    """Load a profile by name, with the profiles it extends.

    Raises:
        OSError: there is no such profile file.
        ProfileError: the profile is wrong, or extends one that does not exist.
    """
    return read_profile(_text(name, folder), lambda other: _text(other, folder))


def profile_in_force(process: ProcessSettings) -> Profile:
    """Return the profile that ``broker.yaml`` names.

    Raises:
        ConfigurationError: the profile is missing or wrong.
    """
    try:
        return load_profile(process.profile, process.folder)
    except (OSError, ProfileError) as error:
        where = str(profile_file(process.profile, process.folder))
        raise ConfigurationError(str(error), where, "correct the profile") from error


def _text(name: str, folder: Path | None) -> str:
    return profile_file(name, folder).read_text(encoding="utf-8")
