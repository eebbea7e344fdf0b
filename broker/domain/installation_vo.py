"""The VO of an installation, used wherever none is named."""

from __future__ import annotations

DEFAULT_VO = "atlas"
"""PanDA's own VO: keys that PanDA reads for it, whatever the task's VO, are read for the VO of the installation."""
