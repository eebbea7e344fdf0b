"""Parses untrusted bytes into a tree of elements: no document type, no entities, no network, bounded in every way.

Nothing here knows what the elements mean. A problem says where it is, what was found and what was expected. Source: XML
1.0; limits are our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat

from lxml import etree

ProblemKind = Literal["not-well-formed", "forbidden", "invalid-structure", "invalid-values"]


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        line: the line in the document, from 1.
        element: the element that it is about, with the attribute if it is about one; empty for the whole document.
        found: what is wrong, short and stable.
        expected: what should be there instead.
        is_value: whether a value is wrong, not the structure.
        column: for text that is not XML: bytes from the beginning of the line, from 0.
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
        """The finding as compilers report it: file, line, what is wrong, what was expected."""
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


MAX_BYTES = 1024 * 1024
MAX_DEPTH = 12
MAX_ELEMENTS = 10_000
MAX_TEXT_CHARACTERS = 64 * 1024
MAX_ATTRIBUTES = 16

_BOM = b"\xef\xbb\xbf"
_DECLARATION = re.compile(rb"<\?xml\s[^>]{0,200}?\?>")
_ENCODING = re.compile(rb"encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")


@dataclass(frozen=True)
class Element:
    """One element: its text (joined over comments and CDATA), attributes and children, and the line it starts on."""

    name: str
    line: int
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Element, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is neither text nor a child."""
        return not self.children and not self.text.strip()


def read_xml(data: bytes) -> Element:
    """The root element of a document.

    Raises:
        BadDocumentError: it is not XML, or holds what is not accepted from untrusted sources.
    """
    if len(data) > MAX_BYTES:
        raise _refused("forbidden", 1, f"{len(data)} bytes", f"at most {MAX_BYTES} bytes")
    _check_encoding(data)
    _check_prolog(data)
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, dtd_validation=False, no_network=True, huge_tree=False, recover=False
    )
    try:
        root = etree.fromstring(data.removeprefix(_BOM), parser)
    except etree.XMLSyntaxError as error:
        raise _not_well_formed(data, error) from error
    for node in root.itersiblings(preceding=True):
        _refuse_instruction(node)
    return _element(root)


def _refused(kind: ProblemKind, line: int, found: str, expected: str) -> BadDocumentError:
    return BadDocumentError(kind, (Problem(line, "", found, expected),))


def _check_encoding(data: bytes) -> None:
    body = data.removeprefix(_BOM)
    declaration = _DECLARATION.match(body)
    named = _ENCODING.search(declaration[0]) if declaration else None
    if named is not None and named[1].upper() != b"UTF-8":
        raise _refused("forbidden", 1, f"encoding {named[1].decode()}", "UTF-8")
    if body[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in body[:4]:
        raise _refused("forbidden", 1, "not UTF-8", "UTF-8")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise _refused("forbidden", line, "bytes that are not UTF-8", "UTF-8") from error


def _check_prolog(data: bytes) -> None:
    """Refuse a document type before any parser sees it; it can only stand before the root element."""
    position = len(_BOM) if data.startswith(_BOM) else 0
    while True:
        while data[position : position + 1].isspace():
            position += 1
        rest = data[position : position + 10]
        line = data.count(b"\n", 0, position) + 1
        if rest[:9].upper() == b"<!DOCTYPE":
            raise _refused("forbidden", line, "document type declaration", "no document type and no entities")
        end = b"-->" if rest.startswith(b"<!--") else b"?>" if rest.startswith(b"<?") else b""
        end_position = data.find(end, position) if end else -1
        if end_position < 0:
            return
        if rest.startswith(b"<?") and not (rest.startswith(b"<?xml") and rest[5:6].isspace()):
            raise _refused("forbidden", line, "processing instruction", "elements only")
        position = end_position + len(end)


def _not_well_formed(data: bytes, error: etree.XMLSyntaxError) -> BadDocumentError:
    """Where the text stops being XML. A second parser determines the place: it reports the first bad byte."""
    checker = expat.ParserCreate("UTF-8")
    try:
        checker.Parse(data.removeprefix(_BOM), True)
    except expat.ExpatError as bad:
        # the kind already says that it is not well-formed
        reported = (expat.ErrorString(bad.code) or "not XML").removeprefix("not well-formed (").removesuffix(")")
        problem = Problem(bad.lineno, "", reported, "well-formed XML", column=bad.offset)
        return BadDocumentError("not-well-formed", (problem,))
    line, column = error.position
    text = (error.msg or "not XML").split(", line")[0]
    return BadDocumentError("not-well-formed", (Problem(line or 1, "", text, "well-formed XML", column=column),))


def _element(root: etree._Element) -> Element:
    """The tree, made from the leaves up without recursion."""
    count = 0
    by_depth: dict[int, list[Element]] = {}
    for event, node, depth in _walk(root):
        if event == "start":
            count += 1
            _check_size(node, depth, count)
            continue
        children = tuple(by_depth.pop(depth + 1, ()))
        _check_mixed(node, children)
        # a child that is not an element is a comment: the text continues after it
        text = "" if children else "".join([node.text or "", *(child.tail or "" for child in node)])
        name = str(node.tag)
        element = Element(name, node.sourceline or 1, text, {str(k): str(v) for k, v in node.attrib.items()}, children)
        by_depth.setdefault(depth, []).append(element)
    return by_depth[1][0]


def _walk(root: etree._Element) -> Iterator[tuple[str, etree._Element, int]]:
    depth = 0
    for event, node in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event == "start":
            if not isinstance(node.tag, str):
                _refuse_instruction(node)
            depth += 1
            yield event, node, depth
        elif event == "end":
            yield event, node, depth
            depth -= 1
        else:
            _refuse_instruction(node)


def _refuse_instruction(node: etree._Element) -> None:
    if isinstance(node, etree._Comment):
        return
    what = "processing instruction" if isinstance(node, etree._ProcessingInstruction) else "entity"
    raise _refused("forbidden", node.sourceline or 1, what, "elements and text only")


def _check_size(node: etree._Element, depth: int, count: int) -> None:
    line = node.sourceline or 1
    if depth > MAX_DEPTH:
        raise _refused("forbidden", line, f"elements {depth} deep", f"at most {MAX_DEPTH}")
    if count > MAX_ELEMENTS:
        raise _refused("forbidden", line, f"more than {MAX_ELEMENTS} elements", f"at most {MAX_ELEMENTS}")
    if len(node.attrib) > MAX_ATTRIBUTES:
        raise _refused("forbidden", line, f"{len(node.attrib)} attributes", f"at most {MAX_ATTRIBUTES}")
    if len(node.text or "") > MAX_TEXT_CHARACTERS:
        raise _refused("forbidden", line, f"{len(node.text or '')} characters", f"at most {MAX_TEXT_CHARACTERS}")
    for child in node:
        if isinstance(child, etree._Entity):
            raise _refused("forbidden", child.sourceline or line, "entity", "text without entities")


def _check_mixed(node: etree._Element, children: tuple[Element, ...]) -> None:
    if not children:
        return
    pieces = [node.text, *(child.tail for child in node)]
    if any(piece and piece.strip() for piece in pieces):
        problem = Problem(node.sourceline or 1, str(node.tag), "text beside elements", "elements only")
        raise BadDocumentError("invalid-structure", (problem,))
