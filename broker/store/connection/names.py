"""Schema names, and safe quoting of what cannot be a query parameter."""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker.domain.installation_vo import DEFAULT_VO
from broker.errors import BrokerError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]{0,62}")

META_TABLES = frozenset({"sitedata"})
"""Tables that PanDA keeps in its meta schema."""

OWN_SCHEMA = "broker"


class BadName(BrokerError):
    """A name that PostgreSQL cannot hold."""


def quoted(name: str) -> str:
    """The identifier ``name`` in double quotes, safe inside SQL text.

    Raises:
        BadName: it is empty, holds a NUL, or is longer than PostgreSQL's 63 bytes.
    """
    if not name or "\0" in name or len(name.encode()) > 63:
        raise BadName(f"not a usable SQL name: {name[:80]!r}", "", "use 1 to 63 bytes without NUL")
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Names:
    """The schemas of one database.

    Attributes:
        panda: PanDA's main schema.
        meta: PanDA's meta schema (table ``sitedata``).
        vo: the VO of the installation, which counts wherever none is named.

    Raises:
        BadName: a schema name is more than letters, digits, underscores, hyphens and blanks.
    """

    panda: str = "doma_panda"
    meta: str = "doma_pandameta"
    vo: str = DEFAULT_VO

    def __post_init__(self) -> None:
        for name in (self.panda, self.meta):
            if not _PLAIN.fullmatch(name):
                # Plain names mean the same to every layer that sees SQL text: placeholders, formats, psql options.
                raise BadName(
                    f"not a usable schema name: {name[:80]!r}",
                    "",
                    "use letters, digits, underscores, hyphens and blanks",
                )

    @property
    def broker(self) -> str:
        """The schema of our own tables; the same everywhere."""
        return OWN_SCHEMA

    def schema_of(self, panda_table: str) -> str:
        """The (unquoted) schema of one of PanDA's tables."""
        return self.meta if panda_table in META_TABLES else self.panda

    def table(self, panda_table: str) -> str:
        """One of PanDA's tables, qualified and quoted."""
        return f"{quoted(self.schema_of(panda_table))}.{quoted(panda_table)}"

    def own(self, table: str) -> str:
        """One of our own tables, qualified and quoted."""
        return f"{quoted(OWN_SCHEMA)}.{quoted(table)}"

    def sql(self, text: str) -> str:
        """``text`` with ``{panda}``, ``{meta}`` and ``{broker}`` replaced by the quoted schemas.

        Only these three words are touched, so JSON braces need no doubling.
        """
        return (
            text.replace("{panda}", quoted(self.panda))
            .replace("{meta}", quoted(self.meta))
            .replace("{broker}", quoted(OWN_SCHEMA))
        )
