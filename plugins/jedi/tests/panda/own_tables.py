"""Our own tables, made equal to PanDA's in names and types of columns: what ours lack is added from ``columns.csv``.

``columns.csv`` has PanDA's tables as a new installation has them (PanDA's schema 0.1.6 for PostgreSQL): schema, table,
column, type, whether it must not be NULL, and its default. Only keys are NOT NULL in ours, so that any scenario loads.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("columns.csv")
VERSION = "0.1.6"
#: Whose numbers PanDA's classes draw.
SEQUENCES = (
    "doma_panda.filestable4_row_id_seq",
    "doma_panda.group_jobid_seq",
    "doma_panda.jedi_dataset_cont_fileid_seq",
    "doma_panda.jedi_datasets_id_seq",
    "doma_panda.jedi_output_template_id_seq",
    "doma_panda.jobsdefined4_pandaid_seq",
    "doma_panda.subcounter_subid_seq",
    "doma_pandameta.users_id_seq",
)
#: Ours has no default where PanDA's stands for an instant that is not known.
_NO_DEFAULT = ("to_date", "LOCALTIMESTAMP", "CURRENT_TIMESTAMP")
_READ = """
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE n.nspname IN ('doma_panda', 'doma_pandameta', 'doma_deft') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY n.nspname, c.relname, a.attnum"""


class Column(NamedTuple):
    """One column of a table of PanDA's.

    Attributes:
        schema: its schema.
        table: its table.
        name: its name, in small letters.
        type: as PostgreSQL writes it.
        needed: ``!`` where it must not be NULL, else empty.
        default: an expression, or empty.
    """

    schema: str
    table: str
    name: str
    type: str
    needed: str
    default: str


def known_columns() -> list[Column]:
    """The columns of ``columns.csv``."""
    with FILE.open(encoding="utf-8", newline="") as rows:
        return [Column(*row) for row in csv.reader(rows)][1:]


def read_columns(connection: Any) -> list[Column]:
    """The columns that a database has."""
    with connection.cursor() as cursor:
        cursor.execute(_READ)
        columns = [Column(*row[:4], "!" if row[4] else "", row[5]) for row in cursor.fetchall()]
    connection.commit()
    return columns


def complete(connection: Any) -> None:
    """Add the tables, columns and sequences that ours lack, and give each column the type that it has in PanDA's."""
    present = {one[:3]: one.type for one in read_columns(connection)}
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS doma_deft")
        for one in known_columns():
            table = f"{one.schema}.{one.table}"
            default = "" if not one.default or one.default.startswith(_NO_DEFAULT) else f" DEFAULT {one.default}"
            if one[:3] not in present:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} ()")
                cursor.execute(f'ALTER TABLE {table} ADD COLUMN "{one.name}" {one.type}{default}')
            elif present[one[:3]] != one.type:
                cursor.execute(f'ALTER TABLE {table} ALTER COLUMN "{one.name}" TYPE {one.type}')
        for name in SEQUENCES:
            cursor.execute(f"CREATE SEQUENCE IF NOT EXISTS {name}")
    connection.commit()
