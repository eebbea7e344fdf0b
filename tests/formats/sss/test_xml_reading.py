from __future__ import annotations

import time
import tracemalloc

import pytest

from broker.formats.model.sss.xml_reading import MAX_BYTES, BadDocumentError, Element, read_xml

LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE Job [
<!ENTITY a "ha">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
]>
<Job>&b;</Job>"""


def refusal_of(data: bytes) -> BadDocumentError:
    with pytest.raises(BadDocumentError) as caught:
        read_xml(data)
    return caught.value


def test_elements_with_text_attributes_and_lines() -> None:
    root = read_xml(b'<?xml version="1.0"?>\n<Job>\n  <A x="1">t&amp;u</A>\n  <B/>\n</Job>')
    assert root.name == "Job" and root.line == 2
    assert root.children == (Element("A", 3, "t&u", {"x": "1"}), Element("B", 4))


def test_a_value_is_joined_over_comments_and_cdata() -> None:
    (value,) = read_xml(b"<Job><P>1<!-- not 9 -->2<![CDATA[3]]></P></Job>").children
    assert value.text == "123"


@pytest.mark.parametrize(
    ("text", "line", "finding"),
    [
        (LAUGHS, 2, "document type declaration"),
        ('<!DOCTYPE Job SYSTEM "http://127.0.0.1:9/x.dtd"><Job/>', 1, "document type declaration"),
        ('<!DOCTYPE Job [<!ENTITY x SYSTEM "file:///etc/passwd">]><Job>&x;</Job>', 1, "document type declaration"),
        ("\n <!-- c -->\n<!DOCTYPE Job><Job/>", 3, "document type declaration"),
        ('<?xml-stylesheet href="x"?><Job/>', 1, "processing instruction"),
        ("<Job>\n<?php x ?>\n</Job>", 2, "processing instruction"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?><Job/>', 1, "encoding ISO-8859-1"),
        ('<?xml version="1.0" encoding="UTF-16"?><Job/>', 1, "encoding UTF-16"),
    ],
)
def test_unsafe_documents_are_refused(text: str, line: int, finding: str) -> None:
    error = refusal_of(text.encode())
    assert (error.kind, error.problems[0].line, error.problems[0].found) == ("forbidden", line, finding)


@pytest.mark.parametrize(
    "data", ["<Job/>".encode("utf-16"), "<Job/>".encode("utf-32"), b"<Job>\xe9</Job>", b"<Job>\n\xff</Job>"]
)
def test_other_encodings_are_refused(data: bytes) -> None:
    assert refusal_of(data).kind == "forbidden"


def test_a_byte_order_mark_is_accepted() -> None:
    assert read_xml(b"\xef\xbb\xbf<Job/>").name == "Job"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("<Job>\n<A>1<A>\n</Job>", 3, 2),
        ("<Job>\n  <A op=\u201dge\u201d>1</A>\n</Job>", 2, 8),
        ("<Job>\n</B>\n</Job>", 2, 2),
        ("<Job>&nbsp;</Job>", 1, 5),
        ("<Job>", 1, 5),
        ("", 1, 0),
        ("not xml", 1, 0),
        ("<Job/><Job/>", 1, 6),
    ],
)
def test_the_place_of_an_xml_error_is_reported(text: str, line: int, column: int) -> None:
    error = refusal_of(text.encode())
    assert error.kind == "not-well-formed"
    assert (error.problems[0].line, error.problems[0].column) == (line, column)


@pytest.mark.parametrize(
    ("text", "finding"), [("<Job>\n</B>", "mismatched tag"), ("<Job a=\u201d1\u201d/>", "invalid token")]
)
def test_the_xml_error_is_reported(text: str, finding: str) -> None:
    assert [problem.found for problem in refusal_of(text.encode()).problems] == [finding]


def deep(levels: int) -> bytes:
    return b"<Job>" + b"<A>" * (levels - 1) + b"</A>" * (levels - 1) + b"</Job>"


def many(count: int) -> bytes:
    return b"<Job>" + b"<A/>" * (count - 1) + b"</Job>"


def attributes(count: int) -> bytes:
    return b"<Job " + b" ".join(b'a%d="1"' % number for number in range(count)) + b"/>"


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        (deep(12), deep(13)),
        (many(10_000), many(10_001)),
        (attributes(16), attributes(17)),
        (b"<Job><A>" + b"x" * 65_536 + b"</A></Job>", b"<Job><A>" + b"x" * 65_537 + b"</A></Job>"),
        (b"<Job/>" + b" " * (MAX_BYTES - 6), b"<Job/>" + b" " * (MAX_BYTES - 5)),
    ],
    ids=["depth", "elements", "attributes", "text", "size"],
)
def test_both_sides_of_each_limit(within: bytes, beyond: bytes) -> None:
    assert read_xml(within).name == "Job"
    assert refusal_of(beyond).kind == "forbidden"


@pytest.mark.parametrize(
    "data",
    [
        LAUGHS.replace('"ha"', '"' + "ha" * 40_000 + '"').encode(),
        attributes(60_000)[:MAX_BYTES],
        deep(100_000),
        attributes(10**6),
    ],
    ids=["laughs", "attributes", "depth", "a million attributes"],
)
def test_hostile_documents_are_refused_cheaply(data: bytes) -> None:
    tracemalloc.start()
    start = time.perf_counter()
    refusal_of(data)
    used_s = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used_s < 5 and peak < 100 * 2**20


def test_an_error_message_reads_no_file() -> None:
    error = refusal_of(b'<!DOCTYPE Job [<!ENTITY x SYSTEM "file:///etc/hostname">]><Job>&x;</Job>')
    assert "hostname" not in str(error)


def test_text_beside_elements_is_refused() -> None:
    error = refusal_of(b"<Job>text<A>1</A></Job>")
    assert (error.kind, str(error.problems[0])) == ("invalid-structure", "Job: text beside elements")
    assert refusal_of(b"<Job><A>1</A>tail</Job>").kind == "invalid-structure"
