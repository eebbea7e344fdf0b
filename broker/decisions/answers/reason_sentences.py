"""Reasons in words: what is missing, what is wrong, who can act."""

from __future__ import annotations

from collections.abc import Mapping

from broker.decisions.answers.known_reasons import reason_of
from broker.domain.reason import Reason, Who

WHO: Mapping[Who, str] = {
    "you": "whoever submitted the work",
    "wait": "nobody has to, since it passes by itself",
    "ask": "the site or the operators",
}


def no_queue_that(code: str, kind: str, brokerage: str | None = None) -> str:
    """``No queue offers enough memory``; for a reason without such a phrase, which rule rejects them."""
    reason = reason_of(code, brokerage)
    return f"No {kind} {reason.no_candidate}" if reason and reason.no_candidate else f"No {kind} passes {code}"


def about_work(code: str, brokerage: str | None = None) -> str:
    """What is wrong with the input, or with the work itself."""
    reason = reason_of(code, brokerage)
    return f"The work cannot be brokered now: {code.replace('_', ' ')}." if reason is None else sentence(reason)


def cure(code: str, brokerage: str | None = None) -> str:
    """What can be done about work that waits for a reason, with Markdown's backticks; empty where nothing is known."""
    reason = reason_of(code, brokerage)
    return "" if reason is None else reason.cure


def sentence(reason: Reason) -> str:
    """What is wrong, such as ``The job needs more memory than a slot of the queue has.``."""
    return f"{reason.wrong}."
