"""What a job in JDL or CFG requires of a node: ``Tags``, or the sections ``MatchingSpec`` (one) or ``MatchingSpecs``.

Sources: DIRAC, job descriptions; DiracX, schema of matching specifications.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from broker.matching.specs.documents import Number
from broker.matching.specs.job_reading import SPECS, read_job
from broker.matching.specs.problems import SpecRefused
from broker.matching.specs.spec import OWN, JobSpecs, Profile
from broker.pools.model.description import (
    ONE_SPEC,
    SEVERAL_SPECS,
    TAGS,
    NumberLiteral,
    RequirementRefused,
    Section,
    decimal_text,
)

KEYWORDS = (ONE_SPEC, SEVERAL_SPECS, *TAGS)


def specs_document(description: Section) -> dict[str, Any] | None:
    """The specs of a description as a document; None if it requires nothing of a node.

    Raises:
        RequirementRefused: ``specs-not-a-section``, ``bad-value``, or ``specs-twice`` for two keywords with specs.
    """
    keywords = [description.attributes[name] for name in KEYWORDS if name in description.attributes]
    if not keywords:
        return None
    if len(keywords) > 1:
        both = f"{keywords[0].name} and {keywords[1].name} both say what is asked of a node; write tags in the section"
        raise RequirementRefused("specs-twice", both, keywords[1].name, keywords[1].place)
    (keyword,) = keywords
    if keyword.name in TAGS:
        if isinstance(keyword.value, Section):
            raise RequirementRefused(
                "bad-value", "an expression or a list of tags is wanted", keyword.name, keyword.place
            )
        return {SPECS: [{"tags": _plain(keyword.value)}]}
    if not isinstance(keyword.value, Section):
        raise RequirementRefused("specs-not-a-section", "its value is no section", keyword.name, keyword.place)
    if keyword.name == ONE_SPEC:
        return {SPECS: [_plain(keyword.value)]}
    return {SPECS: [_plain(inner.value) for inner in keyword.value]}


def specs_of_description(description: Section, vo: str, profile: Profile = OWN) -> JobSpecs | None:
    """What a job requires of a node; None: nothing.

    Raises:
        RequirementRefused: ``bad-spec`` with the field and the value, or as :func:`specs_document`.
    """
    document = specs_document(description)
    if document is None:
        return None
    try:
        return read_job(document, profile, vo)
    except SpecRefused as refused:
        keyword = next(description.attributes[name] for name in KEYWORDS if name in description.attributes)
        raise RequirementRefused("bad-spec", str(refused), keyword.name, keyword.place) from refused


def _plain(value: Any) -> Any:
    """A value in the form that the reader of specs takes."""
    if isinstance(value, Section):
        return {one.name: _plain(one.value) for one in value}
    if isinstance(value, NumberLiteral):
        return Number(value.text, _number(value.text))
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value


def _number(text: str) -> int | float:
    exact = Decimal(decimal_text(text))
    is_whole = "." not in text and "e" not in text.lower()
    return int(exact) if is_whole else float(exact)
