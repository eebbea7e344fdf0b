"""Turns elements into a typed job object, and reports every problem.

Source: Scalable Systems Software Job Object Specification 3.0.3, structure, properties and awareness policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.formats.model.sss import conditions, inheritance, model, values
from broker.formats.model.sss.model import KINDS, Block, Document, ElementKind, JobLevel, Property
from broker.formats.model.sss.values import BadValueError
from broker.formats.model.sss.xml_reading import BadDocumentError, Element, Problem, read_xml

DEFAULT_POLICY = "Warn"
"""The specification does not say what a receiver does about unknown elements; it may skip them, so it warns."""


def read_document(data: bytes) -> Document:
    """The job object in a file.

    Raises:
        BadDocumentError: it is not XML, or not a valid job object; with every problem.
    """
    return document_of(read_xml(data))


def document_of(root: Element) -> Document:
    """The job object in a tree of elements.

    Raises:
        BadDocumentError: it is not a valid job object.
    """
    if root.name not in ("Job", "JobGroup"):
        problem = Problem(root.line, root.name[:60], "unknown document", "Job or JobGroup")
        raise BadDocumentError("invalid-structure", (problem,))
    reader = _Reader()
    level = reader.level(root, DEFAULT_POLICY)
    if level.reference is not None:
        reader.wrong(root, "only a reference", "elements")
    if reader.problems:
        problems = tuple(sorted(reader.problems, key=lambda problem: problem.line))
        raise BadDocumentError(
            "invalid-values" if any(item.is_value for item in problems) else "invalid-structure", problems
        )
    document = Document(level, tuple(reader.warnings))
    _check_inherited(document)
    return document


def _check_inherited(document: Document) -> None:
    """Refuse a document that is small only because its jobs have most of their values in common."""
    count = inheritance.inherited_values(document)
    if count > inheritance.MAX_INHERITED:
        problem = Problem(
            document.root.line, "", f"{count} inherited values", f"at most {inheritance.MAX_INHERITED} over all jobs"
        )
        raise BadDocumentError("forbidden", (problem,))


@dataclass
class _Parts:
    """What has been collected for one level."""

    properties: list[Property] = field(default_factory=list)
    nodes: list[Property] = field(default_factory=list)
    unknown: list[Element] = field(default_factory=list)
    children: list[JobLevel] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    environment: dict[str, str] | None = None


class _Reader:
    """Reads levels and records what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def wrong(self, element: Element, found: str, expected: str, *, about: str = "", is_value: bool = False) -> None:
        name = f"{element.name} {about}".strip()
        self.problems.append(Problem(element.line, name, found, expected, is_value))

    def level(self, element: Element, inherited_policy: str) -> JobLevel:
        name = next(one for one in model.LEVELS if one == element.name)
        own = self._policy_of(element)
        policy = own or inherited_policy
        if not element.children and element.text.strip():
            return JobLevel(name, element.line, reference=element.text.strip(), policy=own, source=element)
        parts = _Parts()
        for child in element.children:
            self._child(name, child, parts, policy)
        self._check_counts(element, name, parts)
        return JobLevel(
            name,
            element.line,
            None,
            tuple(parts.properties),
            parts.blocks.get("Requested"),
            parts.blocks.get("Delivered"),
            tuple(parts.nodes),
            parts.environment,
            own,
            tuple(parts.unknown),
            tuple(parts.children),
            element,
        )

    def _policy_of(self, element: Element) -> str | None:
        policy = None
        for name, text in element.attributes.items():
            if name != "awarenessPolicy":
                self._unknown(element, f"attribute {name}", DEFAULT_POLICY)
                continue
            try:
                policy = values.attribute_of(name, text)
            except BadValueError as bad:
                self.wrong(element, bad.found, bad.expected, is_value=True)
        return policy

    def _child(self, level: model.Level, child: Element, parts: _Parts, policy: str) -> None:
        if child.name in model.CHILD_LEVELS[level]:
            parts.children.append(self.level(child, policy))
        elif child.name in ("Requested", "Delivered") and level != "JobGroup":
            if child.name in parts.blocks:
                self.wrong(child, "more than one", "at most one")
            parts.blocks[child.name] = self._block(child, policy)
        elif child.name == "NodeProperties":
            parts.nodes += self._properties(child.children, policy, parts.unknown, conditions_allowed=True)
        elif child.name == "Environment":
            if parts.environment is not None:
                self.wrong(child, "more than one", "at most one")
            parts.environment = self._environment(child)
        elif child.name in model.LEVELS:
            self.wrong(child, f"not inside {level}", " or ".join(model.CHILD_LEVELS[level]) or "no level")
        elif (kind := KINDS.get(child.name)) is None or (kind.levels and level not in kind.levels):
            self._unknown(child, "unknown element", policy)
            parts.unknown.append(child)
        elif (prop := self._property(child, kind, policy)) is not None:
            parts.properties.append(prop)

    def _block(self, element: Element, policy: str) -> Block:
        own = self._policy_of(element) or policy
        nodes: list[Property] = []
        unknown: list[Element] = []
        plain = []
        for child in element.children:
            if child.name == "NodeProperties":
                nodes += self._properties(child.children, own, unknown, conditions_allowed=True)
            else:
                plain.append(child)
        if element.text.strip():
            self.wrong(element, "text instead of elements", "elements")
        properties = self._properties(plain, own, unknown, conditions_allowed=element.name == "Requested")
        return Block(tuple(properties), tuple(nodes), tuple(unknown))

    def _properties(
        self, elements: Iterable[Element], policy: str, unknown: list[Element], *, conditions_allowed: bool
    ) -> list[Property]:
        """The properties of a block: for each name, conditions that are joined or facts that differ in their metric."""
        properties = []
        for element in elements:
            kind = KINDS.get(element.name)
            if kind is None or element.name not in model.IN_BLOCKS | {"Extension"}:
                self._unknown(element, "unknown element", policy)
                unknown.append(element)
            elif (prop := self._property(element, kind, policy)) is not None:
                properties.append(prop)
        for name in dict.fromkeys(prop.name for prop in properties):
            same = [prop for prop in properties if prop.name == name]
            if conditions_allowed:
                self._check_conditions(same)
            elif not KINDS[name].many:
                self._check_once(same, by_metric=True)
        return properties

    def _property(self, element: Element, kind: ElementKind, policy: str) -> Property | None:
        attributes: dict[str, str] = {}
        for name, text in element.attributes.items():
            if name not in model.ATTRIBUTES:
                self._unknown(element, f"attribute {name}", policy)
                attributes[name] = text
                continue
            try:
                attributes[name] = values.attribute_of(name, text)
            except BadValueError as bad:
                self.wrong(element, bad.found, bad.expected, is_value=True)
        if element.children:
            self.wrong(element, "elements inside a value", "text")
            return None
        if element.name in model.NAMED and not attributes.get("name"):
            self.wrong(element, "without a name", 'the attribute name="..."')
        self._check_units(element, attributes)
        try:
            value = values.value_of(self._kind_here(kind, attributes), element.text)
        except BadValueError as bad:
            self.wrong(element, bad.found, bad.expected, is_value=True)
            return None
        if element.name in model.RESOURCES and isinstance(value, int | float) and value < 0:
            self.wrong(element, "negative", "0 or more", is_value=True)
            return None
        if attributes.get("op") == "Match" and isinstance(value, str) and not conditions.is_pattern(value):
            self.wrong(element, f"unusable pattern {value[:40]}", conditions.PATTERN_FORM, is_value=True)
            return None
        return Property(element.name, value, attributes, element.line, element.text.strip())

    @staticmethod
    def _kind_here(kind: ElementKind, attributes: dict[str, str]) -> ElementKind:
        """The kind of the value: a pattern is text, regardless of the type of the element."""
        return ElementKind("string") if attributes.get("op") == "Match" else kind

    def _check_units(self, element: Element, attributes: dict[str, str]) -> None:
        if element.name not in model.SIZED:
            return
        units = attributes.get("units")
        if units is None:
            if not element.is_empty:
                self.warnings.append(
                    f"line {element.line}: {element.name} without units: {values.DEFAULT_UNIT} assumed"
                )
        elif units not in values.UNITS:
            self.wrong(element, f"unknown unit {units[:20]}", " ".join(values.UNITS), about="units", is_value=True)

    def _check_conditions(self, same: list[Property]) -> None:
        try:
            if not KINDS[same[0].name].many:
                conditions.expression_of(same)
        except conditions.BadGroupsError as error:
            self.problems.append(Problem(same[0].line, "", str(error), error.expected))

    def _check_once(self, same: list[Property], *, by_metric: bool) -> None:
        seen: set[str] = set()
        for prop in same:
            key = prop.attributes.get("metric", "") if by_metric else ""
            if key in seen:
                self.problems.append(Problem(prop.line, prop.name, "more than one", "at most one", is_value=True))
            seen.add(key)

    def _environment(self, element: Element) -> dict[str, str]:
        variables: dict[str, str] = {}
        for child in element.children:
            name = child.attributes.get("name", "")
            if child.name != "Variable" or child.children:
                self.wrong(child, "not a variable", 'Variable name="..." with text')
            elif not name or "=" in name or name in variables:
                self.wrong(child, f"name {name[:60]!r} is empty, holds = or is there twice", "a name of its own")
            else:
                variables[name] = child.text
        return variables

    def _unknown(self, element: Element, what: str, policy: str) -> None:
        if policy == "Reject":
            self.wrong(element, what, "what this receiver knows: awarenessPolicy is Reject")
        elif policy == "Warn":
            self.warnings.append(f"line {element.line}: {element.name[:60]}: {what} is kept and not used")

    def _check_counts(self, element: Element, level: model.Level, parts: _Parts) -> None:
        identifier = model.IDENTIFIERS.get(level)
        if identifier and not any(prop.name == identifier and prop.value is not None for prop in parts.properties):
            self.wrong(element, f"{identifier} is missing", f"exactly one {identifier}")
        if level == "JobGroup" and not any(child.level == "Job" for child in parts.children):
            self.wrong(element, "at least one Job required", "a Job")
        for name in model.ONCE_LEVELS:
            same = [child for child in parts.children if child.level == name]
            if len(same) > 1:
                self.problems.append(Problem(same[1].line, name, "more than one", "at most one"))
        for name in dict.fromkeys(prop.name for prop in parts.properties):
            properties = [prop for prop in parts.properties if prop.name == name]
            if name in model.RESOURCES and any("conj" in prop.attributes for prop in properties):
                self._check_conditions(properties)
            elif not KINDS[name].many:
                self._check_once(properties, by_metric=name in model.RESOURCES)
