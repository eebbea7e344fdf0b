"""Storage tokens, and the endpoint of a nucleus that each one selects.

Source: PanDA production brokerage, nucleus objects and storage check; ATLAS Production Task Brokerage, associated
storages.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.matching.patterns import PatternUnsupportedError, compiled

_DESTINATION, _DISTRIBUTED = "dst:", "ddd:"
#: What token names have in front of the type of an endpoint.
_ORGANISATION = "ATLAS"
#: Longest value of ``jedi_datasets.storagetoken``.
LONGEST_TOKEN = 100


def is_distributed(storagetoken: str | None) -> bool:
    """Whether the dataset is distributed over places of its own: it has an element ``ddd:<location>``."""
    elements = (storagetoken or "").replace(",", "/").split("/")
    return any(element.startswith(_DISTRIBUTED) and element != _DISTRIBUTED for element in elements)


def wanted_token(storagetoken: str | None) -> str:
    """The part by which an endpoint is looked for: the last one, without ``dst:``; NULL asks for nothing special."""
    return (storagetoken or "").rsplit("/", 1)[-1].removeprefix(_DESTINATION)


def placed_token(storagetoken: str | None, endpoint: str) -> str:
    """The value of ``storagetoken`` once the endpoint is known: it keeps what was asked for, if there is room."""
    asked = wanted_token(storagetoken)
    placed = f"{_DESTINATION}{endpoint}"
    full = f"{placed}/{asked}" if asked else placed
    return full if len(full) <= LONGEST_TOKEN else placed


def endpoint_for(token: str, names: Sequence[str], types: Sequence[str | None]) -> int:
    """Which of the endpoints, in order of preference, a token means; -1 for none.

    Args:
        token: as :func:`wanted_token` gives it: a name, a pattern found anywhere in a name, or a type of endpoint with
            the name of the organisation in front. An empty one means the first endpoint.
        names: of the endpoints.
        types: of the endpoints.

    A token that is no pattern (see :mod:`broker.matching.patterns`) is compared with names and types only.
    """
    if token in names:
        return names.index(token)
    try:
        pattern = compiled(f"(?s:.*)(?:{token})") if token else None
        found = [pattern is None or pattern.starts(name) for name in names]
    except PatternUnsupportedError:
        found = [False] * len(names)
    kind = token.replace(_ORGANISATION, "")
    matches = (at for at, hit in enumerate(found) if hit or types[at] == kind)
    return next(matches, -1)
