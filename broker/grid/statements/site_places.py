"""The places of sites, as the feed from CRIC wrote them."""

from __future__ import annotations

import sqlalchemy as sa

_READ = sa.text("SELECT site_name, latitude, longitude FROM broker.site_places")


def site_places(connection: sa.Connection) -> dict[str, tuple[float, float]]:
    """Degrees north and east by name of the site; sites without known degrees are omitted."""
    return {str(row[0]): (float(row[1]), float(row[2])) for row in connection.execute(_READ)}
