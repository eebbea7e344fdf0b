"""Workload brokerage for grids of batch queues."""

from __future__ import annotations

__version__ = "0.1.0"
