"""The grid as one process of JEDI sees it: read once, shared by all chunks, and read anew in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from agents.brokerage.agent import tables_class
from agents.brokerage.grid_reading import GridReader, GridReading, grid_reader
from agents.service.configuration import config_file, load_process, load_profile
from broker.alongside.statements.copy_records import copied_at
from broker.brokerages.base import Rules
from broker.brokerages.profile import ProfileError, rules_of
from broker.brokerages.registry import brokerage
from broker.engine.job.placement import Placement
from broker.errors import BrokerError, Refused
from broker.gdpconfig.publish import Published
from broker.snapshot.raw import SnapshotCorruptError
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue, own_tables, read_own_columns
from broker.store.gdpconfig_rows import TuningStore
from broker.store.reads.needed_columns import work_faults
from broker.store.schema.migrate import check
from broker.store.snapshots.stored_snapshots import SnapshotLostError, encoded_snapshot, last_of_agents

LOG = logging.getLogger("gridbroker_jedi")
#: The brokerages that the classes of the plug-in use; a profile need not have all of them.
BROKERAGES = ("production_job", "analysis_job", "production_task", "generic_job")


def read_rules(profile: str, folder: Path | None) -> dict[str, Rules]:
    """The rules of each brokerage in the profile ``profile`` of ``folder``, or of the shipped one.

    Raises:
        ProfileError: the profile cannot be used.
        OSError: there is no such profile.
    """
    read = load_profile(profile, folder)
    named = [one.brokerage for one in read.brokerages]
    rules = {name: rules_of(read, name) for name in BROKERAGES if name in named}
    if not rules:
        raise ProfileError(f"profile {profile}: JEDI asks for none of its brokerages, {', '.join(named)}")
    for own in rules.values():
        placement = own.chain.named_steps.get("placement")
        if isinstance(placement, Placement) and placement.together:
            why = f"placement by {placement.by} decides all chunks of a cycle together, and JEDI asks for one"
            raise ProfileError(f"profile {profile}: {why}; take a profile that places by weight")
    return rules


def readers_of(rules: Mapping[str, Rules], folder: Path | None) -> dict[str, GridReader]:
    """The reader of each brokerage, as its agent has it.

    Raises:
        SourceError: a source that a rule names cannot be used.
    """
    process = load_process(config_file("broker.yaml", folder), folder)
    return {
        name: grid_reader(own, process, for_analysis=tables_class(brokerage(name)).for_analysis)
        for name, own in rules.items()
    }


class OwnSchemaChanged(BrokerError):
    """A table of ours that the plug-in writes is not as this version knows it."""


@dataclass(frozen=True)
class GridView:
    """One reading of the grid with the values in force then.

    Attributes:
        reading: the snapshot with its stored form.
        published: the gdpconfig values.
        catalogue: the tables that the database has.
        taken_at: when the snapshot was taken (aware).
        as_of: the instant that the view shows (aware): if its tables are copies, when the newest of them was made.
        mirrored: whether its tables are copies.
        faults: where PanDA's tables differ from what the rules know; with any, nothing is decided.
        stored: whether the snapshot is one that the service has stored.
    """

    reading: GridReading
    published: Published
    catalogue: TableCatalogue
    taken_at: datetime
    as_of: datetime
    mirrored: bool
    faults: tuple[str, ...] = ()
    stored: bool = False


class GridKeeper:
    """Keeps the newest view of one brokerage; several threads may ask for it, one reads.

    Args:
        name: of the brokerage.
        database: of PanDA, with schema ``broker``.
        reader: of the brokerage.
        clock: the time now (aware).
        refresh: age at which the view is read anew while the old one still serves; also the age up to which a snapshot
            of the service serves in place of a reading.
        limit: for how long one reading may take.
    """

    def __init__(
        self,
        name: str,
        database: Database,
        reader: GridReader,
        clock: Callable[[], datetime],
        refresh: timedelta,
        limit: timedelta,
    ) -> None:
        self._name, self._database, self._reader = name, database, reader
        self._clock, self._refresh, self._limit_s = clock, refresh, limit.total_seconds()
        self._view: GridView | None = None
        self._refused: BrokerError | None = None
        self._reading = threading.Lock()

    @property
    def has_view(self) -> bool:
        """Whether the grid has been read at least once."""
        return self._view is not None

    def view(self) -> GridView:
        """The newest view. The first caller reads it; a caller who finds it old, and nobody reading, has it read anew.

        Raises:
            DatabaseUnavailable: there is no view yet and none can be read.
            SchemaTooNew, SchemaOutdated, SchemaMissing, MigrationChanged, OwnSchemaChanged: our schema does not match.
        """
        if self._view is None:
            with self._reading:
                return self._view or self._read()
        if self._clock() - self._view.taken_at >= self._refresh and self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_behind, name="gridbroker-grid", daemon=True).start()
        if self._refused is not None:
            raise self._refused
        return self._view

    def age(self) -> timedelta | None:
        """Return the age of the newest view; None without one."""
        return None if self._view is None else self._clock() - self._view.taken_at

    def _read_behind(self) -> None:
        try:
            self._read()
        except Exception:
            # the old view serves until it is stale; whoever asks then gets an error, and falls back
            LOG.exception("the grid could not be read anew")
        finally:
            self._reading.release()

    def _read(self) -> GridView:
        with self._database.within(self._limit_s) as database:
            try:
                check(database)
                _check_own_tables(database)
                self._refused = None
            except (Refused, OwnSchemaChanged) as error:
                self._refused = error
                raise
            self._view = self._read_from(database)
        return self._view

    def _read_from(self, database: Database) -> GridView:
        now = self._clock()
        with database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, database.names)
            published = TuningStore(database.names).read_current(connection, live=True)
            stored = self._of_service(connection, now)
            reading = stored or self._reader.read(connection, catalogue, now, lambda: None)
            copied = copied_at(connection)
        changed = [state.detail for state in reading.snapshot.states if state.state == "changed"]
        faults = tuple(dict.fromkeys([*changed, *map(str, work_faults(catalogue))]))
        taken_at = now if stored is None else stored.snapshot.taken_at
        newest = max((moment for moment in (copied or {}).values() if moment is not None), default=taken_at)
        return GridView(
            reading,
            published,
            catalogue,
            taken_at,
            min(taken_at, newest),
            copied is not None,
            faults,
            stored is not None,
        )

    def _of_service(self, connection: sa.Connection, now: datetime) -> GridReading | None:
        """The last snapshot of this brokerage's agent, if it is fresh and has everything that is read here."""
        for last in last_of_agents(connection, [self._name]):
            if timedelta(0) <= now - last.taken_at < self._refresh:
                try:
                    return self._reader.take_over(encoded_snapshot(connection, last.id))
                except (SnapshotLostError, SnapshotCorruptError) as error:
                    LOG.warning("snapshot %s of the service is not used: %s", last.id, error)
        return None


#: Tables of ours that the plug-in writes.
_WRITTEN = ("plugin_calls", "decisions", "snapshots", "snapshot_blobs")


def _check_own_tables(database: Database) -> None:
    """Check the tables that the plug-in writes against what this version declares.

    Raises:
        OwnSchemaChanged: a column is missing.
    """
    with database.read_snapshot() as connection:
        columns = read_own_columns(connection)
    declared = own_tables()
    missing = [
        f"{table}.{column}"
        for table in _WRITTEN
        for column in declared[table].columns
        if column not in columns.get(table, {})
    ]
    if missing:
        raise OwnSchemaChanged(
            f"column broker.{missing[0]} is gone", repr(database), "run `broker db upgrade`, or mend it"
        )
