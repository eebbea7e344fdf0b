"""Answers to why-not as objects for programs and as sentences for people; only here do reasons become text."""

from __future__ import annotations

import dataclasses
from typing import Any

from broker.domain.decisions import Observation
from broker.engine.shared.answer import CHOSEN, Answer


def describe_answer(answer: Answer) -> dict[str, Any]:
    """An answer to why-not as an object."""
    seen = None if answer.observation is None else dataclasses.asdict(answer.observation)
    return {
        "queue": answer.queue,
        "code": answer.code,
        "rule": answer.rule,
        "kind": answer.kind,
        "title": answer.title,
        "value": None if seen is None else seen["value"],
        "operator": None if seen is None else seen["operator"],
        "limit": None if seen is None else seen["limit"],
        "unit": None if seen is None else seen["unit"],
        "key": None if seen is None else seen["key"],
        "inputs": {} if seen is None else seen["inputs"],
    }


def sentence(answer: Answer) -> str:
    """The answer in words."""
    if answer.code == CHOSEN:
        return f"{answer.queue}: chosen."
    text = f"{answer.queue}: {answer.code}. {answer.title}."
    return text if answer.observation is None else f"{text} {_comparison(answer.observation)}"


def _comparison(seen: Observation) -> str:
    unit = "" if seen.unit in ("", "-") else f" {seen.unit}"
    words = {"<": "below", "<=": "at most", ">": "above", ">=": "at least", "==": "equal to", "!=": "other than"}
    operator = words.get(seen.operator, seen.operator)
    inputs = ", ".join(f"{name} {_short(value)}" for name, value in seen.inputs.items())
    origin = f" (from {inputs})" if inputs else ""
    return (
        f"Seen {_short(seen.value)}{unit}, asked for {operator} {_short(seen.limit)}{unit}, set by {seen.key}{origin}."
    )


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "nothing" if value is None else str(value)
