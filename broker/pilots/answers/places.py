"""Where a pilot may run: queues of CEs that were published, and PanDA queues."""

from __future__ import annotations

import sqlalchemy as sa

from broker.history.answers.tasks import known_value
from broker.store.connection.tables import Names
from broker.store.reads.grid_names import queue_names

_READ_PLACES = sa.text("SELECT DISTINCT site, ce, queue FROM broker.resource_queues")


def check_place(connection: sa.Connection, names: Names, site: str, ce: str, queue: str) -> None:
    """Check that a pilot may run there. A PanDA queue needs no published CE: site and CE then decide nothing.

    Raises:
        UnknownValue: no site, no CE of the site or no queue of the CE has the name; it says which are near.
    """
    places = {(row.site, row.ce, row.queue) for row in connection.execute(_READ_PLACES)}
    queues = queue_names(connection, names)
    if (site, ce, queue) in places or queue in queues:
        return
    if places:
        known_value("site", site, {place[0] for place in places})
        known_value("ce", ce, {place[1] for place in places if place[0] == site})
    known_value("queue", queue, {*queues, *(place[2] for place in places if place[:2] == (site, ce))})
