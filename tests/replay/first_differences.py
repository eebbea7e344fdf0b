"""The first differences between stored decisions and those of today, short enough to be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from broker.decisions.answers.replay import Difference, Replayed

REMEDY = "if the rules were changed on purpose, make the cases anew: python -m tests.replay.make_cases"
DECISIONS, FIELDS, CHARACTERS = 3, 3, 100


def first_differences(differing: Sequence[Replayed], count: int) -> str:
    """A line for each of the first fields of the first decisions that differ.

    Args:
        differing: the decisions that came out differently, or could not be made again.
        count: how many were compared.
    """
    lines = [f"{len(differing)} of {count} decisions differ; {REMEDY}"]
    for one in differing[:DECISIONS]:
        decision = one.stored.record.decision
        lines.append(
            f"decision {one.stored.id} (task {decision.jeditaskid}, dataset {decision.datasetid}): {one.fault}"
        )
        lines += [line for difference in one.differences[:FIELDS] for line in _lines(difference)]
        lines += _and_more(len(one.differences) - FIELDS, "fields")
    return "\n".join([*lines, *_and_more(len(differing) - DECISIONS, "decisions")])


def _and_more(count: int, what: str) -> list[str]:
    return [f"  and {count} more {what}"] if count > 0 else []


def _lines(difference: Difference) -> list[str]:
    stored, again, name = difference.stored, difference.again, difference.field
    if isinstance(stored, list) and isinstance(again, list):
        at = next(i for i in range(len(stored) + 1) if stored[i : i + 1] != again[i : i + 1])
        name, stored, again = f"{name}[{at}]", _at(stored, at), _at(again, at)
    return [f"  {name}", f"    stored {_short(stored)}", f"    again  {_short(again)}"]


def _at(values: list[Any], position: int) -> Any:
    return values[position] if position < len(values) else None


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}..."
