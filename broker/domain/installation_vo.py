"""The VO of an installation: the one that counts wherever none is named."""

from __future__ import annotations

DEFAULT_VO = "atlas"
"""PanDA's own: keys that PanDA reads for this VO, whatever the task's, are read for the VO of the installation."""
