"""The names of the agents in this installation, known without loading any of them."""

from __future__ import annotations

from broker.brokerages.offered import offered
from broker.feature import agent_classes

CLASSES = agent_classes()
"""Agents that are not brokerages, as ``module:class``."""

_SHIPPED = ("production_task", "production_job", "analysis_job", "generic_job")

BROKERAGES = (*(name for name in _SHIPPED if name in offered()), *(name for name in offered() if name not in _SHIPPED))
"""Names of the brokerages, this distribution's first, in the order in which work passes through them."""

NAMES = (*BROKERAGES, *CLASSES)
"""Names of all agents. Each brokerage is one."""
