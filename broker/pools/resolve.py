"""From what a job wrote to the pool that it means: finds the kind of each value, and brings the value to its form."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from broker.pools.declarations import NOTHING_DECLARED, Declaration, Declarations, PropertyType
from broker.pools.literals import NumberLiteral, RawValue, Scalar, checked_text, decimal_text
from broker.pools.problems import RequirementRefused
from broker.pools.requirement import MOST_VALUES, Requirement, SubmitPool, check_names, pool_of, vo_name


def resolve_requirements(
    written: Mapping[str, RawValue], vo: str, declarations: Declarations = NOTHING_DECLARED
) -> SubmitPool | None:
    """The pool of a job's requirements; None when it has none, and then it is matched as if there were no pools.

    The kind is that of the declaration, else of the literal. Resources are never looked at: the identifier must not
    depend on them.

    Raises:
        RequirementRefused: with the name of the requirement.
    """
    vo_name(vo)
    check_names(written)
    return pool_of(vo, [_requirement(name, value, declarations.of(name)) for name, value in written.items()])


def _requirement(name: str, value: RawValue, declared: Declaration) -> Requirement:
    try:
        if _kind(value, declared.effective_kind) == "number":
            return Requirement(name, "ge", (_number(value, declared),))
        return Requirement(name, "any", _texts(value, declared))
    except RequirementRefused as refused:
        raise RequirementRefused(refused.code, refused.detail, name, refused.place) from refused


def _kind(value: RawValue, declared: PropertyType | None) -> PropertyType:
    if isinstance(value, Scalar):
        literal: PropertyType = "number" if isinstance(value, NumberLiteral) else "text"
        return declared or literal
    members = list(value)
    if any(not isinstance(member, Scalar) for member in members):
        raise RequirementRefused("nested-list", "a list has texts only")
    if not members:
        raise RequirementRefused("empty-list", "the list is empty: nothing could be eligible")
    if len(members) > MOST_VALUES:
        raise RequirementRefused("too-many-values", f"{len(members)} in the list; {MOST_VALUES} are allowed")
    numbers = sum(isinstance(member, NumberLiteral) for member in members)
    if declared == "number" or (declared is None and numbers == len(members)):
        raise RequirementRefused("numeric-list", "any of several numbers would mean the smallest; write that one")
    if declared is None and numbers:
        raise RequirementRefused("mixed-list", "texts and numbers in one list; put the numbers in quotes")
    return "text"


def _number(value: RawValue, declared: Declaration) -> str:
    try:
        text = decimal_text(_written(value))
    except RequirementRefused as refused:
        unit = f" in {declared.unit}" if declared.unit else ""
        wanted = f"; declared as a number{unit}" if declared.effective_kind == "number" else ""
        raise RequirementRefused(refused.code, refused.detail + wanted) from refused
    number = Decimal(text)
    low, high = declared.smallest, declared.largest
    if (low is not None and number < low) or (high is not None and number > high):
        limits = f"{'' if low is None else low} .. {'' if high is None else high}"
        raise RequirementRefused("outside-declared-range", f"{text} is outside the declared range {limits}")
    return text


def _texts(value: RawValue, declared: Declaration) -> tuple[str, ...]:
    members = [value] if isinstance(value, Scalar) else list(value)
    texts = sorted({checked_text(_written(member)) for member in members})
    if declared.choices:
        for text in texts:
            if text not in declared.choices:
                known = ", ".join(sorted(declared.choices))
                raise RequirementRefused("not-a-choice", f"{text!r} is none of the declared choices: {known}")
    return tuple(texts)


def _written(value: RawValue) -> str:
    return value.text if isinstance(value, NumberLiteral) else str(value)
