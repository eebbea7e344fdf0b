"""Facts for toy rules: neutral except for the given columns."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.facts import JobFacts
from tests.rules.builders import CHUNK_FACTS, DTYPES, NEUTRAL, NOW_S, QUEUE_FACTS


def toy_facts(initial: Any, **columns: Any) -> JobFacts:
    """Facts for the chunks and candidates of ``initial`` (T, Q); a scalar holds everywhere."""
    initial = np.array(initial, dtype=np.bool_)
    chunks, queues = initial.shape
    values: dict[str, Any] = {}
    for field in dataclasses.fields(JobFacts):
        kind = str(field.type)
        if kind not in DTYPES:
            values[field.name] = None  # no toy rule reads it
            continue
        shape = (
            (chunks, 1) if field.name in CHUNK_FACTS else (1, queues) if field.name in QUEUE_FACTS else initial.shape
        )
        column = np.array(columns.pop(field.name, NEUTRAL[kind]), dtype=DTYPES[kind])
        values[field.name] = np.broadcast_to(column, shape).copy()
    assert not columns, f"JobFacts has no {sorted(columns)}"
    return JobFacts(**{**values, "initial": initial, "now_s": NOW_S})
