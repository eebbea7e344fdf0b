"""The documents in ``tests/contract/sss``, and short documents written in tests."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from broker.formats.model.sss.inheritance import WholeJob, whole_jobs
from broker.formats.model.sss.model import Document
from broker.formats.model.sss.reading import read_document
from broker.formats.model.sss.xml_reading import BadDocumentError, Element

FOLDER = Path(__file__).parents[2] / "contract" / "sss"


def data(name: str) -> bytes:
    return (FOLDER / f"{name}.xml").read_bytes()


def document(name: str) -> Document:
    return read_document(data(name))


def job_with(inside: str, state: str = "Idle") -> WholeJob:
    """A job with this content."""
    text = f"<Job><JobId>j</JobId><JobState>{state}</JobState>{inside}</Job>"
    (whole,) = whole_jobs(read_document(text.encode()))
    return whole


def problems_of(text: str | bytes) -> list[str]:
    """The problems of a document: line, element and finding."""
    try:
        read_document(text.encode() if isinstance(text, str) else text)
    except BadDocumentError as error:
        return [f"{problem.line}: {problem}" for problem in error.problems]
    return []


def content(element: Element, without: Collection[tuple[str, str]] = ()) -> object:
    """The content of an element without the order of its children, for comparing two documents.

    Args:
        element: an element of a document.
        without: elements to ignore, by their name and their attribute ``name``.
    """
    children = [child for child in element.children if (child.name, child.attributes.get("name", "")) not in without]
    inside = sorted((content(child, without) for child in children), key=repr)
    return element.name, element.text.strip(), sorted(element.attributes.items()), inside
