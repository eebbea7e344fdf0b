"""Answers as templates read them: a field is converted when a page first reads it, and most never are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from broker.api.plain import plain


class PlainFields(Mapping[str, Any]):
    """The fields of an answer by name, converted by :func:`broker.api.plain.plain`.

    Args:
        answer: an answer that no longer changes.
    """

    __slots__ = ("_answer", "_cache")

    def __init__(self, answer: BaseModel) -> None:
        self._answer = answer
        self._cache: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._cache:
            if name not in self._names():
                raise KeyError(name)
            self._cache[name] = plain(getattr(self._answer, name))
        return self._cache[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> dict[str, None]:
        return dict.fromkeys([*self._answer.__dict__, *type(self._answer).model_computed_fields])
