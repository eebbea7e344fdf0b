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
        field: where it stands, as ``matching_specs[0].cpu.num-cores.max``; empty for the document as a whole.
        value: what stands there, as it was written; None where nothing does.
        detail: what is wrong, for a person.
        more: what is wrong beside that, elsewhere in the document.
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
        return "; ".join(f"{one.field or 'the document'}: {one.what}" for one in (self, *self.more))


class Faults:
    """What is wrong with the parts of a document, so that all of it is told at once."""

    def __init__(self) -> None:
        self._found: list[SpecRefused] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def of(self, instead: Any, read: Callable[P, PartT], *args: P.args, **named: P.kwargs) -> PartT:
        """What a part says; ``instead``, which nobody keeps, where it is refused, which is noted."""
        try:
            return read(*args, **named)
        except SpecRefused as refused:
            self._found += [refused, *refused.more]
            refused.more = ()
            given: PartT = instead
            return given

    def check(self) -> None:
        """End if anything was noted.

        Raises:
            SpecRefused: the first that was, with the others.
        """
        if self._found:
            first, *others = self._found
            first.more = tuple(others)
            raise first


def shown(value: object) -> str | None:
    """A value of a document as it is told; None for none."""
    if value is None:
        return None
    text = value.text if isinstance(value, Number) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
