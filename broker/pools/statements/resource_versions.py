"""The versions of the resources: each published or read content; the newest is in force."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.errors import Refused
from broker.pools.model.description import RequirementRefused
from broker.pools.model.panda_queues import document_of
from broker.pools.model.resource_text import Finding, ResourceFile, WrongResources, read_resources
from broker.snapshot.raw import BadValueError, json_object
from broker.store.connection.tables import TableCatalogue

_READ_NEWEST_VERSION = sa.text("""
    SELECT id, published_at, origin, kind, content FROM broker.resource_versions ORDER BY id DESC LIMIT 1""")
_READ_LAST_CHECKSUM = sa.text("SELECT checksum, origin FROM broker.resource_versions ORDER BY id DESC LIMIT 1")
_INSERT_VERSION = sa.text("""
    INSERT INTO broker.resource_versions (checksum, published_at, origin, kind, content)
    VALUES (:checksum, :published_at, :origin, :kind, :content)""")
#: Number of versions that are kept.
MOST_VERSIONS = 20
_DELETE_OLD_VERSIONS = sa.text("""
    DELETE FROM broker.resource_versions
    WHERE id <= (SELECT id FROM broker.resource_versions ORDER BY id DESC OFFSET :kept LIMIT 1)""")
_ONE_AT_A_TIME = sa.text("LOCK TABLE broker.resource_versions IN SHARE ROW EXCLUSIVE MODE")


class BadResources(Refused):
    """The resources cannot be read; nothing was changed."""


@dataclass(frozen=True)
class ResourceText:
    """Resources as they were found.

    Attributes:
        origin: a file, or another origin.
        kind: ``json``, ``yaml`` or ``cfg``.
        content: the text.
    """

    origin: str
    kind: str
    content: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(f"{self.kind}\n{self.content}".encode("utf-8", "surrogatepass")).hexdigest()

    def read(self) -> ResourceFile:
        """Parse the text.

        Raises:
            BadResources: it cannot be read.
        """
        try:
            return read_resources(self.content, f".{self.kind}")
        except (RequirementRefused, WrongResources) as error:
            raise BadResources(f"the resources cannot be read: {error}", self.origin, "correct them") from error


@dataclass(frozen=True)
class ResourceVersion:
    """The resources in force.

    Attributes:
        id: their number.
        published_at: since when they are in force.
        text: the text as it was published.
        content: the parsed text.
    """

    id: int
    published_at: datetime
    text: ResourceText
    content: ResourceFile

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings on what was left out."""
        return self.content.findings


def current(connection: sa.Connection) -> ResourceVersion | None:
    """The newest version; None if nothing was ever published.

    Raises:
        BadResources: it cannot be read.
    """
    row = connection.execute(_READ_NEWEST_VERSION).one_or_none()
    if row is None:
        return None
    text = ResourceText(row.origin, row.kind, row.content)
    return ResourceVersion(row.id, row.published_at, text, text.read())


def publish(connection: sa.Connection, text: ResourceText, now: datetime) -> bool:
    """Make ``text`` the version in force; False if it already is.

    Raises:
        BadResources: it cannot be read.
    """
    text.read()
    connection.execute(_ONE_AT_A_TIME)
    last = connection.execute(_READ_LAST_CHECKSUM).one_or_none()
    if last is not None and last.checksum == text.checksum:
        return False
    values = {"checksum": text.checksum, "published_at": now, "origin": text.origin}
    connection.execute(_INSERT_VERSION, values | {"kind": text.kind, "content": text.content})
    connection.execute(_DELETE_OLD_VERSIONS, {"kept": MOST_VERSIONS})
    return True


def from_panda(connection: sa.Connection, catalogue: TableCatalogue) -> ResourceText:
    """Resources made from the queues of PanDA in the database.

    Raises:
        BadResources: there is no readable queue.
    """
    queues = catalogue.source("schedconfig_json", ("panda_queue", "data"))
    sites = catalogue.source("panda_site", ("panda_site_name", "site_name"))
    query = (
        f"SELECT q.panda_queue, q.data::text, s.site_name FROM {queues} AS q "  # noqa: S608 - names of columns
        f"LEFT JOIN {sites} AS s ON s.panda_site_name = q.panda_queue ORDER BY q.panda_queue"
    )
    queue_data = []
    for name, text, site in connection.exec_driver_sql(query):
        try:
            data = json_object(text, "data")
        except BadValueError:  # the snapshot reports which rows cannot be used, and why
            continue
        queue_data.append((str(data.get("nickname") or name), site or data.get("atlas_site"), data))
    if not queue_data:
        raise BadResources("there are no queues that resources could be made from", "schedconfig_json", "load some")
    return ResourceText("schedconfig_json", "json", document_of(queue_data))
