"""Writes a job object as XML, in canonical spelling. What XML cannot hold is dropped; unknown elements are kept."""

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
    tree = _tree_of(root)
    etree.indent(tree, "  ")
    return bytes(etree.tostring(tree, xml_declaration=True, encoding="UTF-8", pretty_print=True))


def _level(level: JobLevel) -> etree._Element:
    tree = etree.Element(level.level)
    if level.policy is not None:
        tree.set("awarenessPolicy", level.policy)
    if level.reference is not None:
        tree.text = clean(level.reference)
        return tree
    defaults = [child for child in level.children if child.level.endswith("Defaults")]
    others = [child for child in level.children if not child.level.endswith("Defaults")]
    _add_all(tree, level.properties)
    for name, block in (("Requested", level.requested), ("Delivered", level.delivered)):
        if block is not None:
            tree.append(_block(name, block))
    _add_nodes(tree, level.nodes)
    if level.environment is not None:
        environment = etree.SubElement(tree, "Environment")
        for name, text in level.environment.items():
            variable = etree.SubElement(environment, "Variable", name=clean(name))
            variable.text = clean(text)
    tree.extend(_tree_of(element) for element in level.unknown)
    tree.extend(_level(child) for child in (*defaults, *others))
    return tree


def _block(name: str, block: Block) -> etree._Element:
    tree = etree.Element(name)
    _add_all(tree, block.properties)
    _add_nodes(tree, block.nodes)
    tree.extend(_tree_of(element) for element in block.unknown)
    return tree


def _add_nodes(parent: etree._Element, nodes: Sequence[Property]) -> None:
    if nodes:
        _add_all(etree.SubElement(parent, "NodeProperties"), nodes)


def _add_all(parent: etree._Element, properties: Sequence[Property]) -> None:
    for prop in properties:
        child = etree.SubElement(parent, prop.name, {name: clean(text) for name, text in prop.attributes.items()})
        # a number with more digits than the specification's 32 bits hold is written as it came
        text = clean(prop.raw if prop.raw and isinstance(prop.value, float) else values.text_of(prop.value))
        child.text = text or None


def _tree_of(element: Element) -> etree._Element:
    copy = etree.Element(element.name, {name: clean(text) for name, text in element.attributes.items()})
    copy.text = clean(element.text) or None
    copy.extend(_tree_of(child) for child in element.children)
    return copy
