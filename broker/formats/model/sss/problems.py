"""What is wrong with a document: where, what was found, and what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ProblemKind = Literal["not-well-formed", "forbidden", "invalid-structure", "invalid-values"]


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        line: in the document, from 1.
        element: that it is about, with the attribute if it is about one; empty for the document as a whole.
        found: what is wrong, short and stable.
        expected: what should stand there.
        is_value: whether a value is wrong, not the structure.
        column: for text that is no XML: bytes from the beginning of the line, from 0.
    """

    line: int
    element: str
    found: str
    expected: str = ""
    is_value: bool = False
    column: int | None = None

    def __str__(self) -> str:
        """The element and the finding, in one line."""
        return f"{self.element}: {self.found}" if self.element else self.found

    def reported(self, file: str) -> str:
        """The finding as compilers tell them: file, line, what is wrong, what was expected."""
        expected = f"; expected {self.expected}" if self.expected else ""
        return f"{file}:{self.line}: {self}{expected}"


class BadDocumentError(ValueError):
    """A document that cannot be used.

    Attributes:
        kind: how far it is from being usable.
        problems: what is wrong, in the order of lines.
    """

    def __init__(self, kind: ProblemKind, problems: tuple[Problem, ...]) -> None:
        super().__init__(kind, problems)
        self.kind = kind
        self.problems = problems

    def __str__(self) -> str:
        """The first finding, in one line."""
        return f"{self.kind}: line {self.problems[0].line}: {self.problems[0]}" if self.problems else self.kind
