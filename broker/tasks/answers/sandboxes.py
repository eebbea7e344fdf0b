"""Archives that panda-client uploads: kept for their owner, found again, fetched by jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from broker.errors import NotFound
from broker.store.connection.database import Database
from broker.tasks.model.sandboxes import REUSE_WITHIN, BadSandbox, SandboxTaken, sandbox_of
from broker.tasks.statements import sandboxes as statements

_WHERE = "broker.sandboxes"


def keep_sandbox(
    database: Database, user: str, file_name: str, content: bytes, most_bytes: int, most_user_bytes: int, now: datetime
) -> str:
    """Keep an uploaded archive and return its name. The same upload again changes nothing.

    Args:
        database: of a standalone installation.
        user: the owner.
        file_name: as the client names it.
        content: of the file.
        most_bytes: of one archive.
        most_user_bytes: of all archives of the user.
        now: the time of the upload.

    Raises:
        BadSandbox: it cannot be used, or the user has too many.
        SandboxTaken: another file has this name.
    """
    sandbox = sandbox_of(file_name, content, most_bytes)
    with database.begin() as connection:
        stored_bytes = statements.bytes_of_user(connection, user)
        if statements.is_same(connection, user, sandbox.name, content):
            return sandbox.name
        if stored_bytes + sandbox.size_bytes > most_user_bytes:
            what = f"the archives of {user} have {stored_bytes} bytes, and {most_user_bytes} are allowed"
            remedy = "submit from the same directory, whose archive is used again; old ones go by themselves"
            raise BadSandbox(what, "sandboxes_of_user_bytes of config/api.yaml", remedy)
        if not statements.insert(connection, user, sandbox, content, now):
            raise SandboxTaken(f"ERROR: cannot overwrite file {sandbox.name}", _WHERE, "take a new name")
    return sandbox.name


def find_sandbox(database: Database, user: str, size_bytes: int, checksum: int, now: datetime) -> str | None:
    """The name of an archive of the user with that content; None if it has to be uploaded."""
    with database.begin() as connection:
        return statements.find(connection, user, size_bytes, checksum, now - REUSE_WITHIN, now)


def use_sandboxes(database: Database, user: str, names: Sequence[str], now: datetime) -> None:
    """Note that a task needs archives.

    Raises:
        NotFound: one of them does not exist, or belongs to somebody else.
    """
    with database.begin() as connection:
        missing = sorted(set(names) - statements.use(connection, user, names, now))
    if missing:
        raise NotFound(f"{user} has no archive {missing[0]}", _WHERE, "submit again: it is uploaded anew")


def read_sandbox(database: Database, name: str, now: datetime) -> bytes:
    """The archive of that name.

    Raises:
        NotFound: there is none, or it was not used for so long that it was removed.
    """
    with database.begin() as connection:
        content = statements.read(connection, name, now)
    if content is None:
        raise NotFound(f"there is no file {name[:100]}", _WHERE, "it was removed, or never uploaded: submit again")
    return content
