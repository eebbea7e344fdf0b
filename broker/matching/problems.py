"""Problems of a requirement, and where they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One problem of a requirement.

    Attributes:
        position: character of the text, from 1.
        what: what is wrong there.
        accepted: the forms that are accepted instead.
        fatal: the meaning cannot be known, so that nothing matches; otherwise the part has no effect, or a known one.
        is_text: what looks like JSON is none, so that it is read as an old string.
    """

    position: int
    what: str
    accepted: str
    fatal: bool = False
    is_text: bool = False

    def __str__(self) -> str:
        return f"character {self.position}: {self.what}; accepted: {self.accepted}"


class RequirementError(ValueError):
    """A requirement with problems; the text is that of the first of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(str(problems[0]))
        self.problems = problems
