"""Creates an installation for a VO of its own: the initial database content and the configuration files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from broker import resources
from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.gdpconfig.catalogue import Value, shipped_catalogue
from broker.gdpconfig.publish import Published
from broker.grid.answers import shares
from broker.grid.answers.shares import ShareEdit
from broker.service.statements import resource_type_rows
from broker.store.connection.database import Database
from broker.store.schema import migrate
from broker.tuning.answers import values
from broker.yaml_text import read_yaml

LONGEST_VO = 16
"""Width in characters of PanDA's narrowest VO column (``jedi_process_lock``)."""
_VO = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
PROFILE = "small"
SITES_FILE = "sites.yaml"
TASK_FILE = "first-task.yaml"
PILOT_FILE = "plain_pilot.py"
_PROCESS_FILE = f"""\
# What differs from the shipped configuration; every file of it may stand in this folder, changed.
profile: {PROFILE}
"""


class WrongVo(BrokerError):
    """The text is not a name of a VO."""

    exit_status = WRONG_USAGE


class CannotInstall(Refused):
    """Another installation exists there already."""


@dataclass(frozen=True)
class Step:
    """One item that the installation contains now.

    Attributes:
        what: kind of the item, such as ``VO`` or ``share default``.
        value: value of the item.
        done: ``written``, or ``there already``.
        note: the reason or purpose.
    """

    what: str
    value: str
    done: str
    note: str = ""


def checked_vo(text: str) -> str:
    """Check the name of a VO and return it.

    Raises:
        WrongVo: it is not a valid name.
    """
    name = text.strip()
    if not name or len(name) > LONGEST_VO or not _VO.fullmatch(name):
        remedy = f"give 1 to {LONGEST_VO} letters, digits, dots, hyphens and underscores, the first a letter"
        raise WrongVo(f"not a name of a VO: {text[:40]!r}", "--vo", remedy)
    return name


def fill_database(database: Database, vo: str, editor: str, now: datetime) -> list[Step]:
    """Install the schema and write the initial content for a VO of its own; existing content stays.

    Args:
        database: an empty database, or a standalone installation.
        vo: name of the VO, as returned by :func:`checked_vo`.
        editor: who installs.
        now: current time (aware).

    Raises:
        CannotInstall: the tables belong to a PanDA, or to another VO.
    """
    applied = migrate.upgrade(database).applied
    if migrate.check(database) != migrate.STANDALONE:
        remedy = "make an installation of its own in another database; alongside PanDA use `broker db init`"
        raise CannotInstall("the tables are those of a PanDA", _address(database), remedy)
    shipped = read_yaml(resources.path("config/small.yaml").read_text(encoding="utf-8"))
    steps = [Step("database", _address(database), "written" if applied else "there already", f"{len(applied)} steps")]
    steps.append(_vo(database, vo, editor, now))
    steps.append(_share(database, shipped["share"], ShareEdit(editor, "broker init", now)))
    with database.begin() as connection:
        steps += _resource_types(connection, database, shipped["resource_types"])
    steps += _tuning(database, shipped["tuning"], editor)
    return steps


def write_files(folder: Path) -> list[Step]:
    """Write the files of a small configuration into ``folder``; existing files stay.

    Raises:
        BrokerError: the folder or a file cannot be written.
    """
    names = (SITES_FILE, TASK_FILE, PILOT_FILE)
    shipped = {name: resources.path(f"config/{name}").read_text(encoding="utf-8") for name in names}
    files = {
        "broker.yaml": (_PROCESS_FILE, f"profile {PROFILE}"),
        SITES_FILE: (shipped[SITES_FILE], "a commented example: put your sites in"),
        TASK_FILE: (shipped[TASK_FILE], "a first task, ten jobs: broker task submit"),
        PILOT_FILE: (shipped[PILOT_FILE], "a pilot for payloads without a grid, for the agent submitter"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_file(folder / name, *content) for name, content in files.items()]
    except OSError as error:
        raise BrokerError(f"cannot write: {error.strerror}", str(folder), "name another with --folder") from error


def _address(database: Database) -> str:
    """Return the address of the database, without its password."""
    return sa.make_url(database.url).render_as_string(hide_password=True)


def _file(path: Path, text: str, note: str) -> Step:
    if path.exists():
        same = path.read_text(encoding="utf-8") == text
        return Step("file", str(path), "there already", note if same else "left as it is")
    path.write_text(text, encoding="utf-8")
    return Step("file", str(path), "written", note)


def _vo(database: Database, vo: str, editor: str, now: datetime) -> Step:
    with database.begin() as connection:
        added = migrate.set_vo(connection)
        if added not in (None, vo):
            remedy = f"use --vo {added}, or another database: BROKER_HOME or --db"
            raise CannotInstall(f"the installation belongs to VO {added}", _address(database), remedy)
        if added is None:
            migrate.write(connection, vo, editor, now)
    database.names = replace(database.names, vo=vo)
    done = "written" if added is None else "there already"
    return Step("VO", vo, done, "counts wherever none is named")


def _share(database: Database, share: Mapping[str, Any], edit: ShareEdit) -> Step:
    name, value = share["name"], share["value"]
    added = shares.add_share(database, name, value, edit)
    note = "of tasks that name none; cap of waiting jobs: NQUEUELIMITSITE_default"
    return Step(f"share {name}", str(value), "written" if added else "there already", note)


def _resource_types(connection: sa.Connection, database: Database, types: Mapping[str, Any]) -> Iterator[Step]:
    rows = [(name, tuple(bounds["cores"]), tuple(bounds["memory_mb_per_core"])) for name, bounds in types.items()]
    added = resource_type_rows.add_missing(connection, database.names, rows)
    for name, cores, memory in rows:
        value = f"{_span(cores)} cores, {_span(memory)} MB per core"
        yield Step(f"resource type {name}", value, "written" if name in added else "there already")


def _span(bounds: tuple[int | None, int | None]) -> str:
    low, high = bounds
    if low == high:
        return str(low)
    return f"{low or 0} to {high}" if high is not None else f"{low} and more"


def _tuning(database: Database, keys: Mapping[str, Any], editor: str) -> list[Step]:
    before = {value.key: value for value in values.values(database)}
    missing = {key: entry for key, entry in keys.items() if before[key].source != "config"}

    def make(store: Any, connection: sa.Connection) -> Published:
        for key, entry in missing.items():
            value: Value = shipped_catalogue().require(key).check(entry["value"])
            store.set_value(connection, key, value, editor=editor, reason=entry["because"], vo=store.vo)
        published: Published = store.read_current(connection, live=True)
        return published

    if missing:
        values.change(database, make)
    return [
        Step(key, str(value["value"]), "written", value["because"])
        if key in missing
        else Step(key, str(before[key].value), "there already")
        for key, value in keys.items()
    ]
