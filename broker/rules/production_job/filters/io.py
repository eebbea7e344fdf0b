"""Tasks of high IO intensity run where their input is."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.arrays import either
from broker.domain.decisions import IOINTENSITY
from broker.domain.estimates import is_event_service
from broker.domain.facts import JobFacts, not_single
from broker.rules.contract import (
    Bools,
    Floats,
    GroupFilter,
    JobPairs,
    Observation,
    Options,
    Reason,
    TuningView,
    Value,
    number,
)

INTENSITY_CUTOFF = "IO_INTENSITY_CUTOFF"
SIZE_CUTOFF = "SIZE_CUTOFF_TO_MOVE_INPUT"
NUMBER_CUTOFF = "NUM_CUTOFF_TO_MOVE_INPUT"
GB = 1024.0**3
MB = 1024.0**2


class IoOptions(Options):
    """What may be missing, and for whom.

    Attributes:
        limit: less than the cut-offs, in bytes; or also exactly as much, in whole MB.
        cloned: event service with job cloning is exempt like any other, or checked like other tasks.
    """

    limit: Literal["below", "up_to_whole_mb"] = "below"
    cloned: Literal["exempt", "asked"] = "exempt"


class Io(GroupFilter[JobPairs]):
    """Keeps queues that lack less input than the cut-offs (GB, files), for an IO intensity above its cut-off (kB/s).

    Queues with enough on disk come first; if there is none, those with enough on disk or tape; if there is none either,
    all are kept. Not for merging, event service, chunks without input and a single pre-assigned queue. Source: ATLAS
    Production Job Brokerage, ioIntensity; PanDA production brokerage, IO check.
    """

    name = "io"
    reason = Reason(
        code="io",
        title="Little input has to be moved, for high IO intensity",
        violation="Too much input would have to move to the queue",
        no_candidate="has enough of the input for so much input and output",
        who="you",
        cure="Copy the input to a site with a replication rule in Rucio, or lower `ioIntensity` of the task if its "
        "jobs read less.",
        requests=(IOINTENSITY,),
    )
    keys = (INTENSITY_CUTOFF, SIZE_CUTOFF, NUMBER_CUTOFF)
    sources = ("replicas",)
    unknown_policy = "keep"
    options: IoOptions = IoOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks with input and a high IO intensity."""
        intense = (pairs.chunks.iointensity > pairs.tuning.number(INTENSITY_CUTOFF)) & (pairs.facts.total_bytes > 0)
        every = self.options.cloned == "exempt"
        served = is_event_service(pairs.chunks.eventservice) if every else pairs.facts.event_service
        exempt = pairs.chunks.merging | served
        return np.asarray(intense & ~exempt & not_single(pairs.facts))

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        """(T, Q): True where little input has to be moved, for high IO intensity."""
        on_disk = self._is_little(pairs, "available_bytes", "available_files")
        anywhere = on_disk | self._is_little(pairs, "available_tape_bytes", "available_tape_files")
        some_on_disk = np.asarray((alive & on_disk).any(axis=1, keepdims=True))
        some_anywhere = (alive & anywhere).any(axis=1, keepdims=True)
        return either(some_on_disk, on_disk, anywhere | ~some_anywhere)

    def _is_little(self, pairs: JobPairs, bytes_there: str, files_there: str) -> Bools:
        """(T, Q): true where little is missing, according to the facts of these names."""
        is_little = _is_below if self.options.limit == "below" else _is_up_to_whole_mb
        facts, by_queue = pairs.facts, pairs.facts.by_kind(bytes_there)
        missing = facts.total_bytes - np.nan_to_num(by_queue.by_chunk)
        missing_files = facts.total_files - np.nan_to_num(facts.by_kind(files_there).by_chunk)
        return np.asarray(by_queue.of_chunks(is_little(missing, missing_files, pairs.tuning)).every)

    def observe(self, pairs: JobPairs) -> Observation:
        """The bytes missing on disk, or the missing files if only these are too many."""
        bytes_, files = _missing(pairs.facts, pairs.facts.available_bytes, pairs.facts.available_files)
        inputs: dict[str, Value] = {
            "missing_bytes": number(bytes_),
            "missing_files": number(files),
            "missing_files_with_tape": number(
                _missing(pairs.facts, pairs.facts.available_tape_bytes, pairs.facts.available_tape_files)[1]
            ),
            "total_bytes": number(pairs.facts.total_bytes),
        }
        size_limit, file_limit = pairs.tuning.number(SIZE_CUTOFF) * GB, pairs.tuning.number(NUMBER_CUTOFF)
        if bytes_.item() < size_limit and not files.item() < file_limit:
            return Observation(number(files), "<", file_limit, "files", NUMBER_CUTOFF, inputs)
        return Observation(number(bytes_), "<", size_limit, "bytes", SIZE_CUTOFF, inputs)


def _missing(facts: JobFacts, bytes_there: Floats, files_there: Floats) -> tuple[Floats, Floats]:
    return facts.total_bytes - np.nan_to_num(bytes_there), facts.total_files - np.nan_to_num(files_there)


def _is_below(missing_bytes: Floats, missing_files: Floats, tuning: TuningView) -> Bools:
    return np.asarray(
        (missing_bytes < tuning.number(SIZE_CUTOFF) * GB) & (missing_files < tuning.number(NUMBER_CUTOFF))
    )


def _is_up_to_whole_mb(missing_bytes: Floats, missing_files: Floats, tuning: TuningView) -> Bools:
    few = missing_files <= tuning.number(NUMBER_CUTOFF)
    return np.asarray((np.floor(missing_bytes / MB) <= tuning.number(SIZE_CUTOFF) * 1024.0) & few)
