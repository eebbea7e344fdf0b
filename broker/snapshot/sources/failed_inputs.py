"""The source ``failed_inputs``: input files waiting for their next attempt, by the queues at which they failed."""

from __future__ import annotations

from broker.domain.failed_inputs import FailedFiles, FailedInputs
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead
from broker.snapshot.sources.queue_health import MAX_AGE_S

FAILED_INPUTS = "failed_inputs"


class FailedInputsSource(Source):
    """Failed files, as stored by the agent ``outcomes``, that are ready again."""

    name = FAILED_INPUTS
    reads = (
        StatementRead(
            name=FAILED_INPUTS,
            columns_stored=("jeditaskid", "datasetid", "queue", "files", "last_s"),
            # a file that failed at two nodes of a queue counts once
            statement="SELECT jeditaskid, datasetid, queue, count(DISTINCT fileid) AS files,"
            " extract(epoch FROM max(failed_at))::float8 AS last_s"
            " FROM broker.failed_inputs AS failed JOIN {contents} AS file USING (jeditaskid, datasetid, fileid)"
            " WHERE file.status = 'ready' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            tables={"contents": ("jedi_dataset_contents", ("jeditaskid", "datasetid", "fileid", "status"))},
        ),
    )
    limit = SourceLimit(max_age_s=MAX_AGE_S)
    aged_by = "outcomes"

    def build(self, raw: RawSource, snapshot: Snapshot) -> FailedInputs:
        """Build the files by task and dataset, then by queue."""
        by_dataset: dict[tuple[int, int], dict[str, FailedFiles]] = {}
        for row in raw.rows(FAILED_INPUTS).records():
            of_dataset = by_dataset.setdefault((int(row["jeditaskid"]), int(row["datasetid"])), {})
            of_dataset[str(row["queue"])] = FailedFiles(int(row["files"]), float(row["last_s"]))
        return by_dataset
