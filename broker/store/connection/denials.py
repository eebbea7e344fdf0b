"""Privileges on PanDA's tables: those that agents need besides SELECT, and the GRANT for one that is missing.

A missing privilege of the database role is reported in one line with the GRANT that provides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import psycopg
from sqlalchemy import exc as sa_exc

from broker.errors import Refused
from broker.store.connection.tables import META_TABLES, OWN_SCHEMA, Names, quoted

TUNING = "tuning"
#: Agents that write to PanDA's tables: alongside PanDA they are off until they are switched on by name.
WRITERS = ("production_task", "timeouts", "fast_rebrokerage", "analysis_rebrokerage")

_ENDING_JOBS: Mapping[str, tuple[str, ...]] = {
    "jobsdefined4": ("UPDATE", "DELETE"),
    "jobsactive4": ("UPDATE", "DELETE"),
    "jobsarchived4": ("INSERT", "UPDATE"),
    "jobs_statuslog": ("INSERT",),
    "filestable4": ("UPDATE",),
    "metatable": ("UPDATE",),
    "jobparamstable": ("SELECT", "UPDATE"),
    "jedi_dataset_contents": ("UPDATE",),
    "jedi_datasets": ("UPDATE",),
    "jedi_tasks": ("UPDATE",),
}
#: Privileges besides SELECT, by the agent that needs them and PanDA's table.
NEEDED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "production_task": {
        "jedi_tasks": ("UPDATE",),
        "jedi_datasets": ("UPDATE",),
        "tasks_statuslog": ("INSERT",),
    },
    "timeouts": _ENDING_JOBS,
    "fast_rebrokerage": _ENDING_JOBS,
    "analysis_rebrokerage": _ENDING_JOBS,
    TUNING: {"config": ("INSERT", "UPDATE", "DELETE")},
}


def privileges_on(table: str) -> frozenset[str]:
    """The privileges that any of the agents needs on one of PanDA's tables."""
    return frozenset({"SELECT"}.union(*(tables.get(table, ()) for tables in NEEDED.values())))


DENIED = "42501"
_OBJECT = re.compile(r"permission denied for (?P<kind>[a-z ]+?) \"?(?P<name>[^\"\s]+)\"?\s*$")
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
_MODIFIES = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM|FOR UPDATE|FOR NO KEY UPDATE)\s*(?P<target>[\w\".]*)", re.I)

#: JEDI creates new jobs and their files; finished jobs are moved to ``jobsarchived4`` by the agent that ends them.
_INSERTED_BY_JEDI = frozenset({"jobsdefined4", "jobsactive4", "filestable4"})
_NOT_OURS = "grant nothing, alongside PanDA JEDI makes the jobs"


class MissingRight(Refused):
    """The database role lacks a right that the request needs."""


def denial_of(error: BaseException, names: Names, role: str) -> MissingRight | None:
    """The missing privilege behind an error of SQLAlchemy or psycopg; None if the error has another cause.

    Args:
        error: the error as it was raised.
        names: the schema names.
        role: the role of the connection.
    """
    statement = str(getattr(error, "statement", None) or "")
    cause = error.orig if isinstance(error, sa_exc.DBAPIError) else error
    if not isinstance(cause, psycopg.Error) or cause.sqlstate != DENIED:
        return None
    line = str(cause).strip().splitlines()[0]
    match = _OBJECT.search(line)
    if match is None:
        remedy = cause.diag.message_hint or "`broker doctor` lists the rights that are needed"
        return MissingRight(line, f"role {role}", remedy)
    kind, name = match["kind"], match["name"]
    return MissingRight(line, f"role {role}", _grant(kind, name, statement, names, role))


def _grant(kind: str, name: str, statement: str, names: Names, role: str) -> str:
    to = f"TO {quoted(role)};"
    if kind == "schema":
        return f"GRANT USAGE ON SCHEMA {quoted(name)} {to}"
    if kind == "database":
        own = f"CREATE SCHEMA {OWN_SCHEMA} AUTHORIZATION {quoted(role)};"
        return f"{own} or GRANT CREATE ON DATABASE {quoted(name)} {to}"
    if kind == "sequence" and f"{OWN_SCHEMA}." not in statement.replace('"', ""):
        return f"{_NOT_OURS}: no agent takes numbers of {name}"
    if kind == "sequence":
        return f"GRANT USAGE ON SEQUENCE {OWN_SCHEMA}.{quoted(name)} {to}"
    privileges = _privileges(name, statement)
    schema = OWN_SCHEMA if f"{OWN_SCHEMA}." in statement.replace('"', "") else names.schema_of(name)
    if name in META_TABLES:
        schema = names.meta
    if name == "t_task":
        schema = "doma_deft"
    if schema == names.panda and name in _INSERTED_BY_JEDI and "INSERT" in privileges:
        return f"{_NOT_OURS}: no agent makes rows of {name}"
    return f"GRANT {', '.join(privileges)} ON {quoted(schema)}.{quoted(name)} {to}"


def _privileges(table: str, statement: str) -> list[str]:
    """The privileges the statement needs on the table, or all that agents need if the error carries no statement."""
    privileges = {"SELECT"} if statement else set(privileges_on(table))
    for match in _MODIFIES.finditer(statement):
        verb = match.group(1).upper().split()[0]
        target = match["target"].replace('"', "").rsplit(".", 1)[-1]
        if verb == "FOR":
            privileges.add("UPDATE")
        elif target == table:
            privileges.add(verb)
    return [verb for verb in _VERBS if verb in privileges]
