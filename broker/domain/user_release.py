"""Parse the ``transHome`` of a user's task into the release that it runs.

Source: ATLAS Analysis Job Brokerage, release/cache availability.
"""

from __future__ import annotations

import re

#: A task of the transformation alone: its release is in ``transUses``.
NO_CACHE = "AnalysisTransforms"
_TRANSFORMS = re.compile(r"^[^-]+-*")


def what_is_run(transhome: str) -> str:
    """Project and version: the name of the transformation in front is dropped, and ``_`` stands for ``-``."""
    return _TRANSFORMS.sub("", transhome).replace("_", "-")
