"""Tuning that operators change while the broker runs: the typed catalogue of keys, and the values in force.

Source: PanDA's CONFIG table ("gdpconfig") and ATLAS Production Job Brokerage, whose parameters it holds.
"""

from __future__ import annotations

from broker.gdpconfig.catalogue import Catalogue, KeyEntry, UnknownKeyError, shipped_catalogue
from broker.gdpconfig.tuning import KeySource, Tuning, UndeclaredKeyError
from broker.gdpconfig.values import BadRow, ConfigRow

__all__ = [
    "BadRow",
    "Catalogue",
    "ConfigRow",
    "KeyEntry",
    "KeySource",
    "Tuning",
    "UndeclaredKeyError",
    "UnknownKeyError",
    "shipped_catalogue",
]
