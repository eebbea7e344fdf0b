"""The brokerages that installed distributions offer, by name: this one's, and those of others."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from broker.brokerages.base import Brokerage
from broker.brokerages.offered import GROUP, offered

__all__ = ["GROUP", "AnyBrokerage", "BrokerageError", "brokerage", "load", "offered"]

AnyBrokerage = Brokerage[Any, Any]


class BrokerageError(Exception):
    """A brokerage that is missing or cannot be loaded; the message names it and what to do."""


@cache
def brokerage(name: str) -> AnyBrokerage:
    """The brokerage ``name``.

    Raises:
        BrokerageError: no installed distribution offers it, or it cannot be loaded.
    """
    points = offered()
    if name not in points:
        raise BrokerageError(f"no installed distribution offers the brokerage {name}; there are {', '.join(points)}")
    return load(points[name])


def load(point: EntryPoint) -> AnyBrokerage:
    """The brokerage of an entry point.

    Raises:
        BrokerageError: it cannot be loaded, or is none.
    """
    try:
        found = point.load()()
    except Exception as error:  # whatever an outside module raises on import is a fault of that distribution
        raise BrokerageError(
            f"brokerage {point.name}: {point.value} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Brokerage):
        raise BrokerageError(
            f"brokerage {point.name}: {point.value} gave a {type(found).__name__}, not a Brokerage; "
            "install the distribution that offers it anew"
        )
    return found
