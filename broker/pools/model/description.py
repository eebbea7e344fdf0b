"""A parsed job description of any syntax: values, attributes, sections, and what is refused."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
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
        detail: the same for humans.
        name: name of the requirement or keyword; None if the text as a whole is wrong.
        place: place in the text; None if the requirements did not come from a text.
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
        """The same error, with this place if it has none."""
        return RequirementRefused(self.code, self.detail, self.name, self.place or place)


LONGEST_VALUE = 255
#: Maximum digits of a number before and after the decimal point.
INTEGER_DIGITS, DECIMALS = 18, 12

_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]+)(?:\.(?P<decimals>[0-9]+))?(?:[eE](?P<exponent>[+-]?[0-9]+))?")
_EXPONENT_DIGITS = 2


@dataclass(frozen=True)
class NumberLiteral:
    """A number as it was written, without quotes."""

    text: str


Scalar = str | NumberLiteral
RawValue = Scalar | Sequence[Scalar]
"""The value that a job gives for one requirement; a list is any sequence other than a text."""


def decimal_text(text: str) -> str:
    """The canonical form of a number: no exponent, no plus sign, no leading or trailing zeros, no minus at 0.

    Raises:
        RequirementRefused: ``not-a-number``, ``value-too-long``, or ``number-range`` from 10^18 on or with more than
            12 decimals.
    """
    if len(text) > LONGEST_VALUE:
        raise _too_long(text)
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise RequirementRefused("not-a-number", f"{_short(text)} is no number; units and operators are not read")
    exponent = match["exponent"] or "0"
    # The length is checked before anything is expanded: 1e999999999 has a billion digits.
    if len(exponent.lstrip("+-")) > _EXPONENT_DIGITS:
        raise _out_of_range(text)
    decimals = match["decimals"] or ""
    digits, point = match["whole"] + decimals, len(match["whole"]) + int(exponent)
    if point < 0:
        digits, point = "0" * -point + digits, 0
    digits = digits.ljust(point, "0")
    whole, fraction = digits[:point].lstrip("0"), digits[point:].rstrip("0")
    if len(whole) > INTEGER_DIGITS or len(fraction) > DECIMALS:
        raise _out_of_range(text)
    canonical = (whole or "0") + ("." + fraction if fraction else "")
    return f"-{canonical}" if match["sign"] == "-" and canonical != "0" else canonical


def number_of(text: str) -> Decimal | None:
    """The exact number in a text; None if there is none, or none that a requirement may have."""
    try:
        return Decimal(decimal_text(text))
    except RequirementRefused:
        return None


def plain_text(text: str) -> str:
    """A text in the form in which texts are compared: Unicode NFC, without white space around it."""
    return unicodedata.normalize("NFC", text).strip()


def checked_text(text: str) -> str:
    """The text of a requirement.

    Raises:
        RequirementRefused: ``empty-value``, ``value-too-long`` or ``control-character``.
    """
    if len(text) > 4 * LONGEST_VALUE:  # do not normalise texts of any length
        raise _too_long(text)
    plain = plain_text(text)
    if not plain:
        raise RequirementRefused("empty-value", "the text is empty")
    if len(plain) > LONGEST_VALUE:
        raise _too_long(plain)
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in plain):
        raise RequirementRefused("control-character", f"{_short(plain)} has a control character or half a character")
    return plain


def _too_long(text: str) -> RequirementRefused:
    return RequirementRefused("value-too-long", f"{len(text)} characters; {LONGEST_VALUE} are allowed")


def _out_of_range(text: str) -> RequirementRefused:
    accepted = f"below 10^{INTEGER_DIGITS} and at most {DECIMALS} decimals"
    return RequirementRefused("number-range", f"{_short(text)} is out of range; accepted: {accepted}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


REQUIREMENTS = "Requirements"
#: Keywords for what a job requires of a node: sections with one spec or several, and expressions over tags.
ONE_SPEC, SEVERAL_SPECS = "MatchingSpec", "MatchingSpecs"
TAGS = ("Tags", "Tag")
#: How deep the sections of a spec nest, counting the text itself.
DEEPEST_SPEC = 8
LARGEST_BYTES = 65_536
DEEPEST = 3


@dataclass(frozen=True)
class Attribute:
    """One ``name = value`` with the place of its name."""

    name: str
    value: RawValue | Section
    place: Place


@dataclass
class Section:
    """Attributes by name, in the order in which they were written."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    _lower: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes.values())

    def add(self, attribute: Attribute) -> None:
        """Add an attribute with a new name.

        Raises:
            RequirementRefused: ``duplicate-name``, or ``name-case-clash`` with one that differs by case only.
        """
        name, place = attribute.name, attribute.place
        other = self._lower.setdefault(name.lower(), name)
        if name in self.attributes:
            raise RequirementRefused("duplicate-name", "stands twice", name, place)
        if other != name:
            raise RequirementRefused("name-case-clash", f"differs from {other} by case only", name, place)
        self.attributes[name] = attribute

    def replace(self, attribute: Attribute) -> None:
        """Replace the attribute of the same name."""
        self.attributes[attribute.name] = attribute


def requirements_of(description: Section) -> Section | None:
    """The section of requirements in a job description; None if there is none.

    Raises:
        RequirementRefused: ``requirements-not-a-section``, ``keyword-case`` or ``nested-section``.
    """
    for attribute in description:
        if attribute.name.lower() == REQUIREMENTS.lower() and attribute.name != REQUIREMENTS:
            raise RequirementRefused("keyword-case", f"write it {REQUIREMENTS}", attribute.name, attribute.place)
    section = description.attributes.get(REQUIREMENTS)
    if section is None:
        return None
    if not isinstance(section.value, Section):
        raise RequirementRefused("requirements-not-a-section", "its value is no section", REQUIREMENTS, section.place)
    for attribute in section.value:
        if isinstance(attribute.value, Section):
            raise RequirementRefused("nested-section", "a requirement is a value", attribute.name, attribute.place)
    return section.value


def check_size(text: str, largest_bytes: int = LARGEST_BYTES) -> None:
    """Refuse a text that is too large to be read.

    Raises:
        RequirementRefused: ``text-too-large``.
    """
    if len(text) > largest_bytes or len(text.encode("utf-8", "surrogatepass")) > largest_bytes:
        raise RequirementRefused("text-too-large", f"more than {largest_bytes:,} bytes")
