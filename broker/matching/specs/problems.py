"""What is wrong with a job, a node or a canonical text that is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from broker.matching.specs.documents import Number

_SHOWN = 80
PartT = TypeVar("PartT")
P = ParamSpec("P")


class SpecRefused(ValueError):
    """A document that has no meaning here; nothing is guessed from it.

    Attributes:
        field: path of the value, such as ``matching_specs[0].cpu.num-cores.max``; empty for the document as a whole.
        value: the value as it was written; None where there is none.
        detail: what is wrong, for a person.
        more: further problems elsewhere in the document.
    """

    more: tuple[SpecRefused, ...] = ()

    def __init__(self, field: str, value: object, detail: str) -> None:
        self.field, self.value, self.detail = field, shown(value), detail
        super().__init__(str(self))

    @property
    def what(self) -> str:
        """The value and what is wrong with it."""
        return self.detail if self.value is None else f"{self.value}: {self.detail}"

    def __str__(self) -> str:
        return "; ".join(f"{problem.field or 'the document'}: {problem.what}" for problem in (self, *self.more))


class Faults:
    """The problems of the parts of a document, collected so that all are reported at once."""

    def __init__(self) -> None:
        self._problems: list[SpecRefused] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    def of(self, instead: Any, read: Callable[P, PartT], *args: P.args, **named: P.kwargs) -> PartT:
        """Read a part; if it is refused, note the problem and return ``instead``, which nobody keeps."""
        try:
            return read(*args, **named)
        except SpecRefused as refused:
            self._problems += [refused, *refused.more]
            refused.more = ()
            placeholder: PartT = instead
            return placeholder

    def check(self) -> None:
        """Raise if any problem was noted.

        Raises:
            SpecRefused: the first problem, with the others.
        """
        if self._problems:
            first, *others = self._problems
            first.more = tuple(others)
            raise first


def shown(value: object) -> str | None:
    """A value of a document as messages show it; None for None."""
    if value is None:
        return None
    text = value.text if isinstance(value, Number) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
