"""Answers to why-not as objects for programs and as sentences for people; only here do reasons become text."""

from __future__ import annotations

import dataclasses
from typing import Any

from broker.decisions.answers.parts import compared
from broker.decisions.answers.phrases import comparison, number
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
    """The answer in words: ``BNL/MCORE: lowmemory. ...: requires 4,000 MB, limit 2,000 MB (queue.maxrss).``."""
    if answer.code == CHOSEN:
        return f"{answer.queue}: chosen."
    text = f"{answer.queue}: {answer.code}. {answer.title}"
    seen = compared(answer.observation)
    if seen is None:
        return f"{text}."
    inputs = ", ".join(f"{name} {number(value)}" for name, value in seen.inputs.items() if name != "rejected")
    origin = f" from {inputs}" if inputs else ""
    return f"{text}: {comparison(seen)}{origin}."
