"""Queues that read only local data must have all of it."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, Value, flag


class FileUnavailable(Filter[AnalysisPairs]):
    """A queue that reads only local data has all files of the chunk.

    Rejects queues with ``use_only_local_data`` in their catchall that lack files of some dataset both on disk and on
    tape. Datasets without a complete replica on a disk anywhere do not count, nor do distributed ones in a pass with
    the locality check.

    Source: PanDA analysis brokerage, file availability.
    """

    name = "file_unavailable"
    reason = Reason(
        code="fileunavailable",
        title="A queue that reads only local data has all files of the chunk",
        violation="The queue reads local data only and does not have all files of the input",
        no_candidate="has all files of the input",
        who="wait",
        cure="Put the files on a storage of the queue with a replication rule in Rucio, or wait until they are there.",
    )
    # PanDA looks for the files after both passes
    temporary_issue = True
    lacks_files = True
    sources = ("storages",)
    provenance = "PanDA analysis brokerage, file availability"

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q), or (1, 1) if no file is missing: True where the queue has all files or reads remotely."""
        lacks = pairs.facts.by_kind("lacks_files")
        return np.asarray(~lacks.every if lacks.table.any() else [[True]])

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether files are missing."""
        inputs: dict[str, Value] = {"use_only_local_data": flag(pairs.candidates.use_only_local_data)}
        return Observation(flag(pairs.facts.lacks_files), "==", False, "-", "queue.catchall", inputs)
