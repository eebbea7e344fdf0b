"""``config/agents.yaml`` as typed values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.service.clock import AGREE_FOR_S
from broker import resources
from broker.errors import BrokerError
from broker.store.schema.migrate import STANDALONE
from broker.store.service.leases import LeaseTerms
from broker.wrong_values import what_is_wrong
from broker.yaml_text import read_yaml

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

MOST_PARTS = 64
"""Parts into which the work of an agent may be divided: there are hardly more shares than this."""


class ConfigurationError(BrokerError):
    """The file cannot be used; nothing was started."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LeaseSection(_Section):
    """``leases``: see :class:`broker.store.service.leases.LeaseTerms`."""

    length_s: Seconds = 15.0
    renew_every_s: Seconds = 5.0
    distrust_before_s: Seconds = 2.0
    longest_s: Seconds = 60.0


class ServiceSection(_Section):
    """``service``: stopping, heartbeat and retries of the whole process."""

    stop_within_s: Seconds = 6.0
    heartbeat_every_s: Seconds = 5.0
    healthy_within_s: Seconds = 30.0
    failing_after: Annotated[int, Field(ge=1)] = 3
    retry_first_s: Seconds = 1.0
    retry_longest_s: Seconds = 30.0
    clock_limit_s: Seconds = 30.0
    clocks_agree_for_s: Seconds = AGREE_FOR_S


class AgentSection(_Section):
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


class AgentsConfiguration(_Section):
    """All of ``config/agents.yaml``, checked; what it leaves out has its default."""

    leases: LeaseSection = LeaseSection()
    service: ServiceSection = ServiceSection()
    agents: dict[str, AgentSection]

    @property
    def lease_terms(self) -> LeaseTerms:
        """``leases`` as the store wants it."""
        return LeaseTerms(**self.leases.model_dump())


def config_file(name: str, folder: Path | None = None) -> Path:
    """The configuration file ``name``: that in ``folder`` if it is there, else the shipped one."""
    own = None if folder is None else folder / name
    return own if own is not None and own.exists() else resources.path(f"config/{name}")


def load(path: Path, known_agents: tuple[str, ...]) -> AgentsConfiguration:
    """Read and check the file.

    Raises:
        ConfigurationError: it is missing, no YAML, has unknown names, or values out of range.
    """
    remedy = "compare with the file that is shipped"
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        configuration = AgentsConfiguration.model_validate(content)
        _ = configuration.lease_terms
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), remedy) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(str(error), str(path), remedy) from error
    unknown = sorted(set(configuration.agents) - set(known_agents))
    if unknown:
        known = ", ".join(known_agents)
        raise ConfigurationError(f"no such agent: {', '.join(unknown)}", str(path), f"known are {known}")
    return configuration
