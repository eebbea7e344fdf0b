"""Limits of sources in ``config/sources.yaml``; a source that is not listed has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from broker.snapshot.source import AnySource, Source, SourceLimit
from broker.snapshot.source_list import GRID_SOURCES
from broker.snapshot.source_points import offered

LIMIT_KEYS = ("max_age_s", "may_be_empty", "max_shrink")


def limits_of(settings: Mapping[str, object], outside: Sequence[Source] = ()) -> dict[str, SourceLimit]:
    """The limits as configured, one entry a source; that of the source itself where none is set.

    Raises:
        ValueError: a source or limit that does not exist, or a value that is not of the right kind and range.
    """
    known: dict[str, AnySource] = {one.name: one for one in (*GRID_SOURCES, *outside)}
    # a limit may stand there for a source that no rule of this brokerage names
    unknown = sorted(set(settings) - set(known) - set(offered()))
    if unknown:
        raise ValueError(f"config/sources.yaml: {', '.join(unknown)}: no such source; there are {', '.join(known)}")
    return {
        name: replace(_limit_of(name, settings[name]), main_table=source.limit.main_table)
        if name in settings
        else source.limit
        for name, source in known.items()
    }


def _limit_of(name: str, entry: object) -> SourceLimit:
    place = f"config/sources.yaml: {name}"
    if not isinstance(entry, Mapping):
        raise ValueError(f"{place} must hold {', '.join(LIMIT_KEYS)}, or {{}} for none")
    unknown = sorted(set(entry) - set(LIMIT_KEYS), key=str)
    if unknown:
        raise ValueError(f"{place}: {unknown[0]}: no such limit; there are {', '.join(LIMIT_KEYS)}")
    max_age, shrink, may_be_empty = (
        entry.get("max_age_s"),
        entry.get("max_shrink", 1.0),
        entry.get("may_be_empty", True),
    )
    if max_age is not None and not (_is_number(max_age) and max_age > 0):
        raise ValueError(f"{place}: max_age_s must be a number of seconds above 0")
    if not (_is_number(shrink) and 0 <= shrink <= 1):
        raise ValueError(f"{place}: max_shrink must lie between 0 and 1")
    if not isinstance(may_be_empty, bool):
        raise ValueError(f"{place}: may_be_empty must be true or false")
    return SourceLimit(None if max_age is None else float(max_age), may_be_empty, float(shrink))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
