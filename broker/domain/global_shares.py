"""Names of global shares that mean something."""

from __future__ import annotations

DEFAULT_SHARE = "default"
"""The share of tasks that name none, where it is on record."""
