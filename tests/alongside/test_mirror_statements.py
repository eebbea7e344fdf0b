"""Every statement that PanDA's database is asked holds to what all its databases understand alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, get_args

import pytest
import sqlglot
from sqlglot import exp

from broker.alongside.model.copied_values import BadCopiedValueError, converter, digest
from broker.alongside.model.panda_reader import Backend, PandaSchemas, columns_statement
from broker.alongside.statements.copied_tables import (
    ENDED_JOBS,
    FILES,
    PARAMETERS,
    READY_FILES,
    WAITS,
    grid_copies,
    made_jobs,
    task_copies,
)
from broker.alongside.statements.table_copy import Slice, binds_of, instants, numbered, select
from broker.store.connection.tables import JOB_TABLES

SCHEMAS = PandaSchemas("ATLAS_PANDA", "ATLAS_PANDAMETA")
NOON = datetime(2026, 8, 1, 12, 3, 4, tzinfo=timezone(timedelta(hours=2)))
ALLOWED = {
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Join, exp.Where, exp.Group,
    exp.Paren, exp.And, exp.Or, exp.In, exp.Is, exp.Null, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE,
    exp.Literal, exp.Placeholder, exp.Count, exp.Sum, exp.Min, exp.Max, exp.Star,
}  # fmt: skip
#: Words that Oracle takes for no column, of those that a table of ours has as one or may come to have.
ORACLE_RESERVED = {"access", "comment", "date", "file", "group", "level", "mode", "number", "order", "size", "uid"}


def naive(*parts: int) -> datetime:
    """UTC as PanDA stores it."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc, arg-type]


def statements() -> list[str]:
    """All that the copying asks."""
    where, _ = numbered("c.jeditaskid", [1, 2])
    copies = [*grid_copies(), *task_copies(), READY_FILES, WAITS, ENDED_JOBS]
    copies += [copy for table in JOB_TABLES for copy in made_jobs(table)]
    found = [select(copy, one, SCHEMAS, copy.columns) for copy in copies for one in copy.slices]
    found += [select(copy, Slice(where), SCHEMAS, copy.columns) for copy in (FILES, PARAMETERS)]
    return found + [columns_statement(backend, "S", "T")[0] for backend in get_args(Backend)]


def faults(statement: str) -> list[str]:
    """What in a statement is more than columns, tables, comparisons, binds and counts."""
    found = [] if not statement.rstrip().endswith(";") else ["ends with ;"]
    for dialect in ("oracle", "postgres"):
        (tree,) = sqlglot.parse(statement, read=dialect)
        assert tree is not None
        for node in tree.walk():
            if type(node) not in ALLOWED:
                found.append(f"{type(node).__name__}: {node.sql()}")
            if isinstance(node, exp.Join) and (node.args.get("on") or node.args.get("kind") or node.args.get("side")):
                found.append(f"joined otherwise than by a comma: {node.sql()}")
            if isinstance(node, exp.Column) and node.name.lower() in ORACLE_RESERVED:
                found.append(f"reserved: {node.name}")
            if isinstance(node, exp.Identifier) and node.args.get("quoted"):
                found.append(f"quoted: {node.name}")
            if isinstance(node, exp.TableAlias) and f" AS {node.name}" in statement:
                found.append(f"AS before the alias {node.name}")
            if isinstance(node, exp.In) and len(node.expressions) > 1000:
                found.append("more than 1000 in a list")
    return found


def test_statements_are_plain() -> None:
    asked = statements()
    assert len(asked) > 40
    assert {one: faults(one) for one in asked if faults(one)} == {}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT c.a FROM s.t c;",
        "SELECT c.a FROM s.t c LIMIT 3",
        "SELECT c.a AS b FROM s.t c",
        "SELECT c.a FROM s.t AS c",
        "SELECT coalesce(c.a, 0) FROM s.t c",
        "SELECT c.a FROM s.t c JOIN s.u d ON c.a = d.a",
        "SELECT c.a FROM s.t c WHERE c.a LIKE 'x%'",
        "SELECT c.data ->> 'x' FROM s.t c",
        "SELECT c.a FROM s.t c WHERE c.a = ANY(:ids)",
        "SELECT c.a FROM s.t c WHERE c.at > CURRENT_DATE",
        "SELECT c.a FROM s.t c WHERE c.a IN (SELECT d.a FROM s.u d)",
        "SELECT c.a::text FROM s.t c",
        'SELECT c."a" FROM s.t c',
        "SELECT DISTINCT c.a FROM s.t c",
        "SELECT c.a FROM s.t c ORDER BY c.a",
        "SELECT c.comment FROM s.t c",
    ],
)
def test_anything_else_is_found(statement: str) -> None:
    assert faults(statement)


def test_a_statement_names_no_bind_that_is_not_known() -> None:
    known = {**instants(NOON), ":done_jobs_since": None, ":made_since": None, ":owner": None, ":name": None}
    for statement in statements():
        binds = {f":{node.name}" for node in sqlglot.parse_one(statement, read="oracle").find_all(exp.Placeholder)}
        assert binds - {":n0", ":n1"} == set(binds_of(statement, known))


def test_instants_are_naive_utc_and_whole_where_minutes_count() -> None:
    found = instants(NOON)
    assert found[":just_now"] == naive(2026, 8, 1, 10, 3, 4)
    assert found[":six_hours_ago"] == naive(2026, 8, 1, 4, 3, 4)
    assert (found[":window_begin"], found[":window_end"]) == (naive(2026, 8, 1, 4), naive(2026, 8, 1, 9, 50))


CLOB = '{"a": 1}'


@pytest.mark.parametrize(
    ("sql_type", "in_key", "given", "stored"),
    [
        ("bigint", False, Decimal("12345678901234567"), 12345678901234567),
        ("integer", False, 3.0, 3),
        ("integer", False, None, None),
        ("integer", True, None, None),
        ("integer", False, Decimal("1.5"), BadCopiedValueError),
        ("bigint", False, "x", ValueError),
        ("numeric(10,2)", False, Decimal("1.5"), Decimal("1.5")),
        ("double precision", False, "1.5", 1.5),
        ("double precision", False, [], BadCopiedValueError),
        ("timestamp", False, naive(2026, 8, 1), naive(2026, 8, 1)),
        ("timestamp", False, NOON, naive(2026, 8, 1, 10, 3, 4)),
        ("timestamp", False, "2026-08-01", BadCopiedValueError),
        ("json", False, CLOB, CLOB),
        ("json", False, {"a": 1}, CLOB),
        ("jsonb", False, "", None),
        ("text", False, {"a": 1}, CLOB),
        ("varchar(10)", False, Decimal(3), "3"),
        ("varchar(10)", False, None, None),
        ("varchar(10)", True, None, ""),
        ("varchar(10)", True, "", ""),
    ],
)
def test_values_of_oracles_driver(sql_type: str, in_key: bool, given: Any, stored: Any) -> None:
    convert = converter("column", sql_type, in_key=in_key)
    if isinstance(stored, type):
        with pytest.raises(stored):
            convert(given)
    else:
        assert convert(given) == stored and type(convert(given)) is type(stored)


def test_a_digest_is_of_the_rows_not_of_their_order() -> None:
    assert digest([(1, "a"), (2, None)]) == digest([(2, None), (1, "a")])
    assert digest([(1, "a"), (1, "a")]) != digest([(1, "a")]) != digest([(1, None)])
