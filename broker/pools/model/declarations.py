"""What is declared about the parameters that jobs may require: whether they are numbers, and which values there are.

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
    """One parameter.

    Attributes:
        kind: as declared; None: found out from the rest, or from the literal.
        unit: of a number, for people; values carry none.
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
        """The kind: declared, else number if it has a limit, else text if it has choices."""
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
        """The declaration of a parameter; an empty one when there is none."""
        return self.by_name.get(name, Declaration())

    def overridden_by(self, other: Declarations) -> Declarations:
        """These, with the declarations of ``other`` in their place; limits that it does not name stay."""
        merged = dict(self.by_name)
        for name, said in other.by_name.items():
            known = self.of(name)
            merged[name] = replace(
                known,
                kind=said.kind or known.kind,
                unit=said.unit or known.unit,
                smallest=known.smallest if said.smallest is None else said.smallest,
                largest=known.largest if said.largest is None else said.largest,
                choices=said.choices or known.choices,
            )
        return Declarations(merged)

    @property
    def numbers(self) -> frozenset[str]:
        """The names of the parameters that are numbers."""
        return frozenset(name for name, one in self.by_name.items() if one.effective_kind == "number")


NOTHING_DECLARED = Declarations()
