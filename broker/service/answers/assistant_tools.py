"""The questions that an assistant may ask, and their answers: those of the API, bounded, each with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.access import policies
from broker.access.policies import OPEN, Policy
from broker.errors import REFUSED, BrokerError
from broker.service.answers.spoken_answers import answer_text
from broker.service.model.bounded_answer import Cut, Place, as_text, bounded, cursor_of, part_at, place_of
from broker.service.model.read_tools import CURSOR, Question, Tool, question_of, read_tools

READING = frozenset(
    one.name for one in vars(policies).values() if isinstance(one, Policy) and not one.writes and one is not OPEN
)
"""Policies of read-only routes, except those about the service as a process."""
NEXT = ("next", "next_after")
MOST_CUTS = 3
Ask = Callable[[Question], Any]
"""Queries the API; raises what its client raises."""


class NeverWrites(BrokerError):
    """A tool would reach a route that is not read-only."""

    exit_status = REFUSED


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool.

    Attributes:
        sentence: the answer in words, with how much is shown.
        answer: the document of the API, or the part of it that a cursor led to.
        left_out: what was cut, with its position and the cursor of the rest.
        cursor: cursor of what follows; None at the end.
    """

    sentence: str
    answer: Any
    left_out: tuple[dict[str, Any], ...]
    cursor: str | None

    def document(self) -> dict[str, Any]:
        """Return the whole answer as one object."""
        answer = self.answer if isinstance(self.answer, dict) else {"items": self.answer}
        return {
            "sentence": self.sentence, "answer": answer, "left_out": list(self.left_out), "cursor": self.cursor,
        }  # fmt: skip


def tools_of(description: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Return the tools of an API with this description."""
    return read_tools(description, READING)


def answer_of(tool: Tool, arguments: Mapping[str, Any], ask: Ask, most_bytes: int) -> ToolAnswer:
    """Return the answer of a tool.

    Args:
        tool: the tool to call.
        arguments: arguments that its schema allows.
        ask: queries the API.
        most_bytes: maximum size of the answer as JSON.

    Raises:
        WrongCursor: the cursor is invalid, or no longer leads anywhere.
    """
    place = place_of(arguments.get(CURSOR))
    document = ask(question_of(tool, arguments, place.after))
    part = document if place.at is None else part_at(document, place)
    shown, cuts = bounded(part, most_bytes, place.at or (), place.first)
    left_out = tuple(_cut_document(cut, place) for cut in cuts)
    following = next((cut[CURSOR] for cut in left_out if cut[CURSOR] is not None), None) or _next_page(document, place)
    return ToolAnswer(_sentence(tool, part, left_out, following), shown, left_out, following)


def _cut_document(cut: Cut, place: Place) -> dict[str, Any]:
    remainder = Place(place.after, cut.at, cut.first + cut.shown)
    where = ".".join(str(step) for step in cut.at)
    cursor = cursor_of(remainder) if cut.follows else None
    return {"where": where, "first": cut.first, "shown": cut.shown, "of": cut.of, CURSOR: cursor}


def _next_page(document: Any, place: Place) -> str | None:
    if not isinstance(document, Mapping):
        return None
    after = next((document[name] for name in NEXT if document.get(name) is not None), None)
    return None if after is None else cursor_of(Place(after))


def _sentence(tool: Tool, part: Any, left_out: tuple[dict[str, Any], ...], following: str | None) -> str:
    words = [answer_text(tool.answers, part) if isinstance(part, Mapping) else ""]
    if not words[0]:
        lists = part.items() if isinstance(part, Mapping) else ()
        counts = [f"{name}: {len(value)}" for name, value in lists if isinstance(value, list)]
        words = [tool.first_sentence, *([f"{', '.join(counts)}."] if counts else [])]
    words += [_shown(cut) for cut in left_out[:MOST_CUTS]]
    if following is not None:
        words.append("Ask again with the cursor for what follows.")
    return " ".join(words)


def _shown(cut: Mapping[str, Any]) -> str:
    last = cut["first"] + cut["shown"]
    return f"{cut['where'] or 'The answer'}: {cut['first'] + 1} to {last} of {cut['of']} are shown."


def shown_document(answer: ToolAnswer) -> str:
    """Return the answer as JSON, for assistants that read only text."""
    return as_text(answer.document())
