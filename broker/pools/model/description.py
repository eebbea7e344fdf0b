"""A job description after parsing, whatever its syntax: attributes with their places, and sections within sections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.pools.model.literals import RawValue
from broker.pools.model.problems import Place, RequirementRefused

REQUIREMENTS = "Requirements"
#: Keywords of what is asked of a node: sections with one spec and with several, and expressions over tags.
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
        """Adds an attribute with a name of its own.

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
        """Puts an attribute in the place of the one with its name."""
        self.attributes[attribute.name] = attribute


def requirements_of(description: Section) -> Section | None:
    """The section of requirements in a job description; None when there is none.

    Raises:
        RequirementRefused: ``requirements-not-a-section``, ``keyword-case`` or ``nested-section``.
    """
    for attribute in description:
        if attribute.name.lower() == REQUIREMENTS.lower() and attribute.name != REQUIREMENTS:
            raise RequirementRefused("keyword-case", f"write it {REQUIREMENTS}", attribute.name, attribute.place)
    found = description.attributes.get(REQUIREMENTS)
    if found is None:
        return None
    if not isinstance(found.value, Section):
        raise RequirementRefused("requirements-not-a-section", "its value is no section", REQUIREMENTS, found.place)
    for attribute in found.value:
        if isinstance(attribute.value, Section):
            raise RequirementRefused("nested-section", "a requirement is a value", attribute.name, attribute.place)
    return found.value


def check_size(text: str, largest_bytes: int = LARGEST_BYTES) -> None:
    """Refuses a text that is too large to be looked at.

    Raises:
        RequirementRefused: ``text-too-large``.
    """
    if len(text) > largest_bytes or len(text.encode("utf-8", "surrogatepass")) > largest_bytes:
        raise RequirementRefused("text-too-large", f"more than {largest_bytes:,} bytes")
