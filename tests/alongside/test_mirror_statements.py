"""Every statement sent to PanDA's database uses only what all supported database systems understand alike."""

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
    placement_copies,
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
#: Words that Oracle does not accept as column names, and that a table of ours has or may get as a column.
ORACLE_RESERVED = {"access", "comment", "date", "file", "group", "level", "mode", "number", "order", "size", "uid"}


def naive(*parts: int) -> datetime:
    """UTC as PanDA stores it."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc, arg-type]


def statements() -> list[str]:
    """All statements of the copies."""
    condition, _ = numbered("c.jeditaskid", [1, 2])
    copies = [*grid_copies(), *task_copies(), READY_FILES, WAITS, ENDED_JOBS]
    copies += [copy for table in JOB_TABLES for copy in placement_copies(table)]
    texts = [select(copy, part, SCHEMAS, copy.columns) for copy in copies for part in copy.slices]
    texts += [select(copy, Slice(condition), SCHEMAS, copy.columns) for copy in (FILES, PARAMETERS)]
    return texts + [columns_statement(backend, "S", "T")[0] for backend in get_args(Backend)]


def faults(statement: str) -> list[str]:
    """The parts of a statement beyond columns, tables, comparisons, binds and counts."""
    messages = [] if not statement.rstrip().endswith(";") else ["ends with ;"]
    for dialect in ("oracle", "postgres"):
        (tree,) = sqlglot.parse(statement, read=dialect)
        assert tree is not None
        for node in tree.walk():
            if type(node) not in ALLOWED:
                messages.append(f"{type(node).__name__}: {node.sql()}")
            if isinstance(node, exp.Join) and (node.args.get("on") or node.args.get("kind") or node.args.get("side")):
                messages.append(f"joined otherwise than by a comma: {node.sql()}")
            if isinstance(node, exp.Column) and node.name.lower() in ORACLE_RESERVED:
                messages.append(f"reserved: {node.name}")
            if isinstance(node, exp.Identifier) and node.args.get("quoted"):
                messages.append(f"quoted: {node.name}")
            if isinstance(node, exp.TableAlias) and f" AS {node.name}" in statement:
                messages.append(f"AS before the alias {node.name}")
            if isinstance(node, exp.In) and len(node.expressions) > 1000:
                messages.append("more than 1000 in a list")
    return messages


def test_statements_use_only_the_common_subset() -> None:
    texts = statements()
    assert len(texts) > 40
    assert {text: faults(text) for text in texts if faults(text)} == {}


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
def test_statements_beyond_the_common_subset_are_detected(statement: str) -> None:
    assert faults(statement)


def test_a_statement_names_only_known_binds() -> None:
    known_binds = {**instants(NOON), ":done_jobs_since": None, ":made_since": None, ":owner": None, ":name": None}
    for statement in statements():
        binds = {f":{node.name}" for node in sqlglot.parse_one(statement, read="oracle").find_all(exp.Placeholder)}
        assert binds - {":n0", ":n1"} == set(binds_of(statement, known_binds))


def test_instants_are_naive_utc_and_windows_are_rounded() -> None:
    values = instants(NOON)
    assert values[":just_now"] == naive(2026, 8, 1, 10, 3, 4)
    assert values[":six_hours_ago"] == naive(2026, 8, 1, 4, 3, 4)
    assert (values[":window_begin"], values[":window_end"]) == (naive(2026, 8, 1, 4), naive(2026, 8, 1, 9, 50))


CLOB = '{"a": 1}'


@pytest.mark.parametrize(
    ("sql_type", "in_key", "value", "stored"),
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
def test_conversion_of_values_from_oracles_driver(sql_type: str, in_key: bool, value: Any, stored: Any) -> None:
    convert = converter("column", sql_type, in_key=in_key)
    if isinstance(stored, type):
        with pytest.raises(stored):
            convert(value)
    else:
        assert convert(value) == stored and type(convert(value)) is type(stored)


def test_a_digest_depends_on_the_rows_and_not_on_their_order() -> None:
    assert digest([(1, "a"), (2, None)]) == digest([(2, None), (1, "a")])
    assert digest([(1, "a"), (1, "a")]) != digest([(1, "a")]) != digest([(1, None)])
