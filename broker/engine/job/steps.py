"""The steps of a job brokerage that are no rules, each replaceable by a profile."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.engine.job.initial_list import InitialList
from broker.engine.job.input_lookup import InputLookup
from broker.engine.job.job_count_reading import JobCountReading
from broker.engine.job.placement import Placement
from broker.engine.job.running import Running
from broker.engine.job.snapshot_reading import SnapshotReading
from broker.engine.job.urgency import Urgency
from broker.engine.job.veto import Veto


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
