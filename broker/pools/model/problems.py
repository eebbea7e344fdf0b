"""What is wrong with requirements that are refused: a stable code, the name, and the place in the text."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A character of a text: line and column, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class RequirementRefused(ValueError):
    """Requirements that have no meaning here; nothing is guessed from them.

    Attributes:
        code: what is wrong, short and stable, as in docs/explanation/submit-pools.md.
        detail: the same for a person.
        name: of the requirement or keyword; None when it is about the text as a whole.
        place: in the text; None when the requirements did not come from a text.
    """

    def __init__(self, code: str, detail: str, name: str | None = None, place: Place | None = None) -> None:
        super().__init__(code, detail, name, place)
        self.code = code
        self.detail = detail
        self.name = name
        self.place = place

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.name, str(self.place) if self.place else None) if part)
        return f"{self.code}: {self.detail}" + (f" ({where})" if where else "")

    def at(self, place: Place | None) -> RequirementRefused:
        """The same with a place, if it has none."""
        return RequirementRefused(self.code, self.detail, self.name, self.place or place)
