"""A job object as XML, in canonical spelling. What cannot stand in XML is dropped; unknown elements are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lxml import etree

from broker.formats.model.sss import values
from broker.formats.model.sss.model import Block, Document, JobLevel, Property
from broker.formats.model.sss.xml_reading import Element

_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def clean(text: str) -> str:
    """The text without the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("", text)


def write_document(document: Document) -> bytes:
    """The document as UTF-8 with an XML declaration, indented by two blanks."""
    root = _level(document.root)
    etree.indent(root, "  ")
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True))


def write_element(root: Element) -> bytes:
    """A tree of elements as it is, in the same form."""
    made = _kept(root)
    etree.indent(made, "  ")
    return bytes(etree.tostring(made, xml_declaration=True, encoding="UTF-8", pretty_print=True))


def _level(level: JobLevel) -> etree._Element:
    made = etree.Element(level.level)
    if level.policy is not None:
        made.set("awarenessPolicy", level.policy)
    if level.reference is not None:
        made.text = clean(level.reference)
        return made
    defaults = [child for child in level.children if child.level.endswith("Defaults")]
    others = [child for child in level.children if not child.level.endswith("Defaults")]
    _add_all(made, level.properties)
    for name, block in (("Requested", level.requested), ("Delivered", level.delivered)):
        if block is not None:
            made.append(_block(name, block))
    _add_nodes(made, level.nodes)
    if level.environment is not None:
        environment = etree.SubElement(made, "Environment")
        for name, text in level.environment.items():
            variable = etree.SubElement(environment, "Variable", name=clean(name))
            variable.text = clean(text)
    made.extend(_kept(element) for element in level.unknown)
    made.extend(_level(child) for child in (*defaults, *others))
    return made


def _block(name: str, block: Block) -> etree._Element:
    made = etree.Element(name)
    _add_all(made, block.properties)
    _add_nodes(made, block.nodes)
    made.extend(_kept(element) for element in block.unknown)
    return made


def _add_nodes(parent: etree._Element, nodes: Sequence[Property]) -> None:
    if nodes:
        _add_all(etree.SubElement(parent, "NodeProperties"), nodes)


def _add_all(parent: etree._Element, properties: Sequence[Property]) -> None:
    for one in properties:
        made = etree.SubElement(parent, one.name, {name: clean(text) for name, text in one.attributes.items()})
        # a number of more digits than the specification's 32 bits hold is written as it came
        text = clean(one.raw if one.raw and isinstance(one.value, float) else values.text_of(one.value))
        made.text = text or None


def _kept(element: Element) -> etree._Element:
    made = etree.Element(element.name, {name: clean(text) for name, text in element.attributes.items()})
    made.text = clean(element.text) or None
    made.extend(_kept(child) for child in element.children)
    return made
