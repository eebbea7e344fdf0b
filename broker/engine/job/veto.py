"""Vetoes: reasons to keep a whole chunk from being brokered, whatever the queue.

PanDA ends the brokerage of a task in these cases with an error; here the chunk waits, with a reason of its own.
Source: PanDA production and analysis brokerage, exceptions that end the brokerage of a chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from broker.domain.analysis import NO_CACHE, what_is_run
from broker.domain.arrays import Bools, Ints, texts
from broker.domain.estimates import is_hs06
from broker.domain.work import WorkTable
from broker.engine.job.input_faults import INPUT_FAULTS
from broker.rules.contract import Options, Reason, Step
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.global_share_names import GLOBAL_SHARES

Cause = Literal[
    "release_without_dash",
    "files_without_ramcount",
    "cpu_figures_missing",
    "share_of_resource_queue_unknown",
    "share_unknown",
    "cache_without_version",
    "core_count_unset",
]


class VetoOptions(Options):
    """Which cases keep a chunk from being brokered: none by default.

    Attributes:
        causes: the cases, which are also the reasons that are shown.
    """

    causes: tuple[Cause, ...] = ()


OF_ANY_QUEUE: frozenset[Cause] = frozenset({"files_without_ramcount", "core_count_unset"})
"""Causes that block users' chunks even where the task names its one queue; the others are not checked there."""

_CORRECT_SHARE = "Operators correct the share of the task, or add it to the global shares."
VETO_REASONS = (
    Reason(
        code="release_without_dash",
        title="the release of the task has no dash, so that its version is unknown",
        who="you",
        cure="Name the release as `NAME-VERSION` (`transHome` of the task), such as `Athena-24.0.41`.",
    ),
    Reason(
        code="files_without_ramcount",
        title="the files of the input state no memory, although their task does",
        who="ask",
        cure="Operators fill `ramCount` of the files, which tasks that state memory need.",
    ),
    Reason(
        code="cpu_figures_missing",
        title="the task gives CPU time in HS06 s, without an efficiency or a base walltime",
        who="you",
        cure="Give `cpuEfficiency` and `baseWalltime` with `cpuTime`, or leave out its unit.",
    ),
    Reason(
        code="share_of_resource_queue_unknown",
        title="the global share of the task, which is in a Resource work queue, does not exist",
        who="ask",
        cure=_CORRECT_SHARE,
    ),
    Reason(
        code="share_unknown",
        title="the global share of the task does not exist",
        who="ask",
        cure=_CORRECT_SHARE,
    ),
    Reason(
        code="cache_without_version",
        title="the software cache of the task has no dash, so that its version is unknown",
        who="you",
        cure="Name the cache as `NAME-VERSION` in `transHome` of the task.",
    ),
    Reason(
        code="core_count_unset",
        title="the task has no number of cores, by which the time of its jobs is divided to estimate their number",
        who="you",
        cure="State `coreCount` of the task, 1 or more.",
    ),
)


class Veto(Step):
    """Chunks that no queue may take."""

    gives = VETO_REASONS

    name = "veto"
    title = "What keeps a whole chunk from being brokered"
    options: VetoOptions = VetoOptions()

    def needed_sources(self) -> tuple[str, ...]:
        """The names of global shares, where a cause needs them."""
        ask = {"share_unknown", "share_of_resource_queue_unknown"}
        return (GLOBAL_SHARES,) if ask.intersection(self.options.causes) else ()

    def reasons(self, chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> list[str]:
        """(T,) the reason for each chunk, empty for none.

        Args:
            chunks: columns (T,).
            initial: (T, Q) its first candidates.
            snapshot: the grid.
        """
        result = texts([""] * len(chunks))
        for cause in reversed(self.options.causes):
            result[_CASES[cause](chunks, initial, snapshot)] = cause
        return [str(reason) for reason in result]


def blocked_chunks(chunks: WorkTable, nucleus: Ints, vetoes: Sequence[str], fault: Ints) -> list[str]:
    """(T,) why each chunk cannot be brokered whatever the queues are, empty if it can.

    Args:
        chunks: columns (T,).
        nucleus: (T,) number of the nucleus, negative where it is not known.
        vetoes: (T,) reasons from :class:`Veto`.
        fault: (T,) what is wrong with the input, see INPUT_FAULTS.
    """
    nuclei = zip(chunks.nucleus.tolist(), nucleus.tolist(), strict=True)
    unknown_nucleus = [name is not None and number < 0 for name, number in nuclei]
    rows = zip(unknown_nucleus, vetoes, fault.tolist(), strict=True)
    return ["unknown_nucleus" if unknown else veto or INPUT_FAULTS[code] for unknown, veto, code in rows]


def _release_without_dash(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    return np.array([home is not None and "-" not in home for home in chunks.transhome], dtype=np.bool_)


def _cache_without_version(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    # in users' tasks, the text after the name of the transformation is split at its first dash
    caches = [None if home in (None, NO_CACHE) else what_is_run(home) for home in chunks.transhome]
    return np.array([cache is not None and "-" not in cache for cache in caches], dtype=np.bool_)


def _core_count_unset(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    # for the weight, the number of users' jobs is estimated by dividing their time, known or not, by the task's cores
    return np.asarray(np.nan_to_num(chunks.corecount) == 0)


def _files_without_ramcount(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    task_memory = np.where(chunks.merging, chunks.mergeramcount, chunks.task_ramcount)
    return np.asarray(np.isnan(chunks.ramcount) & (np.nan_to_num(task_memory) != 0))


def _cpu_figures_missing(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    return np.asarray(is_hs06(chunks.cputimeunit) & (np.isnan(chunks.cpuefficiency) | np.isnan(chunks.basewalltime)))


def _is_special(chunks: WorkTable, snapshot: Snapshot) -> Bools:
    special = snapshot.jobs.resource_work_queues
    return np.array([queue == queue and int(queue) in special for queue in chunks.workqueue_id], dtype=np.bool_)


def _has_share(chunks: WorkTable, snapshot: Snapshot) -> Bools:
    # without the list of shares, as in an older snapshot, none is unknown
    shares = snapshot.offered.get(GLOBAL_SHARES)
    return np.array([shares is None or share in shares for share in chunks.gshare], dtype=np.bool_)


def _share_of_resource_queue_unknown(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    return np.asarray(_is_special(chunks, snapshot) & ~_has_share(chunks, snapshot))


def _share_unknown(chunks: WorkTable, initial: Bools, snapshot: Snapshot) -> Bools:
    return np.asarray(~_is_special(chunks, snapshot) & ~_has_share(chunks, snapshot))


_CASES = {
    "release_without_dash": _release_without_dash,
    "files_without_ramcount": _files_without_ramcount,
    "cpu_figures_missing": _cpu_figures_missing,
    "share_of_resource_queue_unknown": _share_of_resource_queue_unknown,
    "share_unknown": _share_unknown,
    "cache_without_version": _cache_without_version,
    "core_count_unset": _core_count_unset,
}
