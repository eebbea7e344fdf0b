"""Parameters of a query that nothing reads are refused: with a typo in its name a filter would hold for everything."""

from __future__ import annotations

from collections.abc import Set

from starlette.requests import Request

from broker.api.problems import FieldProblem, Problem
from broker.errors import did_you_mean

OF_ALL = frozenset({"fields", "format"})
"""What every answer takes: the fields that are wanted, and of a page whether it is wanted as JSON."""
LONGEST_SHOWN = 100


def refuse_unknown(request: Request, known: Set[str]) -> None:
    """Refuse a request with a parameter that is none of ``known``, nor of those that every answer takes.

    Raises:
        Problem: 422, with the nearest name.
    """
    unknown = [name for name in request.query_params if name not in known and name not in OF_ALL]
    if not unknown:
        return
    names = sorted(known | {"fields"})
    errors = [
        FieldProblem(where=f"query.{name[:LONGEST_SHOWN]}", what="there is no such parameter") for name in unknown
    ]
    remedy = did_you_mean(unknown[0], names, f"known are {', '.join(names)}")
    detail = f"there is no parameter {unknown[0][:LONGEST_SHOWN]}"
    raise Problem(422, "unknown_parameter", detail, remedy, errors=errors[:50])
