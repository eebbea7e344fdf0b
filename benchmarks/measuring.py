"""What the benchmarks share: a server of their own, scenarios loaded into it, the best of several timings, reports."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from agents.brokerage.grid_reading import GridReader
from benchmarks.columns import ColumnScenario
from broker import __version__, resources
from broker.cli.output import print_table
from broker.snapshot.snapshot import Snapshot
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.schema.migrate import upgrade
from broker.work.assemble import CycleWork

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)

T = TypeVar("T")


@contextmanager
def loaded(
    scenario: ColumnScenario, home: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Database]:
    """A fresh embedded database with the scenario in it; gone at the end. One in ``home`` is made once, and stays.

    ``settings``: of the server, beside those that it has by default.
    """
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        fresh = home is None or not (home / "pgdata").exists()
        server = EmbeddedServer(home or Path(folder), settings)
        database = Database(server.start(), on_close=server.stop)
        try:
            upgrade(database)
            if fresh:
                with database.begin() as connection:
                    scenario.copy_into(Database.raw(connection), database.names)
                with database.autocommit() as connection:
                    connection.exec_driver_sql("ANALYZE")
            yield database
        finally:
            database.close()


#: Where reports go that nobody wants elsewhere; not a part of the project.
RESULTS = Path(__file__).parent / "results"


def read_cycle(database: Database) -> tuple[Snapshot, CycleWork]:
    """The snapshot and the work of a cycle."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        reader = GridReader("live", resources.path("config/sources.yaml"))
        grid = reader.read(connection, catalogue, NOW, lambda: None)
        return grid.snapshot, load_work(connection, catalogue, WorkSelection())


def best_of(rounds: int, action: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the fastest of several rounds, and the last result."""
    seconds = []
    for _ in range(rounds):
        started = perf_counter()
        result = action()
        seconds.append(perf_counter() - started)
    return min(seconds), result


def cpu_of(process: int) -> float:
    """Seconds of a processor that a process took so far; NaN where the system does not tell."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return float("nan")


def folder_argument(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be told where its report goes: ``folder``, by default :data:`RESULTS`."""
    parser.add_argument("folder", nargs="?", type=_folder, default=RESULTS, help="where the report goes")


def asked_folder(words: Sequence[str] | None = None) -> Path:
    """Where the report of a benchmark without options goes: the one argument, by default :data:`RESULTS`.

    Asked before anything is measured, so that a wrong word costs nothing.

    Args:
        words: of the command line; None takes those of the process.

    Raises:
        SystemExit: there is an option, or a second word.
    """
    parser = argparse.ArgumentParser()
    folder_argument(parser)
    folder: Path = parser.parse_args(words).folder
    return folder


def _folder(word: str) -> Path:
    if not word or word.startswith("-"):
        raise argparse.ArgumentTypeError(f"{word!r} is no folder: options stand before it, and it begins with no -")
    return Path(word)


def report(folder: Path, name: str, rows: list[dict[str, Any]], **facts: Any) -> None:
    """Print the table, and write ``<name>.json`` into ``folder``, which is made."""
    print_table(tuple(rows[0]), [tuple(row.values()) for row in rows], title=name)
    about: dict[str, Any] = {
        "benchmark": name,
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    about |= {"machine": platform.machine(), "measured_at": datetime.now(UTC).isoformat(), **facts, "rows": rows}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
