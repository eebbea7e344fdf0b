"""Shared code of the benchmarks: a separate server, loaded scenarios, the best of several timings, and reports."""

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
    """Yield a fresh embedded database with the scenario, removed at the end; one in ``home`` is filled once and kept.

    ``settings``: additional settings of the server.
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


#: The default folder of reports; not a part of the project.
RESULTS = Path(__file__).parent / "results"


def read_cycle(database: Database) -> tuple[Snapshot, CycleWork]:
    """Read the snapshot and the work of a cycle."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        reader = GridReader("live", resources.path("config/sources.yaml"))
        grid = reader.read(connection, catalogue, NOW, lambda: None)
        return grid.snapshot, load_work(connection, catalogue, WorkSelection())


def best_of(rounds: int, action: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds of the fastest of several rounds, and the last result."""
    seconds = []
    for _ in range(rounds):
        start_s = perf_counter()
        result = action()
        seconds.append(perf_counter() - start_s)
    return min(seconds), result


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process so far, or NaN if the system does not report them."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return float("nan")


def folder_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the folder of the report: ``folder``, by default :data:`RESULTS`."""
    parser.add_argument("folder", nargs="?", type=_folder, default=RESULTS, help="where the report goes")


def asked_folder(words: Sequence[str] | None = None) -> Path:
    """Return the folder for the report of a benchmark without options: the only argument, by default :data:`RESULTS`.

    Call it before anything is measured, so that a wrong argument costs no time.

    Args:
        words: the words of the command line; None: those of the process.

    Raises:
        SystemExit: there is an option, or a second argument.
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
    """Print the table, and write ``<name>.json`` into ``folder``, which is created if needed."""
    print_table(tuple(rows[0]), [tuple(row.values()) for row in rows], title=name)
    document: dict[str, Any] = {
        "benchmark": name,
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    document |= {"machine": platform.machine(), "measured_at": datetime.now(UTC).isoformat(), **facts, "rows": rows}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
