"""Whether some service is alive, for the probes of the API."""

from __future__ import annotations

import sqlalchemy as sa

SIGN_OF_LIFE_WITHIN_S = 30.0
_READ_AGE_OF_NEWEST_BEAT = sa.text(
    "SELECT extract(epoch FROM clock_timestamp() - max(seen_at))::float8 FROM broker.services"
)


def newest_sign_of_life_s(connection: sa.Connection) -> float | None:
    """Seconds since the last heartbeat of any service, by the database's clock; None when there is no service."""
    found = connection.execute(_READ_AGE_OF_NEWEST_BEAT).scalar()
    return None if found is None else float(found)
