from __future__ import annotations

import pytest

from broker.store.connection.tables import BadName, Names, quoted


@pytest.mark.parametrize(
    ("name", "expected"),
    [("plain", '"plain"'), ('a"b', '"a""b"'), ("a b;--", '"a b;--"'), ("x" * 63, '"' + "x" * 63 + '"')],
)
def test_names_are_quoted(name: str, expected: str) -> None:
    assert quoted(name) == expected


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "é" * 32])
def test_names_that_postgresql_cannot_store_are_rejected(name: str) -> None:
    with pytest.raises(BadName):
        quoted(name)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("doma_panda", True),
        ("Doma2", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("", False),
        ("2doma", False),
        ('a"b', False),
        ("Odd na-me", True),
        ("a%s", False),
        ("a:b", False),
        ("{panda}", False),
        ("a\n", False),
    ],
)
def test_schema_names_are_plain_words(name: str, accepted: bool) -> None:
    if accepted:
        assert Names(name, name).panda == name
        return
    with pytest.raises(BadName):
        Names(panda=name)
    with pytest.raises(BadName):
        Names(meta=name)


def test_tables_are_qualified_by_their_schemas() -> None:
    names = Names("p", "m")
    assert names.table("jedi_tasks") == '"p"."jedi_tasks"'
    assert names.table("sitedata") == '"m"."sitedata"'
    assert names.own("leases") == '"broker"."leases"'


def test_only_the_three_placeholders_are_replaced() -> None:
    text = "SELECT '{}'::json, '{\"panda\": 1}' FROM {panda}.a, {meta}.b, {broker}.c, {other}.d"
    assert Names("p", "m").sql(text) == (
        'SELECT \'{}\'::json, \'{"panda": 1}\' FROM "p".a, "m".b, "broker".c, {other}.d'
    )
