"""The steps of a job brokerage that are no rules, each replaceable by a profile.

The gdpconfig keys that a job brokerage reads beside its rules, and the limits of a chunk that they set.

Which chunks are express. Source: ATLAS Production Job Brokerage, urgent tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts
from broker.domain.queues import TIGHTENING_KEYS
from broker.domain.work import WorkTable
from broker.engine.job.count_facts import JobCountReading
from broker.engine.job.initial_list import InitialList
from broker.engine.job.input_lookup import InputLookup
from broker.engine.job.learned_running import AS_RUNNING, PRIOR
from broker.engine.job.placement import Placement
from broker.engine.job.running import Running
from broker.engine.job.snapshot_reading import SnapshotReading
from broker.engine.job.veto import Veto
from broker.gdpconfig import Tuning
from broker.rules.contract import Options, Step
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.queue_health import group_sizes

URGENT = "urgent"
URGENT_PRIORITY = 1000.0


class UrgencyOptions(Options):
    """Which priorities are express: ``from_1000``, or only those ``above_1000``."""

    priority: Literal["from_1000", "above_1000"] = "from_1000"


class Urgency(Step):
    """Express chunks: processingType ``urgent``, or a high priority."""

    name = "urgency"
    title = "Which chunks are express"
    options: UrgencyOptions = UrgencyOptions()

    def urgent(self, processingtype: Texts, priority: Floats) -> Bools:
        """Shape of the arguments."""
        high = priority >= URGENT_PRIORITY if self.options.priority == "from_1000" else priority > URGENT_PRIORITY
        return np.asarray((processingtype == URGENT) | high, dtype=np.bool_)


@dataclass(frozen=True)
class JobSteps:
    """The steps in the order in which they are done; the name of a field is that of the step."""

    snapshot_reading: SnapshotReading = field(default_factory=SnapshotReading)
    initial_list: InitialList = field(default_factory=InitialList)
    veto: Veto = field(default_factory=Veto)
    urgency: Urgency = field(default_factory=Urgency)
    job_count_reading: JobCountReading = field(default_factory=JobCountReading)
    running: Running = field(default_factory=Running)
    input_lookup: InputLookup = field(default_factory=InputLookup)
    placement: Placement = field(default_factory=Placement)


FAILING_QUEUES, TRIAL_JOBS = "LEARNED_FAILING_QUEUES", "LEARNED_TRIAL_JOBS"
#: The gdpconfig keys that the steps which are no rules read.
STEP_KEYS = (
    "MAX_MISSING_INPUT_FILES",
    "MIN_INPUT_COMPLETENESS",
    "IO_INTENSITY_CUTOFF",
    "MAX_PRIO_TO_BOOTSTRAP",
    "NQUEUELIMITSITE",
    "MIN_WEIGHT",
    *TIGHTENING_KEYS,
    FAILING_QUEUES,
    TRIAL_JOBS,
    AS_RUNNING,
    PRIOR,
)
#: Those of them that are limits of what moves within a cycle, and no part of any fact.
LIMIT_KEYS = frozenset(("NQUEUELIMITSITE", "MIN_WEIGHT"))


def job_groups(snapshot: Snapshot, chunks: WorkTable, tuning: Tuning) -> Ints:
    """(Q,) jobs that each candidate is given at a time, 0 for the usual number, below 0 one and no more."""
    return group_sizes(snapshot, chunks, probing=tuning.flag(FAILING_QUEUES), trial_jobs=int(tuning.number(TRIAL_JOBS)))


def chunk_limits(chunks: WorkTable, tuning: Tuning, urgency: Urgency) -> tuple[Floats, Floats, Bools]:
    """(T,) each: NQUEUELIMITSITE, MIN_WEIGHT, and whether candidates without any jobs may start."""
    shares, labels = list(chunks.gshare), list(chunks.prodsourcelabel)
    urgent = urgency.urgent(chunks.processingtype, chunks.currentpriority)
    may_bootstrap = (chunks.currentpriority <= tuning.number("MAX_PRIO_TO_BOOTSTRAP")) & ~chunks.merging & ~urgent
    return (
        tuning.by_suffix("NQUEUELIMITSITE", shares),
        tuning.by_two_suffixes("MIN_WEIGHT", labels, shares),
        np.asarray(may_bootstrap, dtype=np.bool_),
    )
