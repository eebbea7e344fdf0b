"""What is wrong with a job, a node or a canonical text that is refused."""

from __future__ import annotations

from broker.matching.specs.documents import Number

_SHOWN = 80


class SpecRefused(ValueError):
    """A document that has no meaning here; nothing is guessed from it.

    Attributes:
        field: where it stands, as ``matching_specs[0].cpu.num-cores.max``; empty for the document as a whole.
        value: what stands there, as it was written; None where nothing does.
        detail: what is wrong, for a person.
    """

    def __init__(self, field: str, value: object, detail: str) -> None:
        self.field, self.value, self.detail = field, shown(value), detail
        super().__init__(str(self))

    def __str__(self) -> str:
        where = self.field or "the document"
        return f"{where}: {self.detail}" if self.value is None else f"{where}: {self.value}: {self.detail}"


def shown(value: object) -> str | None:
    """A value of a document as it is told; None for none."""
    if value is None:
        return None
    text = value.text if isinstance(value, Number) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
