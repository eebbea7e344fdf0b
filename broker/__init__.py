"""Workload brokerage for grids of batch queues."""

from __future__ import annotations

__version__ = "1.0.0"
