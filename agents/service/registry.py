"""The agents of this installation, by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.names import BROKERAGES, CLASSES, NAMES
from broker.wrong_values import what_is_wrong

if TYPE_CHECKING:
    from agents.service.base import Agent

__all__ = ["BROKERAGES", "CLASSES", "NAMES", "make"]


def make(name: str, options: Mapping[str, Any], process: ProcessSettings) -> Agent[Any]:
    """Create the agent ``name`` with its ``options`` from the configuration, in a process with these settings.

    Raises:
        KeyError: there is no such agent.
        ConfigurationError: an option is unknown or out of range.
    """
    try:
        if name in BROKERAGES:
            return _brokerage_agent(name, options, process)
        module, _, class_name = CLASSES[name].partition(":")
        agent_class: type[Agent[Any]] = getattr(importlib.import_module(module), class_name)
        return agent_class(agent_class.options_type.model_validate(dict(options)), process)
    except ValidationError as error:
        where = f"config/agents.yaml, options of {name}"
        raise ConfigurationError(what_is_wrong(error), where, "correct or remove them") from error


def _brokerage_agent(name: str, options: Mapping[str, Any], process: ProcessSettings) -> Agent[Any]:
    from agents.brokerage.agent import BrokerageAgent, tables_class
    from broker.brokerages.registry import brokerage

    outside = brokerage(name)
    return BrokerageAgent(outside, tables_class(outside).options_type.model_validate(dict(options)), process)
