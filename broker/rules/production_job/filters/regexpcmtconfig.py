"""A platform pattern must match a platform of the queue."""

from __future__ import annotations

from broker.rules.contract import JobPairs
from broker.rules.shared.software_need import PRODUCTION_NEED, PlatformRule


class Regexpcmtconfig(PlatformRule[JobPairs]):
    """Rejects queues that have everything else, but no platform that matches the pattern of the task.

    Source: ATLAS Production Job Brokerage, checks for CPU and/or GPU hardware (regexp in sw_platform).
    """

    name = "regexpcmtconfig"
    reading = PRODUCTION_NEED
