"""The catalogue that is shipped with the broker, read once."""

from __future__ import annotations

from functools import cache

from broker import resources
from broker.gdpconfig.catalogue import Catalogue, parse_catalogue

CATALOGUE_FILE = "config/gdpconfig.yaml"


@cache
def shipped_catalogue() -> Catalogue:
    """The catalogue in ``config/gdpconfig.yaml``.

    Raises:
        CatalogueError: the file was changed and is wrong now.
    """
    path = resources.path(CATALOGUE_FILE)
    return parse_catalogue(path.read_text(encoding="utf-8"), CATALOGUE_FILE)
