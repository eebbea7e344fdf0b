"""The first differences between stored and current decisions, short enough to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from broker.decisions.answers.replay import Difference, ReplayResult

REMEDY = "if the rules were changed on purpose, make the cases anew: python -m tests.replay.make_cases"
DECISIONS, FIELDS, CHARACTERS = 3, 3, 100


def first_differences(differing: Sequence[ReplayResult], count: int) -> str:
    """Describe the first fields of the first decisions that differ, one field after another.

    Args:
        differing: the decisions that changed or could not be repeated.
        count: the number of decisions compared.
    """
    lines = [f"{len(differing)} of {count} decisions differ; {REMEDY}"]
    for result in differing[:DECISIONS]:
        decision = result.stored.record.decision
        lines.append(
            f"decision {result.stored.id} (task {decision.jeditaskid}, dataset {decision.datasetid}): {result.fault}"
        )
        lines += [line for difference in result.differences[:FIELDS] for line in _lines(difference)]
        lines += _and_more(len(result.differences) - FIELDS, "fields")
    return "\n".join([*lines, *_and_more(len(differing) - DECISIONS, "decisions")])


def _and_more(count: int, unit: str) -> list[str]:
    return [f"  and {count} more {unit}"] if count > 0 else []


def _lines(difference: Difference) -> list[str]:
    stored_value, new_value, name = difference.stored, difference.again, difference.field
    if isinstance(stored_value, list) and isinstance(new_value, list):
        index = next(i for i in range(len(stored_value) + 1) if stored_value[i : i + 1] != new_value[i : i + 1])
        name, stored_value, new_value = f"{name}[{index}]", _at(stored_value, index), _at(new_value, index)
    return [f"  {name}", f"    stored {_short(stored_value)}", f"    again  {_short(new_value)}"]


def _at(values: list[Any], position: int) -> Any:
    return values[position] if position < len(values) else None


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}..."
