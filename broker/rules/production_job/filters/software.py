"""The queue must have the software and the hardware that the task requests."""

from __future__ import annotations

from broker.rules.contract import JobPairs
from broker.rules.shared.software_need import PRODUCTION_NEED, SoftwareRule


class Software(SoftwareRule[JobPairs]):
    """Rejects queues without the release, cache, nightly or container of the task, or without its CPU or GPU.

    Source: ATLAS Production Job Brokerage, release/cache availability.
    """

    name = "software"
    reading = PRODUCTION_NEED
