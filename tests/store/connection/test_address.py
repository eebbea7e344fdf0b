"""No message shows a password, at any position in the address and in any notation."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from hypothesis import given, strategies as st

from broker.redaction import HIDDEN, redact
from broker.store.connection.address import parse_url, shown_url, without_password
from broker.store.connection.database import Database
from broker.store.connection.errors import BadDatabaseUrl, DatabaseUnavailable

SECRET = "s3cret-w0rd"
PLACES = [
    f"postgresql://me:{SECRET}@localhost:1/d",
    f"postgresql://me@localhost:1/d?password={SECRET}",
    f"postgresql://me:other@localhost:1/d?password={SECRET}&sslmode=disable",
    f"postgresql://localhost:1/d?user=me&sslpassword={SECRET}",
    f"postgresql+psycopg://me:{SECRET}%40x@localhost:1/d",
]
UNESCAPED = [
    f"postgresql://me:x@{SECRET}@localhost:1/d",
    f"postgresql://me:x/@{SECRET}@localhost:1/d",
    f"postgresql://me:x@y:{SECRET}@localhost:1/d",
    f"postgresql://me:x@y/{SECRET}@localhost:1/d",
    f"postgresql://me:x@y?{SECRET}@localhost:1/d",
    f"postgresql://me:{SECRET}@@localhost:1/d",
]


@pytest.mark.parametrize("url", PLACES)
def test_a_connection_error_does_not_show_the_password(url: str) -> None:
    with Database(url) as database:
        with pytest.raises(DatabaseUnavailable) as caught, database.begin():
            pass
        assert SECRET not in str(caught.value) + repr(database)
        assert "localhost" in str(caught.value)


@pytest.mark.parametrize("url", UNESCAPED)
def test_an_unescaped_at_sign_is_rejected_without_showing_the_rest(url: str) -> None:
    with pytest.raises(BadDatabaseUrl, match="%40") as caught:
        parse_url(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@localhost:port/d",
        f"mysql://me:{SECRET}@localhost/d",
        f"{SECRET}",
        f"postgresql:me:{SECRET}@localhost/d",
    ],
)
def test_an_unreadable_address_is_not_repeated(url: str) -> None:
    with pytest.raises(BadDatabaseUrl) as caught:
        parse_url(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql://me@example.org@h/d", "postgresql://me@h/d?application_name=a@b"])
def test_an_at_sign_elsewhere_is_accepted_without_a_password(url: str) -> None:
    assert parse_url(url).username is not None


def test_the_password_among_the_settings_takes_precedence() -> None:
    parsed = parse_url("postgresql://me:first@h/d?password=second&sslmode=disable")
    assert (str(parsed.password), dict(parsed.query)) == ("second", {"sslmode": "disable"})


def test_another_process_gets_the_address_without_secrets() -> None:
    address, variables = without_password(parse_url(f"postgresql://me@h/d?password={SECRET}&sslpassword={SECRET}"))
    assert address.render_as_string(hide_password=False) == "postgresql+psycopg://me@h/d"
    assert variables == {"PGPASSWORD": SECRET}
    assert without_password(sa.make_url("postgresql://me@h/d"))[1] == {}


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=30))
def test_an_escaped_password_is_never_shown(password: str) -> None:
    url = sa.URL.create("postgresql", "u", password, "h", 5432, "d").render_as_string(hide_password=False)
    assert shown_url(parse_url(url)) == f"postgresql://u:{HIDDEN}@h:5432/d"
    assert redact(f"cannot reach '{url}' today") == f"cannot reach 'postgresql://u:{HIDDEN}' today"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at postgresql://u:p@h/d: gone", "at postgresql://u:***"),
        ("POSTGRES://u:p@q@h/d x", "POSTGRES://u:*** x"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://u@h/d?password=p&x=1", "postgresql://u@h/d?password=***&x=1"),
        ("host=h password='a b' user=u", "host=h password=*** user=u"),
        ("no password here", "no password here"),
        ("", ""),
    ],
)
def test_passwords_in_text_are_redacted(text: str, expected: str) -> None:
    assert redact(text).startswith(expected)
    assert len(redact(text)) <= len(expected) + 6
