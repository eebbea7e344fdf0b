"""The names of the agents in this installation, known without loading any of them."""

from __future__ import annotations

from broker.brokerages.offered import SHIPPED, offered
from broker.feature import agent_classes

CLASSES = agent_classes()
"""Agents that are not brokerages, as ``module:class``."""

BROKERAGES = (*(name for name in SHIPPED if name in offered()), *(name for name in offered() if name not in SHIPPED))
"""Names of the brokerages, this distribution's first, in the order in which work passes through them."""

NAMES = (*BROKERAGES, *CLASSES)
"""Names of all agents. Each brokerage is one."""
