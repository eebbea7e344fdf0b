"""Storage tokens, and the endpoint of a nucleus that each one selects.

Source: PanDA production brokerage, nucleus objects and storage check; ATLAS Production Task Brokerage, associated
storages.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.matching.patterns import PatternUnsupportedError, compiled

_DESTINATION, _DISTRIBUTED = "dst:", "ddd:"
#: The prefix of the type of an endpoint in token names.
_ORGANISATION = "ATLAS"
#: Longest value of ``jedi_datasets.storagetoken``.
LONGEST_TOKEN = 100


def is_distributed(storagetoken: str | None) -> bool:
    """Whether the dataset is distributed over its own places: the token has an element ``ddd:<location>``."""
    elements = (storagetoken or "").replace(",", "/").split("/")
    return any(element.startswith(_DISTRIBUTED) and element != _DISTRIBUTED for element in elements)


def wanted_token(storagetoken: str | None) -> str:
    """The part that selects an endpoint: the last one, without ``dst:``; empty for NULL, which requests no endpoint."""
    return (storagetoken or "").rsplit("/", 1)[-1].removeprefix(_DESTINATION)


def placed_token(storagetoken: str | None, endpoint: str) -> str:
    """The value of ``storagetoken`` once the endpoint is known; it keeps the requested token if there is room."""
    requested = wanted_token(storagetoken)
    placed = f"{_DESTINATION}{endpoint}"
    full = f"{placed}/{requested}" if requested else placed
    return full if len(full) <= LONGEST_TOKEN else placed


def endpoint_for(token: str, names: Sequence[str], types: Sequence[str | None]) -> int:
    """Which of the endpoints, in order of preference, a token means; -1 for none.

    Args:
        token: as :func:`wanted_token` returns it: a name, a pattern that matches anywhere in a name, or a type of
            endpoint prefixed with the organisation. An empty token means the first endpoint.
        names: of the endpoints.
        types: of the endpoints.

    A token that is not a valid pattern (see :mod:`broker.matching.patterns`) is compared with names and types only.
    """
    if token in names:
        return names.index(token)
    try:
        pattern = compiled(f"(?s:.*)(?:{token})") if token else None
        hits = [pattern is None or pattern.starts(name) for name in names]
    except PatternUnsupportedError:
        hits = [False] * len(names)
    kind = token.replace(_ORGANISATION, "")
    matches = (at for at, hit in enumerate(hits) if hit or types[at] == kind)
    return next(matches, -1)
