"""Declarations of the parameters that jobs may require: whether they are numbers, and their possible values.

Source: DIRAC RFC 7, the description of parameters in the ``JobDescription`` section.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

PropertyType = Literal["number", "text"]


@dataclass(frozen=True)
class Declaration:
    """The declaration of one parameter.

    Attributes:
        kind: the declared kind; None: derived from the other fields, or from the literal.
        unit: unit of a number, for humans; values have no unit.
        smallest: a requirement below it is refused.
        largest: a requirement above it is refused.
        choices: the only texts that are accepted; empty: any.
    """

    kind: PropertyType | None = None
    unit: str | None = None
    smallest: Decimal | None = None
    largest: Decimal | None = None
    choices: frozenset[str] = frozenset()

    @property
    def effective_kind(self) -> PropertyType | None:
        """The declared kind, else number if there is a limit, else text if there are choices."""
        if self.kind is not None:
            return self.kind
        if self.smallest is not None or self.largest is not None:
            return "number"
        return "text" if self.choices else None


@dataclass(frozen=True)
class Declarations:
    """All declarations, by the exact name of the parameter."""

    by_name: Mapping[str, Declaration] = field(default_factory=dict)

    def of(self, name: str) -> Declaration:
        """The declaration of a parameter; an empty one if there is none."""
        return self.by_name.get(name, Declaration())

    def overridden_by(self, other: Declarations) -> Declarations:
        """These declarations, overridden by those of ``other``; limits that ``other`` does not name stay."""
        merged = dict(self.by_name)
        for name, override in other.by_name.items():
            known = self.of(name)
            merged[name] = replace(
                known,
                kind=override.kind or known.kind,
                unit=override.unit or known.unit,
                smallest=known.smallest if override.smallest is None else override.smallest,
                largest=known.largest if override.largest is None else override.largest,
                choices=override.choices or known.choices,
            )
        return Declarations(merged)

    @property
    def numbers(self) -> frozenset[str]:
        """The names of the parameters that are numbers."""
        return frozenset(name for name, declaration in self.by_name.items() if declaration.effective_kind == "number")


NOTHING_DECLARED = Declarations()
