"""A client of the HTTP API: its methods are the commands of ``broker``, its answers the objects of ``--json``."""

from __future__ import annotations

from gridbroker_client.client import BrokerClient
from gridbroker_client.connection import BrokerConnection, BrokerProblem, BrokerUnreachable
from gridbroker_client.tokens import NoToken, find_token, token_from_file

__all__ = [
    "BrokerClient",
    "BrokerConnection",
    "BrokerProblem",
    "BrokerUnreachable",
    "NoToken",
    "find_token",
    "token_from_file",
]
