"""A database of its own on an embedded server of its own, which is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade

#: It is thrown away: nothing has to survive a crash.
_CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@contextmanager
def scratch_database(purpose: str) -> Iterator[Database]:
    """An empty database with the current schema; ``purpose`` is in the name of its folder.

    Raises:
        EmbeddedServerError: the extra is not installed, or the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix=f"gridbroker-{purpose}-") as folder:
        server = EmbeddedServer(Path(folder), _CARELESS)
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            yield database
