"""Any answer of the API in sentences, for tools of assistants; an answer that is only data by its subject and size."""

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


def _decision(answer: TaskDecision) -> Iterator[str]:
    for decision in answer.decisions:
        yield f"{decided.verdict_sentence(decision)} {decided.waiting_sentence(decision)}".strip()
        yield decided.cure_sentence(decision)
        yield from decided.missing_sentences(decision)
    if answer.start is not None:
        yield answer.start.sentence


def _why_not(answer: WhyNot) -> Iterator[str]:
    yield from (decided.candidate_sentence(line.candidate) for line in answer.answers)


def _alarms(answer: Alarms) -> Iterator[str]:
    if not answer.alarms:
        yield "No alarm."
    for line in alarm_lines(answer.alarms):
        yield f"{line.severity}: {line.sentence}."


def _history(answer: History) -> Iterator[str]:
    yield from (f"{event.at:%Y-%m-%d %H:%M} {event_sentence(event)}." for event in answer.events[-MOST_SENTENCES:])


_WORDS: Mapping[str, tuple[Any, Callable[[Any], Iterable[str]]]] = {
    "TaskDecision": (TaskDecision, _decision),
    "WhyNot": (WhyNot, _why_not),
    "History": (History, _history),
    "QueueAnswer": (QueueAnswer, queue_sentences),
    "UserAnswer": (UserAnswer, throttle_sentences),
    "Alarms": (Alarms, _alarms),
    "Quality": (Quality, lambda answer: (quality_sentence(answer),)),
    "Shadow": (Shadow, compared_sentences),
    "Gate": (Gate, lambda answer: (verdict_sentence(answer),)),
}
"""Wording of answers, by the name of their schema."""


def answer_text(schema: str, document: Mapping[str, Any]) -> str:
    """Describe an answer in sentences; empty if it is only data.

    Args:
        schema: name of its schema in the API description.
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
        except ValidationError:  # from a broker of another version
            return ()
    parts = (document, *(part for part in document.values() if isinstance(part, Mapping)))
    return tuple(part[SENTENCE] for part in parts if isinstance(part.get(SENTENCE), str))
