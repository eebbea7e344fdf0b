"""Answers in words, as commands and pages say them; of the others what is asked, and how much there is of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from broker.alongside.answers.sentences import compared_sentences, verdict_sentence
from broker.alongside.answers.shadow_models import Gate, Shadow
from broker.decisions.answers import sentences as decided
from broker.decisions.answers.decision_model import TaskDecision, WhyNot
from broker.flow.answers.quality import Quality, quality_sentence
from broker.grid.answers.models import QueueAnswer
from broker.grid.answers.queue import queue_sentences
from broker.history.answers.history import History, event_sentence
from broker.history.answers.list_models import UserAnswer
from broker.history.answers.user import throttle_sentences
from broker.service.answers.alarm_sentences import alarm_lines
from broker.service.answers.models import Alarms

SENTENCE, MOST_SENTENCES, MOST_CHARACTERS = "sentence", 12, 2_000


def _decision(found: TaskDecision) -> Iterator[str]:
    for one in found.decisions:
        yield f"{decided.verdict_sentence(one)} {decided.waiting_sentence(one)}".strip()
        yield decided.cure_sentence(one)
        yield from decided.missing_sentences(one)
    if found.start is not None:
        yield found.start.sentence


def _why_not(found: WhyNot) -> Iterator[str]:
    yield from (decided.candidate_sentence(line.candidate) for line in found.answers)


def _alarms(found: Alarms) -> Iterator[str]:
    if not found.alarms:
        yield "No alarm."
    for line in alarm_lines(found.alarms):
        yield f"{line.severity}: {line.sentence}."


def _history(found: History) -> Iterator[str]:
    yield from (f"{one.at:%Y-%m-%d %H:%M} {event_sentence(one)}." for one in found.events[-MOST_SENTENCES:])


_WORDS: Mapping[str, tuple[Any, Callable[[Any], Iterable[str]]]] = {
    "TaskDecision": (TaskDecision, _decision),
    "WhyNot": (WhyNot, _why_not),
    "History": (History, _history),
    "QueueAnswer": (QueueAnswer, queue_sentences),
    "UserAnswer": (UserAnswer, throttle_sentences),
    "Alarms": (Alarms, _alarms),
    "Quality": (Quality, lambda found: (quality_sentence(found),)),
    "Shadow": (Shadow, compared_sentences),
    "Gate": (Gate, lambda found: (verdict_sentence(found),)),
}
"""How answers are said, by the name of their schema."""


def said(schema: str, document: Mapping[str, Any]) -> str:
    """What an answer says, in sentences; empty where it is only data.

    Args:
        schema: its name in the description of the API.
        document: the answer.
    """
    sentences = list(dict.fromkeys(filter(None, _sentences(schema, document))))[:MOST_SENTENCES]
    text = " ".join(sentences)
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rpartition(" ")[0] + " ..."


def _sentences(schema: str, document: Mapping[str, Any]) -> Iterable[str]:
    if schema in _WORDS:
        model, words = _WORDS[schema]
        try:
            return tuple(words(TypeAdapter(model).validate_python(document)))
        except ValidationError:  # of a broker of another version
            return ()
    parts = (document, *(one for one in document.values() if isinstance(one, Mapping)))
    return tuple(one[SENTENCE] for one in parts if isinstance(one.get(SENTENCE), str))
