"""All columns of PanDA's tables that decisions need, as readers declare them, and which of them a database lacks."""

from __future__ import annotations

from dataclasses import dataclass

from broker.snapshot.source import JobStatistics
from broker.snapshot.source_list import GRID_SOURCES, OFFERED_SOURCES
from broker.store.connection.panda_columns import ColumnFault
from broker.store.connection.tables import TableCatalogue
from broker.store.reads import analysis_requests, chunk_reads, replica_reads, task_reads, task_states
from broker.store.snapshots.source_reads import source_faults

#: The columns read with the work of a cycle; a test ensures that no reader in ``broker.store.reads`` is left out.
WORK_COLUMNS = (
    chunk_reads.TASK_ROWS,
    chunk_reads.DATASET_ROWS,
    chunk_reads.FILE_ROWS,
    task_reads.ASSIGNING_ROWS,
    task_reads.COUNTED_ROWS,
    task_reads.PARAMETER_ROWS,
    task_states.STATE_ROWS,
    task_states.SHARE_ROWS,
    task_states.SKIPPED_ROWS,
    analysis_requests.USES_ROWS,
    analysis_requests.CLASS_ROWS,
    analysis_requests.ENDED_ROWS,
    replica_reads.ENDPOINT_ROWS,
    replica_reads.RANKED_ROWS,
    replica_reads.NAMED_ROWS,
)


@dataclass(frozen=True)
class NeededFault:
    """A table or column that a reader needs and PanDA's tables lack.

    Attributes:
        who: ``source <name>``, or ``work``.
        fault: the table or column, and its state.
    """

    who: str
    fault: ColumnFault


def work_faults(catalogue: TableCatalogue) -> tuple[ColumnFault, ...]:
    """The faults that prevent tasks, datasets and files from being read, each once."""
    return tuple(dict.fromkeys(fault for wanted in WORK_COLUMNS for fault in catalogue.faults(wanted)))


def needed_faults(catalogue: TableCatalogue, statistics: JobStatistics) -> list[NeededFault]:
    """All faults that prevent sources and work from being read.

    Args:
        catalogue: the tables of the database.
        statistics: how this installation counts jobs; the tables of the other way are not checked.
    """
    faults = [
        NeededFault(f"source {source.name}", fault)
        for source in (*GRID_SOURCES, *(offered() for offered in OFFERED_SOURCES))
        for fault in source_faults(catalogue, source, statistics)
    ]
    return [*faults, *(NeededFault("work", fault) for fault in work_faults(catalogue))]
