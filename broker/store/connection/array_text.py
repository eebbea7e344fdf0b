"""Long lists of values as the texts that PostgreSQL reads arrays from.

psycopg looks at every value of a list to find out how to write it; where the kind of all of them is known, that is most
of the work of asking for a thousand datasets. A statement says what such a text is: ``CAST(:ids AS bigint[])``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

ValueT = TypeVar("ValueT", bound=Hashable)


def array_of(values: Iterable[int]) -> str:
    """An array of whole numbers, or of truth values; none of them NULL.

    >>> array_of([1, -2]), array_of([True]), array_of([])
    ('{1,-2}', '{True}', '{}')
    """
    return "{" + ",".join(map(str, values)) + "}"


def array_of_texts(values: Sequence[str]) -> str:
    r"""An array of texts, none of them NULL.

    >>> print(array_of_texts(["mc16", 'a "b"', "c\\d"]))
    {"mc16","a \"b\"","c\\d"}
    """
    if not values:
        return "{}"
    whole = '","'.join(values)
    if "\\" in whole or whole.count('"') > 2 * (len(values) - 1):
        whole = '","'.join([value.replace("\\", "\\\\").replace('"', '\\"') for value in values])
    return '{"' + whole + '"}'


def array_of_nullable(values: Sequence[ValueT | None], written: Callable[[ValueT], str]) -> str:
    """An array of values, None for NULL.

    Args:
        values: each that occurs is written once; values that are equal, such as 0.0 and -0.0, are written alike.
        written: a value as it stands in an array, in quotes where it needs them.

    >>> array_of_nullable([1.5, None, 1.5], repr)
    '{1.5,NULL,1.5}'
    """
    known = {value: "NULL" if value is None else written(value) for value in set(values)}
    return "{" + ",".join([known[value] for value in values]) + "}"
