"""The values of the sources of other distributions: each source builds its own. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import SourceError
from broker.snapshot.source_list import NAMES
from broker.snapshot.source_points import outside_source
from broker.snapshot.source_states import SourceState


def with_outside_sources(snapshot: Snapshot, sources: Mapping[str, RawSource]) -> Snapshot:
    """The snapshot with ``offered`` filled from those of ``sources`` that are not of this distribution.

    A source that cannot be built, or is not installed any more, has the state ``failed`` with the reason, so that rules
    which need it answer *unknown*.
    """
    names = sorted(set(sources) - set(NAMES))
    if not names:
        return snapshot
    values: dict[str, Any] = {}
    states = {state.name: state for state in snapshot.states}
    for name in names:
        try:
            values[name] = outside_source(name).build(sources[name], snapshot)
        except SourceError as error:
            states[name] = _failed(states, name, str(error))
        except Exception as error:  # a broken source must not stop the broker: its state says so
            states[name] = _failed(states, name, f"{type(error).__name__}: {error}"[:200])
    return dataclasses.replace(snapshot, offered=values, states=tuple(states.values()))


def _failed(states: Mapping[str, SourceState], name: str, detail: str) -> SourceState:
    known = states.get(name, SourceState(name, "failed", 0, None, None))
    return dataclasses.replace(known, state="failed", detail=detail)
