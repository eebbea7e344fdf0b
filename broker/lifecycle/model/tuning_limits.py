"""The limits that a version of the tuning gives to timeouts and rebrokerages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from broker.lifecycle.model.analysis_rebrokerage import AnalysisLimits
from broker.lifecycle.model.fast_rebrokerage import FastLimits
from broker.lifecycle.model.limits import HOUR_S, TimeoutLimits, read_limits

RATIO = "FAST_REBRO_THRESHOLD_NQNR_RATIO"
FRACTION = "FAST_REBRO_THRESHOLD_NQUEUE_FRAC"
THRESHOLD = "FAST_REBRO_THRESHOLD_NQUEUE"
TIMEOUT = "ANALY_TIMEOUT"
ACTIVITY = "ANALY_ACTIVITY"
LEAST_WAIT = "ANALY_LEAST_WAIT"


class ValueSource(Protocol):
    """Where a value of the tuning comes from."""

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> Any: ...  # noqa: D102
    @property
    def origin(self) -> str: ...  # noqa: D102


class TuningReader(Protocol):
    """The tuning, as far as limits are read from it."""

    def number(self, key: str) -> float:
        """The value of a numeric key, or its default."""
        ...

    def source_of(self, key: str, *suffixes: str | None) -> ValueSource:
        """The value of a key, or of its family for a suffix, and where it comes from."""
        ...


def timeout_limits(tuning: TuningReader, workflows: set[str]) -> TimeoutLimits:
    """The limits of the timeout rules for these workflows of queues."""

    def own(family: str, suffix: str) -> float | None:
        source = tuning.source_of(family, suffix)
        return float(source.value) if source.origin == "config" and isinstance(source.value, int | float) else None

    return read_limits(tuning, own, workflows)


def fast_limits(tuning: TuningReader, shares: Iterable[str]) -> FastLimits:
    """The limits of fast rebrokerage; a share has a threshold only if a row sets it."""
    thresholds: dict[str | None, float] = {}
    for share in shares:
        source = tuning.source_of(THRESHOLD, share)
        if source.origin == "config" and isinstance(source.value, int | float):
            thresholds[share] = source.value
    return FastLimits(tuning.number(RATIO), tuning.number(FRACTION), thresholds)


def analysis_limits(tuning: TuningReader, groups: Iterable[str]) -> AnalysisLimits:
    """The limits of analysis rebrokerage for these working groups; a group's 0 is no value of its own."""
    by_group_s = {}
    for group in groups:
        own = tuning.source_of(TIMEOUT, group)
        if own.key != TIMEOUT and own.origin == "config" and isinstance(own.value, int | float) and own.value:
            by_group_s[group] = own.value * HOUR_S
    return AnalysisLimits(
        timeout_s=tuning.number(TIMEOUT) * HOUR_S,
        by_group_s=by_group_s,
        activity_s=tuning.number(ACTIVITY) * HOUR_S,
        least_wait_s=tuning.number(LEAST_WAIT) * HOUR_S,
    )
