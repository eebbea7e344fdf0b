"""How a schema step affects running services: whether it only adds, and which locks it takes and for how long.

Determined from the text of the step. Source: PostgreSQL documentation, 13.3 (explicit locking), ALTER TABLE (notes),
CREATE INDEX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from broker.store.connection.tables import Migration

Held = Literal["moment", "scan", "index", "rewrite", "unknown"]
"""How long a lock is held: while the catalogue is changed, or while the whole table is read, indexed or rewritten."""

_OLDEST_WRITER = re.compile(r"^-- oldest writer: (\d+\.\d+\.\d+)\s*$", re.MULTILINE)
_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$|;|[^-'$;]+|.", re.DOTALL)

_NAME = r"((?:\w+\.)?\w+)"
_CREATED = re.compile(rf"CREATE (?:TABLE|VIEW)(?: IF NOT EXISTS)? {_NAME}", re.IGNORECASE)
_ALTERED = re.compile(rf"ALTER TABLE(?: IF EXISTS)?(?: ONLY)? {_NAME} (.*)", re.IGNORECASE | re.DOTALL)
_INDEXED = re.compile(rf"CREATE (UNIQUE )?INDEX(?: IF NOT EXISTS)?(?: \w+)? ON(?: ONLY)? {_NAME}", re.IGNORECASE)
_PARTITION = re.compile(rf"CREATE TABLE \S+ PARTITION OF {_NAME}", re.IGNORECASE)
_COMMENTED = re.compile(rf"COMMENT ON (?:TABLE|COLUMN) {_NAME}", re.IGNORECASE)
_WRITTEN = re.compile(rf"(?:INSERT INTO|UPDATE|DELETE FROM) {_NAME}", re.IGNORECASE)
_UNINDEXED = re.compile(rf"DROP INDEX (?:IF EXISTS )?{_NAME}", re.IGNORECASE)
_TRIGGERED = re.compile(rf"CREATE (?:OR REPLACE )?(?:CONSTRAINT )?TRIGGER .*? ON {_NAME}", re.IGNORECASE | re.DOTALL)
_ADDS = re.compile(
    r"CREATE (?:TABLE|SEQUENCE|SCHEMA|(?:OR REPLACE )?VIEW|(?:OR REPLACE )?FUNCTION|TYPE)\b|ALTER SEQUENCE\b|GRANT\b"
    r"|SELECT\b|ALTER INDEX \S+ RENAME\b|SET LOCAL\b|CREATE EXTENSION\b",
    re.IGNORECASE,
)
# clauses of ALTER TABLE that add without touching a row
_ADD_COLUMN = re.compile(
    r"ADD (?:COLUMN )?(?:IF NOT EXISTS )?(?!CONSTRAINT|PRIMARY|UNIQUE|CHECK|FOREIGN)\w+ ", re.IGNORECASE
)
_HARMLESS = re.compile(
    r"ALTER (?:COLUMN )?\w+ (?:SET STORAGE|SET STATISTICS|SET DEFAULT|DROP NOT NULL|DROP DEFAULT)|SET \(|RESET \(",
    re.IGNORECASE,
)
_FILLS = re.compile(
    r"GENERATED|\bserial\b|\bbigserial\b|DEFAULT (?:nextval|clock_timestamp|gen_random_uuid|random)\b", re.IGNORECASE
)
_READS = re.compile(r"SET NOT NULL|ADD (?:CONSTRAINT \w+ )?(?:CHECK|FOREIGN)|ATTACH PARTITION", re.IGNORECASE)
_INDEXES = re.compile(r"ADD (?:CONSTRAINT \w+ )?(?:PRIMARY KEY|UNIQUE)", re.IGNORECASE)
_REWRITES = re.compile(r"ALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE", re.IGNORECASE)
_ORDER: tuple[Held, ...] = ("moment", "scan", "index", "rewrite", "unknown")


@dataclass(frozen=True)
class TableLock:
    """A lock on a table that existed before the step.

    Attributes:
        table: schema and name of the table, or of an index if the step names only that.
        mode: PostgreSQL's name of the lock mode, such as ``ACCESS EXCLUSIVE``.
        stops: what it blocks: ``nothing`` (only statements of the same kind), ``writes``, or ``all``.
        held: for how long; all locks of a step are released together, at its end.
    """

    table: str
    mode: str
    stops: Literal["nothing", "writes", "all"]
    held: Held


@dataclass(frozen=True)
class StepEffects:
    """What a step does.

    Attributes:
        only_adds: whether releases that do not know the step can continue to write.
        oldest_writer: the release that the step names as the oldest that may write from then on; None: unchanged.
        locks: one for each table that existed before.
        more_than_adds: the beginnings of the statements that do more than add.
    """

    only_adds: bool
    oldest_writer: str | None
    locks: tuple[TableLock, ...]
    more_than_adds: tuple[str, ...]

    @property
    def is_safe(self) -> bool:
        """Whether running services of releases that do not know the step continue unaffected."""
        return self.only_adds and self.oldest_writer is None


def oldest_writer_of(step: Migration) -> str | None:
    """The release that a step names as the oldest that may write from then on; None if it names none."""
    match = _OLDEST_WRITER.search(step.text)
    return match[1] if match else None


def effects_of(step: Migration) -> StepEffects:
    """How a step affects services that are running during and after it."""
    new_tables: set[str] = set()
    locks: dict[str, TableLock] = {}
    more = []
    for statement in statements_of(step.text):
        adds, taken = _effect(statement, new_tables)
        if not adds:
            more.append(statement[:60])
        for lock in taken:
            known = locks.get(lock.table)
            if lock.table not in new_tables and (known is None or _strength(lock) > _strength(known)):
                locks[lock.table] = lock if known is None else _longer(lock, known)
            elif known is not None:
                locks[lock.table] = _longer(known, lock)
        created = _CREATED.match(statement)
        if created:
            new_tables.add(created[1])
    return StepEffects(not more, oldest_writer_of(step), tuple(locks.values()), tuple(more))


def statements_of(text: str) -> Iterator[str]:
    """The statements of a text, without comments, each on one line."""
    pieces: list[str] = []
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            yield from _if_any(pieces)
            pieces = []
        elif not token[0].startswith("--"):
            pieces.append(token[0])
    yield from _if_any(pieces)


def _if_any(pieces: list[str]) -> Iterator[str]:
    statement = " ".join("".join(pieces).split())
    if statement:
        yield statement


def _strength(lock: TableLock) -> int:
    return ("nothing", "writes", "all").index(lock.stops)


def _longer(stronger: TableLock, other: TableLock) -> TableLock:
    held = max(stronger.held, other.held, key=_ORDER.index)
    return TableLock(stronger.table, stronger.mode, stronger.stops, held)


def _effect(statement: str, new_tables: set[str]) -> tuple[bool, list[TableLock]]:
    """Whether a statement only adds, and its locks; ``new_tables`` are those the step created before it."""
    if match := _ALTERED.match(statement):
        adds, held = _altered(match[2])
        return adds or match[1] in new_tables, [TableLock(match[1], "ACCESS EXCLUSIVE", "all", held)]
    if match := _INDEXED.match(statement):
        return not match[1] or match[2] in new_tables, [TableLock(match[2], "SHARE", "writes", "index")]
    if match := _UNINDEXED.match(statement):
        # the statement does not name the table; its readers and writers wait for the index
        return False, [TableLock(match[1], "ACCESS EXCLUSIVE", "all", "moment")]
    if match := _PARTITION.match(statement):
        return True, [TableLock(match[1], "ACCESS EXCLUSIVE", "all", "moment")]
    if match := _COMMENTED.match(statement):
        table = ".".join(match[1].split(".")[:2])
        return True, [TableLock(table, "SHARE UPDATE EXCLUSIVE", "nothing", "moment")]
    if match := _TRIGGERED.match(statement):
        return match[1] in new_tables, [TableLock(match[1], "SHARE ROW EXCLUSIVE", "writes", "moment")]
    if match := _WRITTEN.match(statement):
        return match[1] in new_tables, [TableLock(match[1], "ROW EXCLUSIVE", "nothing", "rewrite")]
    return bool(_ADDS.match(statement)), []


def _altered(clauses: str) -> tuple[bool, Held]:
    """Whether the clauses of an ALTER TABLE only add, and how long its lock is held."""
    adds = True
    held: Held = "moment"
    for clause in re.split(r",\s*(?=(?:ADD|ALTER|DROP|SET|RENAME|ATTACH)\b)", clauses):
        clause_adds, clause_held = _clause(clause)
        adds, held = adds and clause_adds, max(held, clause_held, key=_ORDER.index)
    return adds, held


def _clause(clause: str) -> tuple[bool, Held]:
    if _ADD_COLUMN.match(clause):
        fills = bool(_FILLS.search(clause))
        may_be_left_out = "NOT NULL" not in clause.upper() or "DEFAULT" in clause.upper() or fills
        return may_be_left_out and "UNIQUE" not in clause.upper(), "rewrite" if fills else "moment"
    if _HARMLESS.match(clause):
        return True, "moment"
    if _REWRITES.match(clause):
        return False, "rewrite"
    if _INDEXES.match(clause):
        return False, "index"
    if _READS.search(clause):
        return False, "scan"
    return False, "moment" if re.match(r"DROP|RENAME|DETACH|ENABLE|DISABLE|OWNER", clause, re.IGNORECASE) else "unknown"
